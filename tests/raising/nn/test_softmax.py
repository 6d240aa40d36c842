"""Softmax and LogSoftmax: where they are raised, and what is something else."""

from __future__ import annotations

from functools import partial

import jax
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Rewrite, fires, foreign

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.nn.softmax import LogSoftmax, LogSumExp, Softmax

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32) * 9
EDGES = X.copy()
EDGES[0, 0, 0], EDGES[1, 0], EDGES[1, 1, :3], EDGES[2, 0, 0] = np.nan, -np.inf, -np.inf, 3e38
LARGEST = float(np.finfo(np.float32).max)


def shifted(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    return b.Sub(x, b.ReduceMax(x, b.i64([axis]), keepdims=keepdims))


def total(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    return b.ReduceSum(x, b.i64([axis]), keepdims=keepdims)


def over(b: GraphBuilder, e: oir.Value, *axes: int) -> oir.Value:
    """e over its sum."""
    return b.Div(e, b.ReduceSum(e, b.i64(axes or (1,)), keepdims=1))


def guarded(b: GraphBuilder, r: oir.Value, **changed: object) -> oir.Value:
    """r where it is finite, else 0; one thing about it may be another."""
    given = {"limit": LARGEST, "test": "LessOrEqual", "of": r, "zero": 0.0, "dims": (), **changed}
    size = b.Abs(given["of"]) if given.get("size", True) else given["of"]
    is_finite = b.op(str(given["test"]), size, b.scalar_like(given["limit"], r))  # type: ignore[arg-type]
    zero = b.const(np.full(given["dims"], given["zero"], np.float32))  # type: ignore[call-overload]
    return b.Where(is_finite, r, zero)


def lse(
    b: GraphBuilder,
    x: oir.Value,
    inner: oir.Value | None = None,
    outer: oir.Value | None = None,
    summed: str = "ReduceSum",
    keepdims: int = 1,
) -> oir.Value:
    """max + Log(sum(Exp(x - max))) over the last axis, without Abs."""
    highest = guarded(b, b.ReduceMax(x, b.i64([2]), keepdims=1))
    inner, outer = (highest if y is None else y for y in (inner, outer))
    e = b.Exp(b.Sub(x, inner))
    return b.Neg(b.Add(b.Log(b.op(summed, e, b.i64([2]), keepdims=keepdims)), outer))


CONSTANTS = {
    "shifted": shifted,
    "total": total,
    "over": over,
    "guarded": guarded,
    "maximum": lambda b, x, axis=2: b.ReduceMax(x, b.i64([axis]), keepdims=1),
    "lse": lse,
    "foreign": lambda b, x: foreign(x),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("axis", "keepdims"), [(2, 1), (1, 1), (0, 1), (0, 0)])
def test_softmax(axis: int, keepdims: int, dtype: str) -> None:
    at = f"{axis}, {keepdims}"
    text = f"(e := Exp(shifted(x, {at})), Neg(e / total(e, {at})))[1]"
    made = rewrites(text, "Softmax Neg", {"x": X.astype(dtype)}, Softmax(), constants=CONSTANTS,
                    tolerance=5e-7)  # fmt: skip
    (node,) = (n for n in made.model.graph if n.op_type == "Softmax")
    assert node.attributes["axis"].as_int() == (-1 if axis == 2 else axis)


# Without a NaN: of those the bare ReduceMax of the runtime loses some.
FINITE = np.nan_to_num(EDGES, nan=0, posinf=np.inf, neginf=-np.inf)
WINDOWS = np.ascontiguousarray(np.moveaxis(X, 0, 1))[None]
RESHAPED = "(e := Exp(x - Reshape(ReduceMax(x, [3], keepdims=0), {dims})), e / total(e, 3))[1]"
TOKEN = "(y := Reshape(x, [{dims}]), e := Exp(y - {maximum}), e / total(e, {axis}))[2]"
SOFTMAXES: list[tuple[str, np.ndarray, str]] = [
    ("Neg(over(Exp(shifted(x, 2)), 2))", FINITE, "Softmax Neg"),
    # Without its axis the maximum of one row stands beside it.
    ("(e := Exp(shifted(x, 1, 0)), Neg(e / total(e, 1, 0)))[1]", X[0, :1], "Softmax Neg"),
    # As those of windows of one image, whose axis of extent 1 comes and goes.
    *((f"Neg({RESHAPED.format(dims=dims)})", WINDOWS, "Softmax Neg")
      for dims in ([4, 3, 1], [1, 4, 3, 1])),
    # Of one token's logits, whose axis of extent 1 the maximum still has.
    (TOKEN.format(dims="3, 5", maximum="ReduceMax(x, [2], keepdims=0)", axis=1),
     X[:, None, 0], "Reshape Softmax"),
    # Another axis of a square, and axes that the Reshape merges.
    (TOKEN.format(dims="4, 4", maximum="ReduceMax(x, [0], keepdims=0)", axis=0),
     X[0, :, :4, None], NOTHING),
    (TOKEN.format(dims="4, 4", maximum="Reshape(ReduceMax(x, [1], keepdims=0), [4, 1])", axis=1),
     X[:2, :, :2], NOTHING),
    ("over(Exp(shifted(x, 1)), 2)", X, NOTHING),
    ("over(Exp(shifted(x, 2)), 1)", X, NOTHING),
    # Of a square, a maximum over the last axis that lost it stands beside the first.
    ("(e := Exp(shifted(x, 1, 0)), e / total(e, 1, 0))[1]", X[0, :, :4], NOTHING),
    *((RESHAPED.format(dims=dims), X[None, :, :3, :3], NOTHING)
      for dims in ([1, 1, 3, 3], [1, 3, 1, 3], [3, 3])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "x", "left"), SOFTMAXES)
def test_softmax_of_shapes(text: str, x: np.ndarray, left: str) -> None:
    rewrites(text, left, {"x": x}, Softmax(), constants=CONSTANTS, tolerance=5e-7)


LOG = "(s := shifted(x, 1), Neg(s - Log(total(Exp(s), 1))))[1]"


def test_log_softmax() -> None:
    left = "LogSoftmax Neg"
    rewrites(LOG, left, {"x": X}, LogSoftmax(), constants=CONSTANTS, tolerance=5e-7)
    doubles = {"x": X.astype(np.float64)}
    rewrites(LOG, NOTHING, doubles, LogSoftmax(), constants=CONSTANTS)


NO_SOFTMAX = [
    "over(Exp(x))",
    "over(Exp(Neg(x)))",
    "over(Exp(x - y))",
    "over(Exp(x - Exp(y)))",
    "over(Exp(x - maximum(y, 1)))",
    "Exp(shifted(x, 1)) / y",
    "Exp(shifted(x, 1)) / Exp(y)",
    "Exp(shifted(x, 1)) / total(Exp(x), 1)",
    "(e := Exp(shifted(x, 1)), e / maximum(e, 1))[1]",
    "over(Exp(x - ReduceMean(x, [1], keepdims=1)))",
    "over(Neg(shifted(x, 1)))",
    "x / y",
    "over(Exp(x - ReduceMax(x, [1, 2], keepdims=1)), 1, 2)",
    "over(Exp(x - foreign(maximum(x, 1))))",
    "over(foreign(Exp(shifted(x, 1))))",
    "shifted(x, 1) - Log(y)",
    "shifted(x, 1) - Log(Exp(y))",
    "shifted(x, 1) - Log(total(Exp(x), 1))",
    "x - y",
    "Exp(x) - Exp(y)",
    "(s := shifted(x, 1), s - Log(total(Exp(s), 2)))[1]",
]


@pytest.mark.parametrize("text", NO_SOFTMAX)
def test_no_softmax(text: str) -> None:
    inputs = {"x": X[:, :, :4], "y": X[:, :, :4] + 1}
    assert not fires(graph(text, **CONSTANTS), inputs, Softmax(), LogSoftmax())


# -- ReduceLogSumExp -------------------------------------------------------------------------------


def log_sum_exp(
    b: GraphBuilder, x: oir.Value, axes: tuple[int, ...] = (2,), keepdims: int = 0
) -> oir.Value:
    """As jax.nn.logsumexp."""
    limit = float(ml_dtypes.finfo(x.dtype.numpy()).max)  # type: ignore[union-attr]

    def highest(keepdims: int) -> oir.Value:
        r = b.ReduceMax(x, b.i64(axes), keepdims=keepdims)
        is_finite = b.LessOrEqual(b.Abs(r), b.scalar_like(limit, x))
        return b.Where(is_finite, r, b.scalar_like(0, x))

    exponential = b.Exp(b.Sub(x, highest(1)))
    logarithm = b.Log(b.Abs(b.ReduceSum(exponential, b.i64(axes), keepdims=keepdims)))
    return b.Neg(b.Add(logarithm, highest(keepdims)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(2,), (0,), (1, 2), (0, 1, 2)])
def test_log_sum_exp(axes: tuple[int, ...], keepdims: int, dtype: type[np.floating]) -> None:
    build = lambda b, x: log_sum_exp(b, x, axes, keepdims)  # noqa: E731
    rewrite = Rewrite(build, {"x": X.astype(dtype)}, LogSumExp(), tolerance=5e-7)
    rewrite.gives("Neg", "ReduceLogSumExp")


def test_log_sum_exp_of_infinities_and_in_another_order() -> None:
    edges = np.nan_to_num(EDGES, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    left = "Neg ReduceLogSumExp"
    Rewrite(log_sum_exp, {"x": edges}, LogSumExp(), tolerance=5e-7).gives(*left.split())
    other = "(m := guarded(maximum(x)), Neg(m + Log(total(Exp(x - m), 2))))[1]"
    for text in ("lse(x)", other):
        rewrites(text, left, {"x": X}, LogSumExp(), constants=CONSTANTS, tolerance=5e-7)


@pytest.mark.parametrize("extent", [0, 1, 1024, 1025])
def test_log_sum_exp_of_nothing_or_too_much(extent: int) -> None:
    x = np.zeros((1, 2 if extent != 1 else 1, extent), np.float32)
    assert fires(log_sum_exp, {"x": x}, LogSumExp()) == (0 < extent < 1025)


WITHOUT_AXIS = (
    "(m := guarded(ReduceMax(x, [{axis}], keepdims=0)), "
    "Neg(Log(total(Exp(x - m), {axis}, 0)) + m))[1]"
)


@pytest.mark.parametrize(("shape", "axis"), [((1, 4, 5), 1), ((1, 1, 5), 2), ((1, 1, 4, 4), 2)])
def test_log_sum_exp_behind_axes_of_extent_1(shape: tuple[int, ...], axis: int) -> None:
    """The maximum broadcasts without its axis, too."""
    rewrites(WITHOUT_AXIS.format(axis=axis), "Neg ReduceLogSumExp",
             {"x": np.resize(EDGES[1:], shape)}, LogSumExp(), constants=CONSTANTS,
             tolerance=5e-7)  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), [((4, 4, 4), 1), ((4, 4, 4), 2), ((1, 4, 4), 2)])
def test_log_sum_exp_beside_other_rows(shape: tuple[int, ...], axis: int) -> None:
    """The maximum of one row stands beside another."""
    build = graph(WITHOUT_AXIS.format(axis=axis), **CONSTANTS)
    assert not fires(build, {"x": np.resize(X, shape)}, LogSumExp())


NO_LOG_SUM_EXP = [
    # No guard, operands, and maxima of others, inside or outside.
    "lse(x, maximum(x))",
    "lse(x, outer=maximum(x))",
    "lse(x, y, y)",
    "lse(x, outer=y)",
    "lse(x, guarded(maximum(y)))",
    "lse(x, outer=guarded(maximum(y)))",
    "lse(x, outer=guarded(Exp(x)))",
    "lse(x, outer=guarded(y))",
    "lse(x, outer=guarded(ReduceMin(x, [2], keepdims=1)))",
    "lse(x, guarded(maximum(x, 1)))",
    "lse(x, outer=guarded(maximum(x, 1)))",
    # Other guards.
    "lse(x, guarded(maximum(x), test='Less'))",
    "lse(x, guarded(maximum(x), limit=1e38))",
    "lse(x, guarded(maximum(x), zero=1.0))",
    "lse(x, guarded(maximum(x), size=False))",
    "lse(x, guarded(maximum(x), of=y))",
    "lse(x, Where(c, maximum(x), 0.0))",
    "lse(x, guarded(maximum(x), dims=(1,) * 4))",
    "lse(x, outer=guarded(maximum(x), dims=(1,) * 4))",
    # Other sums and logarithms.
    "lse(x, summed='ReduceMean')",
    "lse(x, keepdims=0)",
    "Log(x) + y",
    "Log(Exp(x)) + y",
    "Log(total(x, 2)) + y",
    "Log(total(Exp(x), 2)) + y",
    "Log(total(Exp(Neg(x)), 2)) + y",
    "x + y",
]


@pytest.mark.parametrize("text", NO_LOG_SUM_EXP)
def test_no_log_sum_exp(text: str) -> None:
    cube = np.resize(X, (4, 4, 4))
    inputs = {"x": cube, "y": cube + 1, "c": cube[:, :, :1] > 0}
    assert not fires(graph(text, **CONSTANTS), inputs, LogSumExp())


def test_a_target_without_log_sum_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fires(log_sum_exp, {"x": X}, LogSumExp())
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    assert not fires(log_sum_exp, {"x": X}, LogSumExp())


def test_bfloat16_stays() -> None:
    """Its constants are not known."""
    x = {"x": np.ones((2, 3, 4), ml_dtypes.bfloat16)}
    assert not fires(log_sum_exp, x, LogSumExp())
    assert not fires(graph("over(Exp(shifted(x, 1)))", **CONSTANTS), x, Softmax())


def test_log_sum_exp_in_jax() -> None:
    """Of NaN too, which the maximum of the program lets through."""
    program = hlo2onnx.translate(jax.jit(partial(jax.nn.logsumexp, axis=-1)).lower(EDGES))
    assert [node.op_type for node in program.model_proto.graph.node] == ["ReduceLogSumExp"]
    np.testing.assert_allclose(program(EDGES), jax.nn.logsumexp(EDGES, axis=-1), rtol=5e-7)

"""Softmax and LogSoftmax: where they are raised, and what is something else."""

from __future__ import annotations

from functools import partial

import jax
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, model_of

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter, apply_rules
from hlo2onnx.raising.rules.nn.softmax import LogSoftmax, LogSumExp, Softmax
from hlo2onnx.targets import load_target

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32) * 9
EDGES = X.copy()
EDGES[0, 0, 0], EDGES[1, 0], EDGES[1, 1, :3], EDGES[2, 0, 0] = np.nan, -np.inf, -np.inf, 3e38


def shifted(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    return b.Sub(x, b.ReduceMax(x, b.i64([axis]), keepdims=keepdims))


def total(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    return b.ReduceSum(x, b.i64([axis]), keepdims=keepdims)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("axis", "keepdims"), [(2, 1), (1, 1), (0, 1), (0, 0)])
def test_softmax(axis: int, keepdims: int, dtype: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, axis, keepdims))
        return b.Neg(b.Div(exponential, total(b, exponential, axis, keepdims)))

    Rewrite(build, {"x": X.astype(dtype)}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


def test_softmax_at_the_edges() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, 2))
        return b.Neg(b.Div(exponential, total(b, exponential, 2)))

    # Without a NaN: of those the bare ReduceMax of the runtime loses some.
    edges = np.nan_to_num(EDGES, nan=0, posinf=np.inf, neginf=-np.inf)
    Rewrite(build, {"x": edges}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


@pytest.mark.parametrize(("of_maximum", "of_sum"), [(1, 2), (2, 1)])
def test_softmax_needs_one_axis(of_maximum: int, of_sum: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, of_maximum))
        return b.Div(exponential, total(b, exponential, of_sum))

    Rewrite(build, {"x": X}, Softmax()).nothing()


def test_softmax_needs_the_maximum_of_its_own_operand() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        exponential = b.Exp(b.Sub(x, b.ReduceMax(y, b.i64([2]), keepdims=1)))
        return b.Div(exponential, total(b, exponential, 2))

    Rewrite(build, {"x": X, "y": X + 1}, Softmax()).nothing()


def test_softmax_needs_aligned_statistics() -> None:
    """Of a square, a maximum over the last axis that lost it stands beside the first."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, 1, keepdims=0))
        return b.Div(exponential, total(b, exponential, 1, keepdims=0))

    Rewrite(build, {"x": X[0, :, :4]}, Softmax()).nothing()


@pytest.mark.parametrize("dims", [(4, 3, 1), (1, 4, 3, 1)])
def test_softmax_of_reshaped_statistics(dims: tuple[int, ...]) -> None:
    """As those of windows of one image are, whose axis of extent 1 comes and goes."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        highest = b.ReduceMax(x, b.i64([3]), keepdims=0)
        exponential = b.Exp(b.Sub(x, b.Reshape(highest, b.i64(dims))))
        return b.Neg(b.Div(exponential, total(b, exponential, 3)))

    windows = np.ascontiguousarray(np.moveaxis(X, 0, 1))[None]
    Rewrite(build, {"x": windows}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


@pytest.mark.parametrize("dims", [(1, 1, 3, 3), (1, 3, 1, 3), (3, 3)])
def test_softmax_of_misplaced_statistics(dims: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        highest = b.ReduceMax(x, b.i64([3]), keepdims=0)
        exponential = b.Exp(b.Sub(x, b.Reshape(highest, b.i64(dims))))
        return b.Div(exponential, total(b, exponential, 3))

    Rewrite(build, {"x": X[None, :, :3, :3]}, Softmax()).nothing()


def test_log_softmax() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        moved = shifted(b, x, 1)
        return b.Neg(b.Sub(moved, b.Log(total(b, b.Exp(moved), 1))))

    Rewrite(build, {"x": X}, LogSoftmax(), tolerance=5e-7).gives("LogSoftmax", "Neg")


def test_log_softmax_needs_the_sum_of_its_exponentials() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sub(shifted(b, x, 1), b.Log(total(b, b.Exp(x), 1)))

    Rewrite(build, {"x": X / 9}, LogSoftmax()).nothing()


def log_sum_exp(
    b: GraphBuilder, x: oir.Value, *, axes: tuple[int, ...] = (2,), keepdims: int = 0, limit: float
) -> oir.Value:
    """As jax.nn.logsumexp."""

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
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        limit = float(np.finfo(dtype).max)
        return log_sum_exp(b, x, axes=axes, keepdims=keepdims, limit=limit)

    rewrite = Rewrite(build, {"x": X.astype(dtype)}, LogSumExp(), tolerance=5e-7)
    rewrite.gives("Neg", "ReduceLogSumExp")


LARGEST = float(np.finfo(np.float32).max)


def test_log_sum_exp_of_infinities() -> None:
    edges = np.nan_to_num(EDGES, nan=np.inf, posinf=np.inf, neginf=-np.inf)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=LARGEST)

    Rewrite(build, {"x": edges}, LogSumExp(), tolerance=5e-7).gives("Neg", "ReduceLogSumExp")


@pytest.mark.parametrize("extent", [0, 1025])
def test_log_sum_exp_of_nothing_or_too_much(extent: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=LARGEST)

    model = model_of(build, {"x": np.zeros((1, 2, extent), np.float32)})
    assert not apply_rules(model, [LogSumExp()], load_target("ort-cpu"))


def test_where_the_axis_stands() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        made = []
        for axis in (0, 1, 2):
            exponential = b.Exp(shifted(b, x, axis))
            made.append(b.Neg(b.Div(exponential, total(b, exponential, axis))))
        return made

    found = Rewrite(build, {"x": X}, Softmax(), tolerance=5e-7)
    axes = [n.attributes["axis"].as_int() for n in found.model.graph if n.op_type == "Softmax"]
    assert axes == [0, 1, -1]


def test_softmax_of_one_row() -> None:
    """Without its axis the maximum of one row stands beside it."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, 1, keepdims=0))
        return b.Neg(b.Div(exponential, total(b, exponential, 1, keepdims=0)))

    Rewrite(build, {"x": X[0, :1]}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


def of_maximum(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """A maximum that another operator makes, of the same name."""
    e = b.Exp(b.Sub(x, foreign(b.ReduceMax(x, b.i64([1]), keepdims=1))))
    return b.Div(e, total(b, e, 1))


def over(
    e: oir.Value, b: GraphBuilder, axes: tuple[int, ...] = (1,), of: oir.Value | None = None
) -> oir.Value:
    return b.Div(e, b.ReduceSum(e if of is None else of, b.i64(axes), keepdims=1))


NO_SOFTMAX: dict[str, Build] = {
    "nothing subtracted": lambda b, x, y: over(b.Exp(x), b),
    "a sum of something": lambda b, x, y: over(b.Exp(b.Neg(x)), b),
    "an operand subtracted": lambda b, x, y: over(b.Exp(b.Sub(x, y)), b),
    "an exponential subtracted": lambda b, x, y: over(b.Exp(b.Sub(x, b.Exp(y))), b),
    "over an operand": lambda b, x, y: b.Div(b.Exp(shifted(b, x, 1)), y),
    "over an exponential": lambda b, x, y: b.Div(b.Exp(shifted(b, x, 1)), b.Exp(y)),
    "over another sum": lambda b, x, y: over(b.Exp(shifted(b, x, 1)), b, of=b.Exp(x)),
    "over a maximum": lambda b, x, y: b.Div(
        e := b.Exp(shifted(b, x, 1)), b.ReduceMax(e, b.i64([1]), keepdims=1)
    ),
    "a mean subtracted": lambda b, x, y: over(
        b.Exp(b.Sub(x, b.ReduceMean(x, b.i64([1]), keepdims=1))), b
    ),
    "no exponential": lambda b, x, y: over(b.Neg(shifted(b, x, 1)), b),
    "operands": lambda b, x, y: b.Div(x, y),
    "several axes": lambda b, x, y: over(
        b.Exp(b.Sub(x, b.ReduceMax(x, b.i64([1, 2]), keepdims=1))), b, (1, 2)
    ),
    "a maximum of others": lambda b, x, y: of_maximum(b, x),
    "an exponential of others": lambda b, x, y: over(foreign(b.Exp(shifted(b, x, 1))), b),
    "a logarithm of an operand": lambda b, x, y: b.Sub(shifted(b, x, 1), b.Log(y)),
    "a logarithm of an exponential": lambda b, x, y: b.Sub(shifted(b, x, 1), b.Log(b.Exp(y))),
    "a difference": lambda b, x, y: b.Sub(x, y),
    "a difference of functions": lambda b, x, y: b.Sub(b.Exp(x), b.Exp(y)),
    "a logarithm of other axes": lambda b, x, y: b.Sub(
        s := shifted(b, x, 1), b.Log(total(b, b.Exp(s), 2))
    ),
}


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_no_softmax(name: str) -> None:
    inputs = {"x": X[:, :, :4], "y": X[:, :, :4] + 1}
    assert not fires(NO_SOFTMAX[name], inputs, Softmax(), LogSoftmax())


def test_log_softmax_of_doubles_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        moved = shifted(b, x, 1)
        return b.Neg(b.Sub(moved, b.Log(total(b, b.Exp(moved), 1))))

    Rewrite(build, {"x": X.astype(np.float64)}, LogSoftmax()).nothing()


def guarded(b: GraphBuilder, r: oir.Value, **changed: object) -> oir.Value:
    """r where it is finite, else 0; one thing about it may be another."""
    given = {"limit": LARGEST, "test": "LessOrEqual", "of": r, "zero": 0.0, "dims": (), **changed}
    size = b.Abs(given["of"]) if given.get("size", True) else given["of"]
    is_finite = b.op(str(given["test"]), size, b.scalar_like(given["limit"], r))  # type: ignore[arg-type]
    zero = b.const(np.full(given["dims"], given["zero"], np.float32))  # type: ignore[call-overload]
    return b.Where(given.get("condition", is_finite), r, zero)


def lse(
    b: GraphBuilder,
    x: oir.Value,
    inner: oir.Value | None = None,
    outer: oir.Value | None = None,
    swaps: bool = False,
    summed: str = "ReduceSum",
    keepdims: int = 1,
) -> oir.Value:
    """max + Log(sum(Exp(x - max))) over the last axis, without Abs."""
    highest = guarded(b, b.ReduceMax(x, b.i64([2]), keepdims=1))
    inner, outer = (highest if y is None else y for y in (inner, outer))
    e = b.Exp(b.Sub(x, inner))
    pair = (b.Log(b.op(summed, e, b.i64([2]), keepdims=keepdims)), outer)
    return b.Neg(b.Add(*pair[:: -1 if swaps else 1]))


def without_axis(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """As jax.nn.logsumexp, if one maximum without its axis serves for both."""
    r = b.ReduceMax(x, b.i64([axis]), keepdims=0)
    highest = b.Where(b.LessOrEqual(b.Abs(r), b.scalar_like(LARGEST, x)), r, b.scalar_like(0, x))
    return b.Neg(b.Add(b.Log(total(b, b.Exp(b.Sub(x, highest)), axis, keepdims=0)), highest))


@pytest.mark.parametrize(("shape", "axis"), [((1, 4, 5), 1), ((1, 1, 5), 2), ((1, 1, 4, 4), 2)])
def test_log_sum_exp_behind_axes_of_extent_1(shape: tuple[int, ...], axis: int) -> None:
    """The maximum broadcasts without its axis, too."""
    x = np.resize(EDGES[1:], shape)
    rewrite = Rewrite(lambda b, x: without_axis(b, x, axis), {"x": x}, LogSumExp(), tolerance=5e-7)
    rewrite.gives("Neg", "ReduceLogSumExp")


@pytest.mark.parametrize(("shape", "axis"), [((4, 4, 4), 1), ((4, 4, 4), 2), ((1, 4, 4), 2)])
def test_log_sum_exp_beside_other_rows(shape: tuple[int, ...], axis: int) -> None:
    """The maximum of one row stands beside another."""
    assert not fires(lambda b, x: without_axis(b, x, axis), {"x": np.resize(X, shape)}, LogSumExp())


@pytest.mark.parametrize("swaps", [False, True])
def test_log_sum_exp_in_both_orders(swaps: bool) -> None:
    found = Rewrite(lambda b, x: lse(b, x, swaps=swaps), {"x": X}, LogSumExp(), tolerance=5e-7)
    found.gives("Neg", "ReduceLogSumExp")


@pytest.mark.parametrize("extent", [1, 1024])
def test_log_sum_exp_of_little_and_most(extent: int) -> None:
    x = np.ones((1, 2 if extent > 1 else 1, extent), np.float32)
    assert fires(lambda b, x: log_sum_exp(b, x, limit=LARGEST), {"x": x}, LogSumExp())


def maximum(b: GraphBuilder, x: oir.Value, axis: int = 2) -> oir.Value:
    return b.ReduceMax(x, b.i64([axis]), keepdims=1)


NO_LOG_SUM_EXP: dict[str, Build] = {
    "no guard": lambda b, x, y: lse(b, x, inner=maximum(b, x)),
    "no guard outside": lambda b, x, y: lse(b, x, outer=maximum(b, x)),
    "an operand": lambda b, x, y: lse(b, x, inner=y, outer=y),
    "an operand outside": lambda b, x, y: lse(b, x, outer=y),
    "the maximum of another": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, y))),
    "the maximum of another outside": lambda b, x, y: lse(b, x, outer=guarded(b, maximum(b, y))),
    "no maximum outside": lambda b, x, y: lse(b, x, outer=guarded(b, b.Exp(x))),
    "an operand for the maximum outside": lambda b, x, y: lse(b, x, outer=guarded(b, y)),
    "a minimum outside": lambda b, x, y: lse(
        b, x, outer=guarded(b, b.ReduceMin(x, b.i64([2]), keepdims=1))
    ),
    "over another axis": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x, 1))),
    "over another axis outside": lambda b, x, y: lse(b, x, outer=guarded(b, maximum(b, x, 1))),
    "strictly": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), test="Less")),
    "another limit": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), limit=1e38)),
    "1 for infinity": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), zero=1.0)),
    "of both signs": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), size=False)),
    "something else asked": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), of=y)),
    "something given": lambda b, x, y, c: lse(b, x, inner=guarded(b, maximum(b, x), condition=c)),
    "more axes": lambda b, x, y: lse(b, x, inner=guarded(b, maximum(b, x), dims=(1,) * 4)),
    "more axes outside": lambda b, x, y: lse(b, x, outer=guarded(b, maximum(b, x), dims=(1,) * 4)),
    "another reduction": lambda b, x, y: lse(b, x, summed="ReduceMean"),
    "the sum without its axis": lambda b, x, y: lse(b, x, keepdims=0),
    "a logarithm of an operand": lambda b, x, y: b.Add(b.Log(x), y),
    "a logarithm of an exponential": lambda b, x, y: b.Add(b.Log(b.Exp(x)), y),
    "a logarithm of a sum": lambda b, x, y: b.Add(b.Log(total(b, x, 2)), y),
    "of exponentials of an operand": lambda b, x, y: b.Add(b.Log(total(b, b.Exp(x), 2)), y),
    "of exponentials of a function": lambda b, x, y: b.Add(b.Log(total(b, b.Exp(b.Neg(x)), 2)), y),
    "a sum": lambda b, x, y: b.Add(x, y),
}


@pytest.mark.parametrize("name", NO_LOG_SUM_EXP)
def test_no_log_sum_exp(name: str) -> None:
    cube = np.resize(X, (4, 4, 4))
    inputs = {"x": cube, "y": cube + 1}
    given = {"c": cube[:, :, :1] > 0} if "given" in name else {}
    assert not fires(NO_LOG_SUM_EXP[name], inputs | given, LogSumExp())


def test_a_target_without_log_sum_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=LARGEST)

    assert fires(build, {"x": X}, LogSumExp())
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    assert not fires(build, {"x": X}, LogSumExp())


def test_log_sum_exp_of_bfloat16_stays() -> None:
    """Its constants are not known."""
    x = np.ones((2, 3, 4), ml_dtypes.bfloat16)
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    assert not fires(lambda b, x: log_sum_exp(b, x, limit=largest), {"x": x}, LogSumExp())


def test_softmax_of_bfloat16_stays() -> None:
    x = np.ones((2, 3, 4), ml_dtypes.bfloat16)
    assert not fires(lambda b, x: over(b.Exp(shifted(b, x, 1)), b), {"x": x}, Softmax())


def test_log_sum_exp_in_jax() -> None:
    """Of NaN too, which the maximum of the program lets through."""
    program = hlo2onnx.translate(jax.jit(partial(jax.nn.logsumexp, axis=-1)).lower(EDGES))
    assert [node.op_type for node in program.model_proto.graph.node] == ["ReduceLogSumExp"]
    np.testing.assert_allclose(program(EDGES), jax.nn.logsumexp(EDGES, axis=-1), rtol=5e-7)

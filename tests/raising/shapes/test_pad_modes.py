"""Borders of a tensor's own rows: where they are a mode of Pad, and where they are not."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.shapes.pad_modes import DEEPEST, PadModes, is_padded

X = np.arange(3 * 4 * 3, dtype=np.float32).reshape(3, 4, 3)
WIDTHS = [((0, 0), (1, 1), (0, 0)), ((1, 0), (2, 3), (0, 2)), ((0, 0), (0, 0), (2, 1))]


def padded(x: np.ndarray, **options: object) -> hlo2onnx.OnnxProgram:
    """jnp.pad translated, its result compared with JAX's."""
    function = lambda x: jnp.pad(x, **options)  # noqa: E731
    with jax.enable_x64(True):
        program = hlo2onnx.translate(jax.jit(function).lower(x))
        want = np.asarray(jax.jit(function)(x))
    np.testing.assert_array_equal(program(x), want)
    return program


def operators(program: hlo2onnx.OnnxProgram) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8", "?"])
def test_modes(mode: str, widths: tuple[tuple[int, int], ...], dtype: str) -> None:
    if mode == "reflect":
        widths = tuple(
            (min(low, dim - 1), min(high, dim - 1))
            for (low, high), dim in zip(widths, X.shape, strict=True)
        )
    found = operators(padded(X.astype(dtype), pad_width=widths, mode=mode))
    assert found == (["Cast", "Pad", "Cast"] if dtype == "f2" else ["Pad"])


@pytest.mark.parametrize(
    "options",
    [
        {"pad_width": ((0, 0), (2, 2), (0, 0)), "mode": "symmetric"},
        {"pad_width": ((0, 0), (5, 0), (0, 0)), "mode": "wrap"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "reflect", "reflect_type": "odd"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "linear_ramp"},
    ],
)
def test_other_borders(options: dict[str, object]) -> None:
    found = padded(X, **options).model_proto.graph.node
    assert not any(node.op_type == "Pad" and node.attribute for node in found)


def test_types_without_the_kernel() -> None:
    assert "Pad" not in operators(padded(X.astype(ml_dtypes.bfloat16), pad_width=1, mode="edge"))


def test_no_wrap_in_opset_18() -> None:
    function = jax.jit(lambda x: jnp.pad(x, ((0, 0), (2, 1), (0, 0)), mode="wrap"))
    program = hlo2onnx.translate(function.lower(X), opset=18)
    assert "Pad" not in operators(program)
    np.testing.assert_array_equal(program(X), function(X))


def _row(b: GraphBuilder, x: oir.Value, *bounds: int) -> oir.Value:
    return b.slice(x, *([bound] for bound in bounds[:2]), [1], list(bounds[2:]) or [1])


def one_side(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 0, 1), x], 1)


def shared(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    low = _row(b, x, 0, 1)
    return [b.concat([low, x], 1), b.Neg(low)]


@pytest.mark.parametrize(
    ("build", "left"), [(one_side, ["Pad"]), (shared, ["Neg", "Pad", "Slice"])]
)
def test_where_it_fires(build: Callable[..., oir.Value], left: list[str]) -> None:
    Rewrite(build, {"x": X}, PadModes()).gives(*left)


def twice(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([x, x], 1)


def second_row(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 1, 2), x, _row(b, x, 3, 4)], 1)


def another_axis(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([b.slice(x, [0], [4], [1], [1]), x], 0)


def another_tensor(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, b.Neg(x), 0, 1), x], 1)


def rows_alone(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 0, 1), _row(b, x, 0, 1), _row(b, x, 2, 3)], 1)


@pytest.mark.parametrize("build", [twice, second_row, another_axis, another_tensor, rows_alone])
def test_where_it_must_not(build: Callable[..., oir.Value]) -> None:
    Rewrite(build, {"x": X}, PadModes()).nothing()


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_empty_tensors(mode: str) -> None:
    assert "Pad" not in operators(
        padded(np.zeros((3, 0), np.float32), pad_width=((1, 1), (0, 0)), mode=mode)
    )


@pytest.mark.wide
def test_long_chains() -> None:
    def function(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(1500):
            y = jnp.concatenate([y, x])
        return y

    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(
        hlo2onnx.translate(jax.jit(function).lower(x))(x), np.tile(x, 1501)
    )


def test_pads_of_one_axis_stay_apart() -> None:
    """Wrapped twice it goes round the padded tensor."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        inner = b.Pad(x, b.i64([0, 1, 0, 0, 0, 0]), mode="wrap")
        return b.Pad(inner, b.i64([0, 0, 0, 0, 2, 0]), mode="wrap")

    Rewrite(build, {"x": X}, PadModes()).nothing()


# -- near misses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "widths", "fits"),
    [("edge", (9, 0), True), ("edge", (0, 9), True), ("reflect", (3, 0), True),
     ("reflect", (0, 3), True), ("reflect", (4, 0), False), ("reflect", (0, 4), False),
     ("wrap", (4, 0), True), ("wrap", (0, 4), True), ("wrap", (5, 0), False),
     ("wrap", (0, 5), False)],
)  # fmt: skip
def test_how_far_a_mode_goes(mode: str, widths: tuple[int, int], fits: bool) -> None:
    core = np.array([7, 3, 5, 1])
    rows = np.pad(core, widths, mode)  # type: ignore[call-overload]
    kept = range(widths[0], widths[0] + 4)
    assert is_padded(rows, kept, mode) == fits
    rows[-1 if widths[1] else 0] += 1
    assert not is_padded(rows, kept, mode)


def edges(b: GraphBuilder, x: oir.Value, count: int) -> oir.Value:
    """The first row several times, joined one by one."""
    row = _row(b, x, 0, 1)
    for _ in range(count):
        row = b.Concat(_row(b, x, 0, 1), row, axis=1)
    return row


@pytest.mark.parametrize(("count", "fires"), [(DEEPEST, True), (DEEPEST + 1, False)])
def test_how_many_joins_are_followed(count: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Concat(edges(b, x, count), x, axis=1)

    rewrite = Rewrite(build, {"x": X}, PadModes())
    rewrite.gives("Pad") if fires else rewrite.nothing()


@pytest.mark.parametrize(("count", "fires"), [(DEEPEST - 1, True), (DEEPEST, False)])
def test_how_many_repetitions_are_followed(count: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        row = _row(b, x, 0, 1)
        for _ in range(count):
            row = b.Tile(row, b.i64([1, 1, 1]))
        return b.Concat(row, x, axis=1)

    rewrite = Rewrite(build, {"x": X}, PadModes())
    rewrite.gives("Pad") if fires else rewrite.nothing()


@pytest.mark.parametrize(("count", "fires"), [(DEEPEST, True), (DEEPEST + 1, False)])
def test_how_many_cuts_are_followed(count: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        row = x
        for at in range(count):
            row = b.Slice(row, *map(b.i64, ([0], [max(4 - at, 1)], [1])))
        return b.Concat(row, x, axis=1)

    rewrite = Rewrite(build, {"x": X}, PadModes())
    rewrite.gives("Pad") if fires else rewrite.nothing()


def _pad(b: GraphBuilder, x: oir.Value, pads: list[int], mode: str = "edge") -> oir.Value:
    return b.Pad(x, b.i64(pads), mode=mode)


def _cut(b: GraphBuilder, x: oir.Value, *spec: list[int]) -> oir.Value:
    return b.Slice(x, *map(b.i64, spec))


FIRES: dict[str, tuple[Callable[..., oir.Value], list[str], list[int]]] = {
    "along another axis": (
        lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 2, 0]), [3, 0, 0, 0, 0, 1]),
        ["Pad"], [3, 1, 0, 0, 2, 1],
    ),
    "a row counted from the end": (
        lambda b, x: b.Concat(x, _cut(b, x, [-1], [9], [-2]), axis=-2), ["Pad"], [0, 0, 0, 0, 1, 0],
    ),
    "turned round": (
        lambda b, x: b.Concat(_cut(b, x, [2], [0], [1], [-1]), x, axis=1),
        ["Pad"], [0, 2, 0, 0, 0, 0],
    ),
    "a row that is repeated": (
        lambda b, x: b.Concat(b.Tile(_row(b, x, 0, 1), b.i64([1, 3, 1])), x, axis=1),
        ["Pad"], [0, 3, 0, 0, 0, 0],
    ),
    "a part that is padded": (
        lambda b, x: b.Concat(_pad(b, x, [0, 1, 0, 0, 0, 0]), _row(b, x, 3, 4), axis=1),
        ["Pad"], [0, 1, 0, 0, 1, 0],
    ),
    "a part with more rows before it": (
        lambda b, x: b.Concat(_row(b, x, 0, 1), _pad(b, x, [0, 1, 0, 0, 1, 0]), axis=1),
        ["Pad"], [0, 2, 0, 0, 1, 0],
    ),
    "a border cut from what is padded": (
        lambda b, x: b.Concat(x, _cut(b, _pad(b, x, [0, 0, 0, 0, 2, 0]), [4], [6], [1]), axis=1),
        ["Pad"], [0, 0, 0, 0, 2, 0],
    ),
    "the first axis": (
        lambda b, x: b.Concat(x, _cut(b, x, [2], [3], [0]), axis=0), ["Pad"], [0, 0, 0, 1, 0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRES)
def test_borders_that_become_one_pad(name: str) -> None:
    build, left, pads = FIRES[name]
    rewrite = Rewrite(build, {"x": X}, PadModes())
    rewrite.gives(*left)
    (node,) = (node for node in rewrite.model.graph if node.op_type == "Pad")
    assert const_ints(node.inputs[1]) == tuple(pads)


STAYS: dict[str, Callable[..., oir.Value]] = {
    "two modes": lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 1, 0], "wrap"), [1, 0, 0, 0, 0, 0]),
    "zeros": lambda b, x: b.Pad(b.Pad(x, b.i64([0, 1, 0, 0, 1, 0])), b.i64([1, 0, 0, 0, 0, 0])),
    "edges of zeros": lambda b, x: _pad(
        b, b.Pad(x, b.i64([0, 1, 0, 0, 1, 0])), [1, 0, 0, 0, 0, 0]
    ),
    "zeros around edges": lambda b, x: b.Pad(
        _pad(b, x, [0, 1, 0, 0, 1, 0]), b.i64([1, 0, 0, 0, 0, 0])
    ),
    "one axis": lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 0, 0]), [1, 1, 0, 0, 0, 0]),
    "no Pad inside": lambda b, x: _pad(b, b.Neg(x), [1, 1, 0, 0, 0, 0]),
    "computed outside": lambda b, x: b.op(
        "Pad", _pad(b, x, [0, 1, 0, 0, 0, 0]), b.Abs(b.i64([1, 0, 0, 0, 0, 0])), mode="edge",
        types=[(x.dtype, (4, 5, 3))],
    ),
    "computed inside": lambda b, x: _pad(
        b, b.op("Pad", x, b.Abs(b.i64([1, 0, 0, 0, 0, 0])), mode="edge",
                types=[(x.dtype, (4, 4, 3))]), [0, 1, 0, 0, 0, 0],
    ),
    "named axes": lambda b, x: b.op(
        "Pad", _pad(b, x, [0, 1, 0, 0, 0, 0]), b.i64([1, 0]), None, b.i64([0]), mode="edge",
        types=[(x.dtype, (4, 5, 3))],
    ),
    "a row of a cut": lambda b, x: b.Concat(_row(b, _row(b, x, 1, 3), 1, 2), x, axis=1),
    "another row at the end": lambda b, x: b.Concat(x, _row(b, x, 1, 2), axis=1),
    "cut along two axes": lambda b, x: b.Concat(
        _cut(b, b.Concat(x, x, axis=0), [0, 0], [3, 1], [0, 1]), x, axis=1
    ),
    "rows that are repeated elsewhere": lambda b, x: b.Concat(
        b.Tile(_cut(b, x, [0], [1], [0]), b.i64([3, 1, 1])), x, axis=1
    ),
    "a part padded along another axis": lambda b, x: b.Concat(
        _row(b, x, 0, 1), _cut(b, _pad(b, x, [1, 0, 0, 0, 0, 0]), [0], [3], [0]), axis=1
    ),
    "a part without its rows": lambda b, x: b.Concat(
        _row(b, x, 0, 1), _row(b, x, 0, 3), axis=1
    ),
    "a part padded with zeros": lambda b, x: b.Concat(
        _row(b, x, 0, 1), b.Pad(x, b.i64([0, 1, 0, 0, 0, 0])), axis=1
    ),
    "computed repetitions": lambda b, x: b.Concat(
        b.op("Tile", _row(b, x, 0, 1), b.Abs(b.i64([1, 2, 1])), types=[(x.dtype, (3, 2, 3))]),
        x,
        axis=1,
    ),
    "computed steps": lambda b, x: b.Concat(
        b.op("Slice", x, *map(b.i64, ([0], [1], [1])), b.Abs(b.i64([1])),
             types=[(x.dtype, (3, 1, 3))]),
        x,
        axis=1,
    ),
    "a single tensor": lambda b, x: b.Concat(x, axis=1),
    "one row along another axis": lambda b, x: b.Concat(
        b.Concat(_row(b, x, 0, 1), axis=2), x, axis=1
    ),
    "joined along another axis": lambda b, x: b.Concat(
        b.Concat(_row(b, x, 0, 1), _row(b, x, 0, 1), axis=2),
        b.Concat(b.Neg(x), x, axis=2), axis=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_other_parts_stay(name: str) -> None:
    Rewrite(STAYS[name], {"x": X}, PadModes()).nothing()


def test_free_tensors_and_targets_without_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_free(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rows = free(b, x, "n", 4, 3)
        row = b.op("Slice", rows, *map(b.i64, ([0], [1], [1])),
                   types=[(x.dtype, (rows.shape[0], 1, 3))])  # fmt: skip
        return b.Concat(row, rows, axis=1)

    asked: list[str] = []
    Rewrite(of_free, {"x": X}, PadModes()).nothing()
    monkeypatch.setattr(Rewriter, "supports", lambda _, key, dtype: asked.append(key))
    Rewrite(one_side, {"x": X}, PadModes()).nothing()
    assert set(asked) == {"Pad[edge]"}


@pytest.mark.parametrize(("opset", "fires"), [(18, False), (19, True)])
def test_the_opset_of_wrap(opset: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Concat(_row(b, x, 2, 4), x, axis=1)

    rewrite = Rewrite(build, {"x": X}, PadModes(), opset=opset)
    rewrite.gives("Pad") if fires else rewrite.nothing()

"""Each Reshape/Transpose/Expand rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, foreign, model_of
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.match.views import source_of
from hlo2onnx.raising.rules.shapes.reshape import (
    ComposeExpands,
    ComposeReshapes,
    ComposeTransposes,
    EliminateNop,
    FoldSplat,
    UnitTransposeToReshape,
    _expands_the_same,
    adds_leading_axes_only,
)
from hlo2onnx.targets import load_target

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("op_type", ["Reshape", "Expand"])
def test_drop_identity(op_type: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, x, b.i64([2, 3, 4])))

    Rewrite(build, {"x": CUBE}, EliminateNop()).gives("Neg")


def test_drop_identity_transpose() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(0, 1, 2)))

    Rewrite(build, {"x": CUBE}, EliminateNop()).gives("Neg")


@pytest.mark.parametrize("step", [1, 2])
def test_drop_identity_slice(step: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        end = b.i64([1 if step > 1 else 9])
        return b.Neg(b.Slice(x, b.i64([0]), end, b.i64([0]), b.i64([step])))

    x = CUBE[:1] if step > 1 else CUBE
    Rewrite(build, {"x": x}, EliminateNop()).gives("Neg")


def test_drop_identity_keeps_an_axis_that_turns_round() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        ends = b.i64([np.iinfo(np.int64).min])
        return b.Slice(x, b.i64([-1]), ends, b.i64([1]), b.i64([-1]))

    Rewrite(build, {"x": CUBE}, EliminateNop()).nothing()


def test_drop_identity_keeps_square_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(1, 0)))

    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    Rewrite(build, {"x": square}, EliminateNop()).nothing()


def test_drop_identity_keeps_what_makes_an_output_of_an_input() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(x)

    Rewrite(build, {"x": CUBE}, EliminateNop()).nothing()


def test_compose_reshapes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.unsqueeze(b.reshape(x, (6, 4)), [0]))

    Rewrite(build, {"x": CUBE}, ComposeReshapes()).gives("Neg", "Reshape")


def test_compose_reshapes_needs_neighbours() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.Transpose(b.reshape(x, (6, 4)), perm=(1, 0)), (24,))

    Rewrite(build, {"x": CUBE}, ComposeReshapes()).nothing()


def test_move_one_element_through_gather() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Neg(b.Gather(b.expand(x, (5, 3)), i, axis=0))

    inputs = {"x": np.full((1, 1), 2, np.float32), "i": np.array([[0, 4], [2, -1]])}
    Rewrite(build, inputs, FoldSplat()).gives("Expand", "Neg", "Reshape")


def test_compose_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(b.Transpose(x, perm=(1, 2, 0)), perm=(1, 2, 0))

    Rewrite(build, {"x": CUBE}, ComposeTransposes()).gives("Transpose")


def test_inverse_transposes_vanish() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(b.Transpose(x, perm=(1, 2, 0)), perm=(2, 0, 1)))

    Rewrite(build, {"x": CUBE}, ComposeTransposes()).gives("Neg")


def test_a_single_transpose_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(x, perm=(1, 2, 0))

    Rewrite(build, {"x": CUBE}, ComposeTransposes(), UnitTransposeToReshape()).nothing()


def test_compose_expands() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.expand(b.expand(x, (2, 3)), (4, 2, 3))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, ComposeExpands()).gives("Expand")


def test_compose_expands_needs_two() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.expand(x, (4, 2, 3))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, ComposeExpands()).nothing()


def test_unit_transpose_to_reshape() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(1, 2, 0)))

    Rewrite(build, {"x": CUBE[:1]}, UnitTransposeToReshape()).gives("Neg", "Reshape")


def test_move_one_element() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(b.reshape(b.expand(x, (2, 3)), (6, 1)), perm=(1, 0)))

    Rewrite(build, {"x": np.ones((1, 1), np.float32)}, FoldSplat()).gives("Expand", "Neg")


def test_move_one_element_needs_one() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.expand(x, (2, 3)), (6, 1))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, FoldSplat()).nothing()


def test_move_one_element_leaves_nothing_behind() -> None:
    """A rule whose result cannot be the output must not leave nodes, which sharing equal nodes
    would find again and again."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.slice(b.expand(x, (2, 3)), (1, 3), (1, 3))

    model = model_of(build, {"x": np.ones(1, np.float32)})
    count = len(list(model.graph))
    assert not apply_rules(model, [FoldSplat()], load_target("ort-cpu"))
    assert len(list(model.graph)) == count


# -- near misses ----------------------------------------------------------------------------------

STAY: dict[str, Build] = {
    "another type": lambda b, x: b.Cast(x, to=oir.DataType.DOUBLE),
    "joined": lambda b, x: b.Concat(x, x, axis=0),
    "cut": lambda b, x: b.slice(x, [1], [2], axes=[0]),
    "another shape": lambda b, x: b.reshape(x, (2, 12)),
    "an axis more": lambda b, x: b.unsqueeze(x, [0]),
    "expanded": lambda b, x: b.expand(x, (2, 2, 3, 4)),
    "in computed steps": lambda b, x: b.op(
        "Slice", x, *map(b.i64, ([0], [9], [0])), b.Abs(b.i64([1])), types=[(x.dtype, x.shape)]
    ),
    "an axis turned round among others": lambda b, x: b.Slice(
        x, *map(b.i64, ([0, -1], [9, -99], [0, 1], [1, -1]))
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_what_changes_something_stays(name: str) -> None:
    Rewrite(lambda b, x: b.Neg(STAY[name](b, x)), {"x": CUBE}, EliminateNop()).nothing()  # type: ignore[arg-type]


NOTHING: dict[str, Build] = {
    "its own type": lambda b, x: b.Cast(x, to=oir.DataType.FLOAT),
    "one part": lambda b, x: b.Concat(x, axis=0),
    "without steps": lambda b, x: b.Slice(x, *map(b.i64, ([0], [9], [0]))),
    "without axes": lambda b, x: b.Slice(x, b.i64([0, 0, 0]), b.i64([2, 3, 4])),
    "an identity": lambda b, x: b.Identity(x),
    "no axis less": lambda b, x: b.op("Squeeze", x, b.i64([]), types=[(x.dtype, x.shape)]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_nothing_goes(name: str) -> None:
    Rewrite(lambda b, x: b.Neg(NOTHING[name](b, x)), {"x": CUBE}, EliminateNop()).gives("Neg")  # type: ignore[arg-type]


def test_transposes_of_something_else_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(b.Neg(b.Transpose(x, perm=(2, 0, 1))), perm=(2, 1, 0))

    Rewrite(build, {"x": CUBE}, ComposeTransposes()).nothing()


def test_the_order_of_two_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(b.Transpose(x, perm=(0, 2, 1)), perm=(2, 0, 1))

    rewrite = Rewrite(build, {"x": CUBE}, ComposeTransposes())
    rewrite.gives("Transpose")
    (node,) = rewrite.model.graph
    assert tuple(node.attributes["perm"].as_ints()) == (1, 0, 2)


@pytest.mark.parametrize(
    ("x", "inner", "outer", "same"),
    [
        ((1, 3), (2, 3), (2, 3), False),
        ((1, 3), ("n", 3), ("n", 3), False),
        (("n", 1), ("n", 3), ("n", 3), False),
        (("n", 3), ("n", 3), ("n", 3), True),
        ((1, 3), (1, 3), ("n", 3), True),
        ((3,), (1, 3), ("n", 3), True),
        ((3,), (2, 3), ("n", 2, 3), False),
        ((3,), (3,), ("n", 3), True),
    ],
)
def test_expands_of_free_extents(
    x: tuple[int | str, ...], inner: tuple[int | str, ...], outer: tuple[int | str, ...], same: bool
) -> None:
    dims = [
        tuple(dim if isinstance(dim, int) else oir.SymbolicDim(dim) for dim in shape)
        for shape in (x, inner, outer)
    ]
    assert _expands_the_same(*dims) == same  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [True, False])
def test_two_expands_to_a_free_extent(known: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        n = oir.SymbolicDim("n")
        inner = b.Expand(x, b.i64([1, 3] if known else [2, 3]))
        ends = b.i64([2, 3]) if known else b.i64([5, 2, 3])
        shape = (n, 3) if known else (n, 2, 3)
        return b.Neg(b.op("Expand", inner, ends, types=[(x.dtype, shape)]))

    rewrite = Rewrite(build, {"x": np.float32([[1], [2]])[:1]}, ComposeExpands())
    # Of (1, 1) the inner one makes 3 columns, which the outer one may not ask for.
    rewrite.nothing()


def test_an_expand_that_only_adds_rows_is_not_needed_before_another() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        types = [(x.dtype, (oir.SymbolicDim("n"), 2, 3))]
        inner = b.op("Expand", x, b.i64([1, 1, 3]), types=[(x.dtype, (1, 2, 3))])
        return b.Neg(b.op("Expand", inner, b.i64([5, 1, 1]), types=types))

    Rewrite(build, {"x": np.ones((2, 3), np.float32)}, ComposeExpands()).gives("Expand", "Neg")


MOVED: dict[str, Build] = {
    "several elements": lambda b, x: b.Transpose(
        b.expand(b.slice(x, [0, 0, 0], [1, 3, 1]), (2, 3, 4)), perm=(2, 1, 0)
    ),
    "not expanded": lambda b, x: b.Transpose(b.Neg(b.slice(x, [0] * 3, [1] * 3)), perm=(2, 1, 0)),
    "a free shape": lambda b, x: b.op(
        "Reshape",
        b.expand(b.slice(x, [0] * 3, [1] * 3), (2, 3, 4)),
        b.i64([-1]),
        types=[(x.dtype, (oir.SymbolicDim("n"),))],
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_does_not_move_one_element(name: str) -> None:
    Rewrite(lambda b, x: b.Neg(MOVED[name](b, x)), {"x": CUBE}, FoldSplat()).nothing()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dims", "perm", "left"),
    [
        (("n", 1, "m"), (1, 0, 2), ["Reshape"]),
        ((1, "n", 1, "m"), (1, 0, 3, 2), ["Reshape"]),
        (("n", "m", 1), (1, 0, 2), None),
        ((1, "n", "m", "k", 1), (4, 1, 2, 0, 3), ["Squeeze", "Unsqueeze"]),
    ],
)
def test_units_among_free_extents(
    dims: tuple[int | str, ...], perm: tuple[int, ...], left: list[str] | None
) -> None:
    sizes = [dim if isinstance(dim, int) else 2 for dim in dims]

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(free(b, x, *dims), perm=perm))

    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    rewrite = Rewrite(build, {"x": x}, UnitTransposeToReshape())
    if left is None:
        rewrite.nothing()
    else:
        assert rewrite.fired and not rewrite.nodes["Transpose"]


@pytest.mark.parametrize(
    ("x", "y", "adds"),
    [
        ((3,), (1, 3), True),
        ((3,), (3,), True),
        ((3,), (1, 1, 3), True),
        ((3,), (2, 3), False),
        ((3,), (1, 4), False),
        ((1, 3), (3,), False),
        ((3,), (3, 1), False),
        ((2, 3), (1, 2, 4), False),
        ((), (1,), True),
    ],
)
def test_leading_axes(x: tuple[int, ...], y: tuple[int, ...], adds: bool) -> None:
    assert adds_leading_axes_only(x, y) == adds


def test_where_values_come_from() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.Neg(x)
        assert source_of(y, "Abs", "Neg") is x
        assert source_of(y, "Abs") is None
        assert source_of(x, "Neg") is None
        assert source_of(foreign(b.Neg(x)), "Neg") is None
        return y

    model_of(build, {"x": np.ones(2, np.float32)})


def test_units_that_move_past_two_free_axes() -> None:
    """Which takes two nodes."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.transpose(free(b, x, 1, "n", "m", 2), (1, 2, 0, 3)))

    rewrite = Rewrite(build, {"x": np.ones((1, 3, 4, 2), np.float32)}, UnitTransposeToReshape())
    rewrite.gives("Identity", "Squeeze", "Unsqueeze", "Neg")


def test_a_slice_in_steps_that_are_computed_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, step: oir.Value) -> oir.Value:
        bounds = [b.i64([0]), b.i64([3]), b.i64([0]), step]
        return b.Neg(b.op("Slice", x, *bounds, types=[(x.dtype, (3,))]))

    inputs = {"x": np.arange(3, dtype=np.float32), "step": np.array([1])}
    Rewrite(build, inputs, EliminateNop()).nothing()

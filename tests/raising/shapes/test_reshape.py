"""Each Reshape/Transpose/Expand rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, model_of
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.shapes.reshape import (
    ComposeExpands,
    ComposeReshapes,
    ComposeTransposes,
    EliminateNop,
    FoldSplat,
    UnitTransposeToReshape,
)
from hlo2onnx.targets import load_target

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


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


def test_compose_expands() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.expand(b.expand(x, (2, 3)), (4, 2, 3))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, ComposeExpands()).gives("Expand")


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
    "square matrices, transposed": lambda b, x: b.Transpose(
        b.slice(x, [0], [2], axes=[1]), perm=(1, 0, 2)
    ),
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
    "its own shape": lambda b, x: b.op("Reshape", x, b.i64([2, 3, 4])),
    "expanded to its own shape": lambda b, x: b.op("Expand", x, b.i64([2, 3, 4])),
    "axes in order": lambda b, x: b.Transpose(x, perm=(0, 1, 2)),
    "in large steps": lambda b, x: b.Slice(
        b.slice(x, [0], [1], axes=[0]), *map(b.i64, ([0], [1], [0], [2]))
    ),
    "no axis less": lambda b, x: b.op("Squeeze", x, b.i64([]), types=[(x.dtype, x.shape)]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_nothing_goes(name: str) -> None:
    Rewrite(lambda b, x: b.Neg(NOTHING[name](b, x)), {"x": CUBE}, EliminateNop()).gives(  # type: ignore[arg-type]
        "Neg", *["Slice"] * (name == "in large steps")
    )


def test_the_order_of_two_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(b.Transpose(x, perm=(0, 2, 1)), perm=(2, 0, 1))

    rewrite = Rewrite(build, {"x": CUBE}, ComposeTransposes())
    rewrite.gives("Transpose")
    (node,) = rewrite.model.graph
    assert tuple(node.attributes["perm"].as_ints()) == (1, 0, 2)


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

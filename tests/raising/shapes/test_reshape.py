"""Each Reshape/Transpose/Expand rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Rewrite, model_of
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.raising.rules.shapes.broadcast import ComposeExpands
from hlo2onnx.raising.rules.shapes.reshape import (
    ComposeReshapes,
    EliminateNop,
    FoldSplat,
    UnitTransposeToReshape,
)
from hlo2onnx.raising.rules.shapes.transpose import ComposeTransposes
from hlo2onnx.targets import load_target

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INPUTS = {
    "x": CUBE,
    "row": np.ones((1, 3), np.float32),
    "one": np.full((1, 1), 2, np.float32),
    "i": np.array([[0, 4], [2, -1]]),
}
NOPS: dict[str, str] = {
    "Identity(x)": NOTHING,  # makes an output of an input
    "Neg(Cast(x, DOUBLE))": NOTHING,
    "Neg(Concat(x, x, axis=0))": NOTHING,
    "Neg(slice(x, [1], [2], axes=[0]))": NOTHING,
    "Neg(reshape(x, (2, 12)))": NOTHING,
    "Neg(unsqueeze(x, [0]))": NOTHING,
    "Neg(Transpose(slice(x, [0], [2], axes=[1]), perm=(1, 0, 2)))": NOTHING,
    "Neg(expand(x, (2, 2, 3, 4)))": NOTHING,
    "Neg(Slice(x, [0, -1], [9, -99], [0, 1], [1, -1]))": NOTHING,
    "Neg(Identity(x))": "Neg",
    "Neg(Cast(x, FLOAT))": "Neg",
    "Neg(Concat(x, axis=0))": "Neg",
    "Neg(Slice(x, [0], [9], [0]))": "Neg",
    "Neg(Slice(x, [0, 0, 0], [2, 3, 4]))": "Neg",
    "Neg(Reshape(x, [2, 3, 4]))": "Neg",
    "Neg(Expand(x, [2, 3, 4]))": "Neg",
    "Neg(Transpose(x, perm=(0, 1, 2)))": "Neg",
    "Neg(Slice(slice(x, [0], [1], axes=[0]), [0], [1], [0], [2]))": "Neg Slice",
}
SPLATS: dict[str, str] = {
    "Neg(Gather(expand(one, (5, 3)), i, axis=0))": "Expand Neg Reshape",
    "Neg(Transpose(reshape(expand(one, (2, 3)), (6, 1)), perm=(1, 0)))": "Expand Neg",
    "reshape(expand(row, (2, 3)), (6, 1))": NOTHING,
    "Neg(Transpose(expand(slice(x, [0] * 3, [1, 3, 1]), (2, 3, 4)), perm=(2, 1, 0)))": NOTHING,
    "Neg(Transpose(Neg(slice(x, [0] * 3, [1] * 3)), perm=(2, 1, 0)))": NOTHING,
}
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (EliminateNop(), NOPS),
    (FoldSplat(), SPLATS),
    (ComposeReshapes(), {
        "Neg(unsqueeze(reshape(x, (6, 4)), [0]))": "Neg Reshape",
        "reshape(Transpose(reshape(x, (6, 4)), perm=(1, 0)), (24,))": NOTHING,
    }),
    (ComposeTransposes(), {
        "Transpose(Transpose(x, perm=(1, 2, 0)), perm=(1, 2, 0))": "Transpose",
        "Neg(Transpose(Transpose(x, perm=(1, 2, 0)), perm=(2, 0, 1)))": "Neg",
    }),
    (ComposeExpands(), {"expand(expand(row, (2, 3)), (4, 2, 3))": "Expand"}),
    (UnitTransposeToReshape(), {
        "Neg(Transpose(slice(x, [0], [1], axes=[0]), perm=(1, 2, 0)))": "Neg Reshape Slice",
    }),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule)


def test_move_one_element_leaves_nothing_behind() -> None:
    """A rule whose result cannot be the output must not leave nodes, which sharing equal nodes
    would find again and again."""
    build = graph("slice(expand(x, (2, 3)), (1, 3), (1, 3))")
    model = model_of(build, {"x": np.ones(1, np.float32)})
    count = len(list(model.graph))
    assert not apply_rules(model, [FoldSplat()], load_target("ort-cpu"))
    assert len(list(model.graph)) == count


# -- extents and operands that no expression has --------------------------------------------------


def test_slices_in_computed_steps_and_squeezes_of_no_axes() -> None:
    def sliced(b: GraphBuilder, x: oir.Value) -> oir.Value:
        bounds = [b.i64([0]), b.i64([9]), b.i64([0]), b.Abs(b.i64([1]))]
        return b.Neg(b.op("Slice", x, *bounds, types=[(x.dtype, x.shape)]))

    def squeezed(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op("Squeeze", x, b.i64([]), types=[(x.dtype, x.shape)]))

    Rewrite(sliced, {"x": CUBE}, EliminateNop()).nothing()
    Rewrite(squeezed, {"x": CUBE}, EliminateNop()).gives("Neg")


def test_the_order_of_two_transposes() -> None:
    text = "Transpose(Transpose(x, perm=(0, 2, 1)), perm=(2, 0, 1))"
    (node,) = rewrites(text, "Transpose", {"x": CUBE}, ComposeTransposes()).model.graph
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


def test_one_element_in_a_free_shape_does_not_move() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        types = [(x.dtype, (oir.SymbolicDim("n"),))]
        return b.Neg(b.op("Reshape", b.expand(x, (2, 3, 4)), b.i64([-1]), types=types))

    Rewrite(build, {"x": INPUTS["one"]}, FoldSplat()).nothing()


@pytest.mark.parametrize(
    ("dims", "perm", "fires"),
    [
        (("n", 1, "m"), (1, 0, 2), True),
        ((1, "n", 1, "m"), (1, 0, 3, 2), True),
        (("n", "m", 1), (1, 0, 2), False),
        ((1, "n", "m", "k", 1), (4, 1, 2, 0, 3), True),
    ],
)
def test_units_among_free_extents(
    dims: tuple[int | str, ...], perm: tuple[int, ...], fires: bool
) -> None:
    sizes = [dim if isinstance(dim, int) else 2 for dim in dims]

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(free(b, x, *dims), perm=perm))

    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    rewrite = Rewrite(build, {"x": x}, UnitTransposeToReshape())
    assert bool(rewrite.fired) == fires and bool(rewrite.nodes["Transpose"]) != fires

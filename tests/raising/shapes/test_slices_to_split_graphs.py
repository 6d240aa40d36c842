"""Slices in graphs built by hand: which become a Split, and what the Split looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop
from rewriting import Rewrite
from target_costs import with_costs

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.shapes.slices_to_split import FEW_SLICES, SlicesToSplit

Value = oir.Value
X = np.arange(48, dtype=np.float32).reshape(6, 8)
Cut = tuple[int, int, int, int]
"""Start, end, step and axis."""


def cut(b: GraphBuilder, x: Value, *cuts: Cut) -> list[Value]:
    return [b.Neg(b.slice(x, [s], [e], [step], [axis])) for s, e, step, axis in cuts]


ROWS = ((0, 2, 1, 0), (2, 3, 1, 0), (3, 6, 1, 0))
OUTSIDE: dict[str, tuple[Sequence[Cut], bool]] = {
    "all rows": (ROWS, True),
    "in another order": (ROWS[::-1], True),
    "columns": (((0, 4, 1, 1), (4, 8, 1, 1)), True),
    "a row is missing": (((0, 2, 1, 0), (3, 6, 1, 0)), False),
    "the end is missing": (ROWS[:2], False),
    "one of them twice": ((*ROWS, (1, 4, 1, 0)), False),
    "columns as well": ((*ROWS, (0, 1, 1, 1)), False),
    "every second row": (((0, 6, 2, 0), (1, 6, 2, 0)), False),
    "one": (((0, 5, 1, 0),), False),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_bodies(name: str) -> None:
    cuts, fires = OUTSIDE[name]
    target = with_costs(copied_elements_per_node=1)
    rewrite = Rewrite(
        lambda b, x: cut(b, b.Abs(x), *cuts), {"x": X}, SlicesToSplit(), target=target
    )
    if fires:
        rewrite.gives("Abs", "Split", *["Neg"] * len(cuts))
    else:
        rewrite.nothing()


INSIDE: dict[str, tuple[Sequence[Cut], tuple[int, int]]] = {
    # How many Splits and Slices are left.
    "all rows": (ROWS, (1, 0)),
    "three of four rows": (((0, 2, 1, 0), (2, 3, 1, 0), (3, 5, 1, 0)), (1, 1)),
    "rows and others": ((*ROWS, (1, 4, 1, 0)), (1, 1)),
    "rows and columns": ((*ROWS, (0, 1, 1, 1)), (1, 1)),
    "two of three": (ROWS[:2], (0, 2)),
    "every second row": (((0, 6, 2, 0), (1, 6, 2, 0)), (0, 2)),
}


@pytest.mark.parametrize("name", INSIDE)
def test_in_a_body(name: str) -> None:
    cuts, (splits, slices) = INSIDE[name]

    def step(b: GraphBuilder, h: Value) -> Value:
        total = b.Abs(h)
        for part in cut(b, total, *cuts):
            total = b.Add(total, b.ReduceSum(part, keepdims=1))
        return total

    def build(b: GraphBuilder, x: Value) -> Any:
        return loop(b, 2, [x], lambda trip, h: ([step(b, h)], []))

    rewrite = LoopRewrite(build, {"x": X}, SlicesToSplit())
    assert (rewrite.inside["Split"], rewrite.inside["Slice"]) == (splits, slices)
    assert not rewrite.outside["Slice"] + rewrite.outside["Split"]


@pytest.mark.parametrize("name", INSIDE)
def test_small_parts_outside_of_bodies(name: str) -> None:
    """As in a body, if copying all parts once more takes less time than the nodes."""
    cuts, (splits, slices) = INSIDE[name]
    build = lambda b, x: cut(b, b.Abs(x), *cuts)  # noqa: E731
    found = Rewrite(build, {"x": X}, SlicesToSplit()).nodes
    assert (found["Split"], found["Slice"]) == (splits, slices)


def test_what_copying_costs() -> None:
    """Five of six rows: one Slice, and a Split of 40 elements, instead of three Slices."""
    cuts = ((0, 2, 1, 0), (2, 3, 1, 0), (3, 5, 1, 0))

    def run(cost: int) -> Rewrite:
        target = with_costs(copied_elements_per_node=cost)
        return Rewrite(
            lambda b, x: cut(b, b.Abs(x), *cuts), {"x": X}, SlicesToSplit(), target=target
        )

    assert run(40).fired
    run(39).nothing()


def test_many_slices_are_not_compared() -> None:
    """More than a limit, if one is left over."""
    x = np.zeros((4 * FEW_SLICES, 8), np.float32)
    rows = [(k, k + 1, 1, 0) for k in range(FEW_SLICES + 1)]
    build = lambda b, x: cut(b, b.Abs(x), *rows)  # noqa: E731
    Rewrite(build, {"x": x}, SlicesToSplit()).nothing()


def test_slices_of_both_axes() -> None:
    """The same columns of rows that follow each other, in a body; others stay."""

    def part(b: GraphBuilder, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
        return b.slice(x, [rows[0], columns[0]], [rows[1], columns[1]], axes=[0, 1])

    def step(b: GraphBuilder, h: Value) -> Value:
        parts = [part(b, h, (k, k + 1), (2, 5)) for k in range(3)]
        other = part(b, h, (3, 4), (2, 6))
        total = b.ReduceSum(other, keepdims=1)
        for each in parts:
            total = b.Add(total, b.ReduceSum(each, keepdims=1))
        return b.Add(h, total)

    def build(b: GraphBuilder, x: Value) -> Any:
        return loop(b, 2, [x], lambda trip, h: ([step(b, h)], []))

    rewrite = LoopRewrite(build, {"x": X}, SlicesToSplit())
    (split,) = [node for node in rewrite.model.graph.all_nodes() if node.op_type == "Split"]
    assert len(split.outputs) == 3
    assert rewrite.inside["Slice"] == 2


def test_a_split_takes_the_name_of_a_slice() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        parts = cut(b, b.Abs(x), *ROWS)
        for node in b.graph:
            if node.op_type == "Slice":
                node.name = f"layer/heads/{node.name}"
                node.metadata_props["source"] = "model.py:3"
        return parts

    rewrite = Rewrite(build, {"x": X}, SlicesToSplit())
    (split,) = [node for node in rewrite.model.graph if node.op_type == "Split"]
    names = [split.name, *(output.name for output in split.outputs[1:])]
    assert all(name is not None and name.startswith("layer/heads") for name in names)
    assert split.metadata_props["source"] == "model.py:3"


STAY: dict[str, Callable[[GraphBuilder, Value], list[Value]]] = {
    "a constant": lambda b, x: cut(b, b.const(X), *ROWS),
    "a shape": lambda b, x: cut(b, b.Shape(x), (0, 1, 1, 0), (1, 2, 1, 0)),
    "bounds that are computed": lambda b, x: [
        b.Neg(b.op("Slice", x, b.Abs(b.i64([k])), b.i64([k + 3]), b.i64([0]),
                   types=[(x.dtype, (3, 8))])) for k in (0, 3)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    Rewrite(STAY[name], {"x": X}, SlicesToSplit()).nothing()


def test_matrices_of_i64_are_no_shapes() -> None:
    matrix = np.arange(6).reshape(3, 2)
    rewrite = Rewrite(
        lambda b, x: cut(b, b.Abs(x), (0, 1, 1, 0), (1, 3, 1, 0)), {"x": matrix}, SlicesToSplit()
    )
    rewrite.gives("Abs", "Split", "Neg", "Neg")


def test_slices_are_taken_apart_first() -> None:
    """By rules of earlier phases. Moves come last."""
    late = SlicesToSplit()
    assert Rewrite(lambda b, x: cut(b, b.Abs(x), *ROWS), {"x": X}, late).fired
    phases = {rule.name: rule.phase for rule in RULES if "Slice" in rule.anchors}
    assert phases.pop("moves-to-gather") > phases.pop(late.name)
    assert max(phases.values()) < late.phase


def test_a_slice_from_what_is_split() -> None:
    """It reads the tensor as its starts, and takes nothing of it."""

    def build(b: GraphBuilder, x: Value, i: Value) -> list[Value]:
        starts = b.Abs(i)
        ends, axes = (b.const(np.array(n, np.int32)) for n in ([6, 8], [0, 1]))
        part = b.op("Slice", x, starts, ends, axes, types=[(x.dtype, (5, 6))])
        return [*cut(b, starts, (0, 1, 1, 0), (1, 2, 1, 0)), part]

    inputs = {"x": X, "i": np.array([1, 2], np.int32)}
    Rewrite(build, inputs, SlicesToSplit()).gives("Abs", "Split", "Neg", "Neg", "Slice")

"""Slices in single bodies that become a Split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    CELLS,
    LoopRewrite,
    part,
    stepped,
)
from target_costs import with_costs

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.slices_to_split import SlicesToSplit

Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]


def joined(*cuts: tuple[int, int], axis: int = 0) -> Step:
    """The sum of the rows that are cut out, each with another function."""

    def step(b: GraphBuilder, x: Value) -> Value:
        functions = [b.Neg, b.Abs, b.Relu, b.Floor]
        pieces = [f(part(b, x, *cut, axis=axis)) for f, cut in zip(functions, cuts, strict=False)]
        total = b.const(np.float32(0))
        for piece in pieces:
            total = b.Add(total, b.ReduceSum(piece, keepdims=0))
        return b.Add(x, total)  # type: ignore[no-any-return]

    return step


SPLIT: dict[str, tuple[Step, dict[str, int]]] = {
    "two-that-are-all": (joined((0, 2), (2, 6)), {"Split": 1}),
    "in-another-order": (joined((2, 6), (0, 2)), {"Split": 1}),
    "three-of-some": (joined((2, 3), (1, 2), (3, 5)), {"Split": 1, "Slice": 1}),
    "two-of-some": (joined((1, 2), (2, 5)), {"Slice": 2}),
    "with-a-gap": (joined((0, 2), (3, 6)), {"Slice": 2}),
    "overlapping": (joined((0, 3), (2, 6)), {"Slice": 2}),
    "columns": (joined((0, 2), (2, 9), axis=1), {"Split": 1}),
    "one": (joined((0, 6)), {"Slice": 0}),
    "four": (joined((0, 1), (1, 2), (2, 5), (5, 6)), {"Split": 1}),
    "two-and-one-beyond-a-gap": (joined((0, 1), (1, 2), (4, 6)), {"Split": 1}),
    "three-with-gaps": (joined((5, 6), (1, 2), (3, 4)), {"Split": 1}),
    "three-of-less-than-half": (joined((0, 1), (2, 3), (6, 8), axis=1), {"Slice": 3}),
    "three-that-overlap": (joined((0, 2), (1, 3), (4, 6)), {"Slice": 3}),
}


@pytest.mark.parametrize("name", SPLIT)
def test_slices_to_split(name: str) -> None:
    step, expected = SPLIT[name]
    run = stepped(step, CELLS, SlicesToSplit())
    found = {op: run.inside[op] for op in ("Split", "Slice")}
    assert +Counter(found) == +Counter(expected)


def main_graph(build: Any, inputs: dict[str, np.ndarray], **costs: int) -> LoopRewrite:
    options: Any = {"target": with_costs(**costs)}
    return LoopRewrite(build, inputs, SlicesToSplit(), **options)


@pytest.mark.parametrize(
    "cuts",
    [
        ((0, 2), (2, 6)),
        ((2, 6), (0, 2)),
        ((1, 4), (4, 6), (0, 1)),
        ((0, 1), (2, 3), (4, 6)),
    ],
)
def test_all_slices_of_a_tensor_outside_of_bodies(cuts: Any) -> None:
    run = main_graph(lambda b, x: joined(*cuts)(b, b.Neg(x)), {"x": CELLS})
    assert run.outside["Split"] == 1 and not run.outside["Slice"]


@pytest.mark.parametrize(
    "cuts",
    [
        ((0, 2), (2, 5)),
        ((1, 2), (2, 3), (3, 4)),
        ((0, 2), (2, 6), (1, 3)),
        ((0, 2), (2, 6), (1, 3), (4, 6)),
    ],
)
def test_some_slices_of_a_tensor_outside_of_bodies(cuts: Any) -> None:
    """Copying a number takes as long as a node."""
    build = lambda b, x: joined(*cuts)(b, b.Neg(x))  # noqa: E731
    main_graph(build, {"x": CELLS}, copied_elements_per_node=1).nothing()


def test_constants_and_shapes_are_not_split() -> None:
    main_graph(
        lambda b, x: b.Add(x, joined((0, 2), (2, 6))(b, b.const(CELLS))), {"x": CELLS}
    ).nothing()
    two = lambda b, n: b.Add(part(b, n, 0, 2, axis=0), part(b, n, 2, 4, axis=0))  # noqa: E731
    main_graph(two, {"n": np.arange(4)}).nothing()
    assert main_graph(two, {"n": np.arange(4, dtype=np.int32)}).fired
    matrix = {"n": np.arange(8).reshape(4, 2)}
    assert main_graph(two, matrix).fired

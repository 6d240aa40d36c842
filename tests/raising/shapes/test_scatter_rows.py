"""Scatters to known rows on small graphs: rows read from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.slices import SliceOfScatter

B, V = GraphBuilder, oir.Value
INPUTS = {
    "x": np.arange(12, dtype=np.float32).reshape(6, 2),
    "y": -1 - np.arange(4, dtype=np.float32).reshape(2, 2),
    "z": 100 + np.arange(4, dtype=np.float32).reshape(2, 2),
    "c": np.array([True, False]),
}


def scatter(b: B, x: V, rows: Sequence[int], y: V, **attributes: str) -> V:
    index = b.const(np.array(rows, np.int64).reshape(-1, 1))
    made: V = b.op("ScatterND", x, index, y, **attributes)
    return made


def sliced(rows: Sequence[int], start: int, stop: int, step: int = 1, axis: int = 0) -> Build:
    def build(b: B, x: V, y: V, z: V, c: V) -> V:
        return b.Neg(b.slice(scatter(b, x, rows, y), [start], [stop], [step], [axis]))  # type: ignore[no-any-return]

    return build


SLICES: dict[str, tuple[Build, tuple[str, ...]]] = {
    "others": (sliced([1, 2], 3, 5), ("Slice", "Neg")),
    "all of them": (sliced([1, 2], 1, 3), ("Neg",)),
    "the second": (sliced([4, 1], 1, 2), ("Slice", "Neg")),
    "from the end": (sliced([-2, -1], 4, 6), ("Neg",)),
    "between them": (sliced([0, 5], 1, 5), ("Slice", "Neg")),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str) -> None:
    build, nodes = SLICES[name]
    Rewrite(build, INPUTS, SliceOfScatter()).gives(*nodes)


def one_column(b: B, x: V, y: V, z: V, c: V) -> V:
    index = b.const(np.array([[1, 0], [2, 0]]))
    written = b.op("ScatterND", x, index, b.ReduceSum(y, b.i64([1]), keepdims=0))
    return b.slice(written, [3], [4], axes=[0])


OTHER_SLICES: dict[str, Build] = {
    "rows of both": sliced([1, 2], 2, 4),
    "of both, before": sliced([1, 2], 0, 2),
    "another order": sliced([2, 1], 1, 3),
    "a step": sliced([1, 2], 3, 6, 2),
    "columns": sliced([1, 2], 0, 1, axis=1),
    "an element of each row": one_column,
    "sums": lambda b, x, y, z, c: b.slice(
        scatter(b, x, [1, 2], y, reduction="add"), [1], [3], axes=[0]
    ),
}


@pytest.mark.parametrize("name", OTHER_SLICES)
def test_other_slices(name: str) -> None:
    Rewrite(OTHER_SLICES[name], INPUTS, SliceOfScatter()).nothing()

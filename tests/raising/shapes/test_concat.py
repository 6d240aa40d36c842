"""Concats of Concats on small graphs."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.slices import ComposeConcats

X = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


def pair(b: GraphBuilder, x: oir.Value, axis: int = 0) -> oir.Value:
    return b.concat([x, b.Neg(x)], axis)


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (1, -1)])
def test_one_in_another(axes: tuple[int, int]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        parts = [b.Exp(x), pair(b, x, axes[0]), b.concat([b.Abs(x), x], axes[0])]
        return b.concat(parts, axes[1])

    found = Rewrite(build, X, ComposeConcats(), tolerance=1e-6)
    found.gives("Exp", "Neg", "Abs", "Concat")


def test_three_levels() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.concat([b.concat([pair(b, x), b.Abs(x)], 0), x], 0)

    Rewrite(build, X, ComposeConcats()).gives("Neg", "Abs", "Concat")


OTHERS: dict[str, Build] = {
    "another axis": lambda b, x: b.concat([pair(b, x), pair(b, b.Abs(x))], 1),
    "another reader": lambda b, x: [y := pair(b, x), b.concat([y, x], 0)],
    "twice the same": lambda b, x: b.concat([y := pair(b, x), y], 0),
    "no Concat": pair,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    Rewrite(OTHERS[name], X, ComposeConcats()).nothing()

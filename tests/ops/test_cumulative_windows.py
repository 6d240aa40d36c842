"""Cumulative sums along long axes, in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted
from target_costs import with_costs

from dialect_handlers.stablehlo.reduce_window.separable import (
    cumulative_sum,
)
from hlo2onnx.ir.dims import symbol
from hlo2onnx.lowering.emitter import Emitter

BLOCKS: list[tuple[Sequence[int], int, type, list[Sequence[int]]]] = [
    ((4096,), 0, np.float32, []),
    ((4097,), 0, np.float32, [(65, 64), (4160,)]),
    ((8192,), 0, np.float32, [(64, 128), (8192,)]),
    ((16383,), 0, np.float32, [(128, 128), (16384,)]),
    ((16384,), 0, np.float32, [(128, 128), (16384,)]),
    ((2, 4097, 3), 1, np.float32, [(2, 65, 64, 3), (2, 4160, 3)]),
    ((4097,), 0, np.int32, []),
]
"""Extents, the axis, the element type, and the extents that Reshapes give."""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dims", "axis", "dtype", "reshaped"), BLOCKS)
def test_blocks(
    dims: Sequence[int], axis: int, dtype: type, reshaped: list[Sequence[int]], reverse: bool
) -> None:
    x = np.random.default_rng(0).integers(-3, 4, dims).astype(dtype)

    def build(em: Emitter, x: oir.Value) -> oir.Value:
        return cumulative_sum(em, x, axis, reverse=reverse)

    expected = np.flip(x, axis) if reverse else x
    expected = np.cumsum(expected, axis, dtype=dtype)
    made = Emitted(build, {"x": x}).gives(np.flip(expected, axis) if reverse else expected)
    nodes = [node for node in made.em.main_graph if node.op_type == "Reshape"]
    assert [tuple(map(int, node.outputs[0].shape or ())) for node in nodes] == reshaped


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("extent", [1, 4, 5, 7, 8, 13])
def test_blocks_of_a_symbolic_length(extent: int, reverse: bool) -> None:
    """Zeros that fill the last block do not count."""
    x = np.arange(1, 2 * extent + 1, dtype=np.float32).reshape(2, extent)

    def build(em: Emitter, x: oir.Value) -> oir.Value:
        em.target = with_costs(cumulative_sum_terms=4)
        return cumulative_sum(em, x, 1, reverse=reverse)

    expected = x[:, ::-1].cumsum(1)[:, ::-1] if reverse else x.cumsum(1)
    Emitted(build, {"x": x}, {"x": (2, symbol("n", positive=True))}).gives(expected)

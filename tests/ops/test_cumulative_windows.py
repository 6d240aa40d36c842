"""Cumulative sums along long axes, in blocks."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted
from target_costs import with_costs

from dialect_handlers.stablehlo.reduce_window.separable import cumulative_sum
from hlo2onnx.ir.dims import symbol
from hlo2onnx.lowering.emitter import Emitter


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

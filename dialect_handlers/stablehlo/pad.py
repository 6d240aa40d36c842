"""pad: gaps between elements, then edges."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.padding import pad as padded
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.pad", form="parts")
def pad(
    em: Emitter,
    op: Op,
    *,
    edge_padding_low: Sequence[int],
    edge_padding_high: Sequence[int],
    interior_padding: Sequence[int],
) -> oir.Value:
    """pad(x, fill) -> Pad, with Slice for negative edges and Reshapes for gaps."""
    x, fill = em.operands(op)
    return padded(em, x, fill, edge_padding_low, edge_padding_high, interior_padding)

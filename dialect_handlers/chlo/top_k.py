"""top_k."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.sort.top_k import largest_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles(
    "chlo.top_k",
    ignores={"is_stable": "equal elements always come in the order of their indices"},
)
def top_k(em: Emitter, op: Op, *, k: int) -> list[oir.Value]:
    """top_k(x) -> TopK along the last axis, in total order: NaN is the largest."""
    return largest_of(em, em.operand(op), k)

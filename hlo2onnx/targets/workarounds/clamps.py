"""Max and Min with constants, for runtimes that make one operator of both, computed in f32."""

from __future__ import annotations

from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of, dtype_of

_OTHER: Final = {"Max": "Min", "Min": "Max"}
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def part_clamp(b: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Min(Max(x, c), d) -> ~Max(~Max(x, c), ~d), and the same for Max(Min(x, c), d), for large
    INT32 constants. ~x is -1 - x, which reverses the order."""
    operands = [x for x in node.inputs if x is not None]
    other = _OTHER[node.op_type]
    if dtype_of(node.outputs[0]) != oir.DataType.INT32 or len(operands) != 2:
        return None
    for x, bound in (operands, operands[::-1]):
        limit, inner = const_of(bound), x.producer()
        if limit is None or inner is None or inner.op_type != other:
            continue
        known = [
            array for y in inner.inputs if y is not None and (array := const_of(y)) is not None
        ]
        if known and any(
            abs(array.astype("i8")).max(initial=0) >= _LARGEST for array in (limit, *known)
        ):
            return b.BitwiseNot(b.op(other, b.BitwiseNot(x), b.const(~limit)))
    return None

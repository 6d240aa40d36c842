"""Integer reciprocals, for runtimes that replace 1 / x * y by y / x in any element type.

For integers 1 / x is 1, -1 or 0, so the two differ.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import INTEGERS, UNSIGNED, const_of, dtype_of, rank_of


def spell_out_reciprocal(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """An integer Div(1, x) that a Mul reads as (x == 1) - (x == -1); None for others."""
    one, x = node.inputs
    assert x is not None
    ones = const_of(one)
    if dtype_of(x) not in INTEGERS or ones is None or ones.size != 1 or ones.item() != 1:
        return None
    if not any(user.op_type == "Mul" for user in node.outputs[0].consumers()):
        return None
    x = builder.unsqueeze(x, range(rank_of(node.outputs[0]) - rank_of(x)))
    result = builder.cast(builder.Equal(x, builder.scalar_like(1, x)), dtype_of(x))
    if dtype_of(x) in UNSIGNED:
        return result
    minus_one = builder.Equal(x, builder.scalar_like(-1, x))
    return builder.Sub(result, builder.cast(minus_one, dtype_of(x)))

"""Integer reciprocals, for runtimes that turn 1 / x * y into y / x whatever the element type.

On integers 1 / x is 1, -1 or 0, and y / x something else.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import INTEGERS, UNSIGNED, const_of, dtype_of, rank_of
from hlo2onnx.rewrite.replace import replace

DIV_MUL = "DivMulFusion"


def spell_out_reciprocal(node: oir.Node, builder: GraphBuilder) -> bool:
    """Replaces an integer Div(1, x) that a Mul reads by (x == 1) - (x == -1); False for others."""
    one, x = node.inputs
    assert x is not None
    ones = const_of(one)
    if dtype_of(x) not in INTEGERS or ones is None or ones.size != 1 or ones.item() != 1:
        return False
    if not any(user.op_type == "Mul" for user in node.outputs[0].consumers()):
        return False
    with builder.before(node):
        x = builder.unsqueeze(x, range(rank_of(node.outputs[0]) - rank_of(x)))
        result = builder.cast(builder.Equal(x, builder.scalar_like(1, x)), dtype_of(x))
        if dtype_of(x) not in UNSIGNED:
            minus_one = builder.Equal(x, builder.scalar_like(-1, x))
            result = builder.Sub(result, builder.cast(minus_one, dtype_of(x)))
    replace(node, [result])
    return True

"""Products of transposed f64 matrices, for runtimes that fuse the two and have no kernel for it.

ONNX Runtime 1.20 to 1.23 makes FusedMatMul of a Transpose and a MatMul in f64 as well, and does not
load the model then.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import attributes_of, dtype_of, rank_of
from hlo2onnx.targets.builder import TargetBuilder

MATRIX = 2
_SWAPPED = (1, 0)


def transpose_in_gemm(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """MatMul(Transpose(x), y) -> Gemm(x, y, transA=1) for f64 matrices; likewise for y."""
    x, y = node.inputs
    assert x is not None and y is not None
    if dtype_of(x) != oir.DataType.DOUBLE or rank_of(x) != MATRIX or rank_of(y) != MATRIX:
        return None
    sources = [_transposed(x), _transposed(y)]
    if not any(sources) or not b.supports("Gemm", oir.DataType.DOUBLE):
        return None
    flags = {name: 1 for name, source in zip(("transA", "transB"), sources, strict=True) if source}
    return b.Gemm(sources[0] or x, sources[1] or y, **flags)


def _transposed(x: oir.Value) -> oir.Value | None:
    """The matrix of which x is the transpose."""
    node = x.producer()
    if node is None or node.op_type != "Transpose" or node.domain:
        return None
    is_swap = tuple(attributes_of(node).get("perm", _SWAPPED)) == _SWAPPED
    return node.inputs[0] if is_swap else None

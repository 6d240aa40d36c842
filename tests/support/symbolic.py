"""Values with free extents in the small graphs for tests of single rules."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of


def free(b: GraphBuilder, x: oir.Value, *dims: int | str | None) -> oir.Value:
    """x with these extents and nothing else known; names are free extents."""
    shape = tuple(dim if isinstance(dim, int) else oir.SymbolicDim(dim) for dim in dims)
    return b.op("Identity", x, types=[(dtype_of(x), shape)])

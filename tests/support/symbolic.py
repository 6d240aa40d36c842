"""Values of free extents in the small graphs that test rules alone."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of


def free(b: GraphBuilder, x: oir.Value, *dims: int | str) -> oir.Value:
    """x, of which nothing is known but these extents; names are free ones."""
    shape = tuple(dim if isinstance(dim, int) else oir.SymbolicDim(dim) for dim in dims)
    return b.op("Identity", x, types=[(dtype_of(x), shape)])

"""Tensors of one number."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, shape_of, static_shape
from hlo2onnx.lowering.emitter import Emitter


def filled_like(em: Emitter, number: int, x: oir.Value) -> oir.Value:
    """The number in the type and the shape of x, which may be dynamic."""
    scalar, dims = em.scalar_like(number, x), static_shape(x)
    if dims is not None:
        return em.expand(scalar, dims)
    return em.op("Expand", scalar, em.Shape(x), types=[(dtype_of(x), shape_of(x))])


def zeros_like(em: Emitter, x: oir.Value) -> oir.Value:
    """Zeros of the type and the shape of x, which may be dynamic."""
    return filled_like(em, 0, x)

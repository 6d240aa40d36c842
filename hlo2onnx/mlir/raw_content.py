"""The bytes of large constants that the bindings do not show: as MLIR writes them into bytecode."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.types import parts_of, shape_of

LARGE_BYTES = 1 << 16
"""Smaller constants are fetched together by XLA."""


def raw_content(operation: Any) -> np.ndarray | None:
    """The content of a large `stablehlo.constant` of bf16 or an f8 type; None for others.

    Bytecode holds the elements in one piece after their number of bytes. That what is found is
    the right piece is proven by making the attribute anew: MLIR has equal ones once.
    """
    mlir_type = operation.results[0].type
    element = ir.RankedTensorType(mlir_type).element_type
    if not isinstance(element, ir.FloatType) or element.width not in (8, 16):
        return None
    (part,) = parts_of(mlir_type)
    dims = [dim or 0 for dim in shape_of(mlir_type)]
    size = math.prod(dims) * element.width // 8
    attribute = operation.attributes["value"]
    if size < LARGE_BYTES or attribute.is_splat:
        return None
    bytecode = _bytecode(attribute)
    length = _length(size)
    carrier = np.dtype(f"u{element.width // 8}")
    start = bytecode.find(length)
    while start >= 0:
        begin = start + len(length)
        if begin + size > len(bytecode):
            break
        array = np.frombuffer(bytecode, np.uint8, size, begin).copy().view(carrier).reshape(dims)
        with operation.context:
            if ir.DenseElementsAttr.get(array, type=element, shape=dims) == attribute:
                return array.view(part.dtype.numpy())
        start = bytecode.find(length, start + 1)
    return None


def _bytecode(attribute: Any) -> bytes:
    """A module that holds nothing but an attribute."""
    stream = io.BytesIO()
    with attribute.context, ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["content"] = attribute
        module.operation.write_bytecode(stream)
    return stream.getvalue()


def _length(size: int) -> bytes:
    """A number as bytecode has it: the zeros at the low end of its first byte say how many bytes
    follow that."""
    for extra in range(8):
        if size < 1 << 7 * (extra + 1):
            return ((size << 1 | 1) << extra).to_bytes(extra + 1, "little")
    return b"\0" + size.to_bytes(8, "little")

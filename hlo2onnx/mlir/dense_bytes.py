"""Reads dense constants without a numpy view in the bindings: bf16, f4 to f8, i2 and i4."""

from __future__ import annotations

import io
import math

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.mlir.types import ELEMENT_TYPES, STORED_FLOATS, element_type, numpy_type, shape_of

_PARSED_BYTES = 1 << 10


def raw_content(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The content of a `DenseElementsAttr`; of rank 0 for a splat.

    Bytecode holds the elements in one piece after their count of bytes. MLIR shares equal
    attributes, so an attribute made of the right piece is the same one.

    Raises:
        UnsupportedOp: There is no numpy type for the elements.
    """
    element = element_type(attribute.type)
    if element not in ELEMENT_TYPES and element not in STORED_FLOATS:
        raise UnsupportedOp(f"hlo2onnx cannot read constants of the element type {element}")
    dtype = numpy_type(element)
    shape = [dim or 0 for dim in shape_of(attribute.type)]
    if 0 in shape:
        return np.zeros(shape, dtype)
    dims = [] if attribute.is_splat else shape
    size = math.prod(dims) * dtype.itemsize
    bytecode = _bytecode(attribute)
    length = _length(size)
    start = bytecode.find(length)
    while start >= 0:
        begin = start + len(length)
        content = np.frombuffer(bytecode, np.uint8, -1, begin)[:size]
        if content.size == size and _attribute(attribute, content, dims) == attribute:
            return _decoded(content.copy(), dtype).reshape(dims)
        start = bytecode.find(length, start + 1)
    raise UnsupportedOp("hlo2onnx cannot read the content of the constant")


def _attribute(like: ir.Attribute, content: np.ndarray, dims: list[int]) -> ir.Attribute:
    """An attribute of the same type with this content."""
    tensor = ir.RankedTensorType(like.type)
    if content.size <= _PARSED_BYTES:
        digits = content.tobytes().hex()
        return ir.Attribute.parse(f'dense<"0x{digits}"> : {tensor}', like.context)
    array = content.view(f"u{content.size // math.prod(dims)}").reshape(dims)
    with like.context:
        return ir.DenseElementsAttr.get(array, type=tensor.element_type, shape=dims)


def _decoded(content: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Bytes as elements. MLIR ignores the high bits of small integers. numpy needs their sign."""
    bits = _INTEGER_BITS.get(dtype.name)
    if bits is None:
        return content.view(dtype)
    high = content << (8 - bits)
    carrier = np.int8 if dtype.name.startswith("i") else np.uint8
    return (high.view(carrier) >> (8 - bits)).astype(dtype)


_INTEGER_BITS = {"int2": 2, "int4": 4, "uint2": 2, "uint4": 4}


def _bytecode(attribute: ir.Attribute) -> bytes:
    """Bytecode of a module that holds only an attribute."""
    stream = io.BytesIO()
    with attribute.context, ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["content"] = attribute
        module.operation.write_bytecode(stream)
    return stream.getvalue()


def _length(size: int) -> bytes:
    """A number as bytecode encodes it: the low zeros of the first byte count the bytes after it."""
    for extra in range(8):
        if size < 1 << 7 * (extra + 1):
            return ((size << 1 | 1) << extra).to_bytes(extra + 1, "little")
    return b"\0" + size.to_bytes(8, "little")

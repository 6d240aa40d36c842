"""The content of constants as numpy arrays: views of MLIR's memory where the bindings give them."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UnsupportedOp
from hlo2onnx.frontend.mlir.types import (
    ELEMENT_TYPES,
    STORED_FLOATS,
    element_type,
    is_complex,
    numpy_type,
    shape_of,
)
from hlo2onnx.frontend.mlir.values import MlirValue, dense, module_bytecode, operations_of


@dataclass(frozen=True)
class Splat:
    """A constant whose elements are all equal.

    Attributes:
        element: Rank-0 array.
        shape: Static extents of the constant.
    """

    element: np.ndarray
    shape: tuple[int, ...]


_COMPARED_BYTES = 1 << 12
"""The first bytes of constants are compared, and the others if these are equal."""


class Constants:
    """Reads the constants of a program, and of the modules that its ops expand into."""

    def __init__(self) -> None:
        self._read: dict[MlirValue, np.ndarray] = {}
        self._views: dict[Hashable, tuple[np.ndarray, np.ndarray]] = {}
        self._known: dict[Hashable, list[np.ndarray]] = {}

    def read(self, operation: ir.Operation) -> np.ndarray | Splat:
        """The content of a `stablehlo.constant`. A view keeps the memory of the MLIR attribute.

        Raises:
            UnsupportedOp: numpy has no type for its elements.
        """
        (result,) = operation.results
        shape = tuple(dim or 0 for dim in shape_of(result.type))
        if is_complex(result.type):
            if result not in self._read:
                self._read[result] = complex_content(operation)
            return _as_splat(self._read[result])
        attribute = operation.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr):
            kind = str(attribute)[:20].partition("<")[0]
            raise UnsupportedOp(f"its content is written as {kind}<...>", "write it as dense<...>")
        if attribute.is_splat and math.prod(shape) > 1:
            return Splat(_splat_element(attribute), shape)
        if _viewable(attribute):
            return self._shared(np.asarray(attribute))
        if result not in self._read:
            self._read[result] = raw_content(attribute).reshape(shape)
        return _as_splat(self._read[result])

    def _shared(self, view: np.ndarray) -> np.ndarray:
        """The first view of this content.

        A context of MLIR stores a content once. JAX takes a new context from time to time, so the
        program and the functions that its ops expand into may have several.
        """
        place = (view.__array_interface__["data"][0], view.dtype, view.shape)
        if place not in self._views:
            flat = view.reshape(-1).view(np.uint8)
            key = (view.dtype, view.shape, flat[:_COMPARED_BYTES].tobytes())
            others = self._known.setdefault(key, [])
            same = (x for x in others if np.array_equal(x.reshape(-1).view(np.uint8), flat))
            found = next(same, view)
            self._views[place] = view, found  # the memory of a view that is kept is not used again
            if found is view:
                others.append(view)
        return self._views[place][1]


def _as_splat(array: np.ndarray) -> np.ndarray | Splat:
    with np.errstate(invalid="ignore"):  # some types of ml_dtypes warn of NaN
        equal = array.size > 1 and bool((array == array.flat[0]).all())
    return Splat(array[(0,) * array.ndim], tuple(array.shape)) if equal else array


def _splat_element(attribute: ir.DenseElementsAttr) -> np.ndarray:
    """The element of a splat, of rank 0. The type may be too large for a numpy array."""
    if not _viewable(attribute):
        return raw_content(attribute)
    tensor = ir.RankedTensorType(attribute.type)
    with ir.Location.unknown(attribute.context):
        scalar = ir.RankedTensorType.get([], tensor.element_type)
    return np.asarray(ir.DenseElementsAttr.get_splat(scalar, attribute.get_splat_value()))


def densify(module_operation: ir.Operation) -> None:
    """Replaces every `dense_resource` constant of a module, in place, by a dense one.

    The bindings do not give the bytes of a resource, and XLA takes no resources. The bytes are read
    from the text of a module with only those constants.

    Raises:
        LoadError: A resource is missing or does not have the size of its constant.
    """
    resources = [op for op in _constant_ops(module_operation) if _resource_name(op) is not None]
    if not resources:
        return
    with resources[0].context, ir.Location.unknown():
        holder = ir.Module.create().operation
    for place, operation in enumerate(resources):
        holder.attributes[f"c{place}"] = operation.attributes["value"]
    blobs = {m.group(1): m.group(2) for m in _BLOB.finditer(str(holder.get_asm()))}
    for operation in resources:
        attribute = operation.attributes["value"]
        name = _resource_name(operation)
        assert name is not None
        if name not in blobs:
            raise LoadError(f"the resource {name} of a constant is missing")
        operation.attributes["value"] = _dense(attribute.type, blobs[name], name)


_RESOURCE = re.compile(r'dense_resource<"?([^">]+)"?>')
_BLOB = re.compile(r'^\s*"?([^\s":]+)"?: "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_ALIGNMENT_DIGITS = 8


def _resource_name(operation: ir.Operation) -> str | None:
    """The name of the resource that a constant refers to; None if it refers to none."""
    # The bindings cannot fetch a complex attribute. The text of a dense one may be gigabytes.
    if is_complex(operation.results[0].type):
        return None
    attribute = operation.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return None
    match = _RESOURCE.match(str(attribute))
    return None if match is None else match[1]


def _dense(mlir_type: ir.Type, digits: str, name: str) -> ir.Attribute:
    """A dense attribute of a resource's bytes. The first four bytes are the alignment."""
    content = np.frombuffer(bytes.fromhex(digits[_ALIGNMENT_DIGITS:]), np.uint8)
    dims = [dim or 0 for dim in shape_of(mlir_type)]
    dtype = numpy_type(element_type(mlir_type))
    if content.size != math.prod(dims) * dtype.itemsize:
        raise LoadError(f"the resource {name} does not have the size of {mlir_type}")
    return dense(content.view(dtype).reshape(dims), mlir_type)


def _constant_ops(module_operation: ir.Operation) -> list[ir.Operation]:
    return [op for op in operations_of(module_operation) if op.name == "stablehlo.constant"]


def _viewable(attribute: ir.Attribute) -> bool:
    element = ir.RankedTensorType(attribute.type).element_type
    if isinstance(element, ir.IntegerType):
        return element.width in (1, 8, 16, 32, 64)
    return isinstance(element, ir.F16Type | ir.F32Type | ir.F64Type)


def constant_bytes(operation: ir.Operation) -> int:
    """The size of a constant with all elements written out."""
    mlir_type = operation.results[0].type
    element, parts = ir.RankedTensorType(mlir_type).element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = ir.ComplexType(element).element_type, 2
    assert isinstance(element, ir.IntegerType | ir.FloatType)
    bits = parts * element.width
    return (bits * math.prod(dim or 0 for dim in shape_of(mlir_type)) + 7) // 8


_COMPLEX = re.compile(r'dense<("0x[^"]*"|[^<>"]*)> : tensor<')
_NUMBER = re.compile(r"[^\s,()\[\]]+")


def complex_content(constant: ir.Operation) -> np.ndarray:
    """The content of a constant of complex numbers. The bindings cannot read its attribute.

    Its text has the bytes of all elements, or decimal numbers that round to the elements, and NaN
    as its bits.
    """
    (result,) = constant.results
    dtype = numpy_type(element_type(result.type))
    part = np.finfo(dtype).dtype
    body = _COMPLEX.search(str(constant.get_asm(use_local_scope=True)))
    assert body is not None
    if body[1].startswith('"'):
        content = np.frombuffer(bytes.fromhex(body[1][3:-1]), dtype)
    else:
        unsigned = np.dtype(f"u{part.itemsize}")
        bits = [
            int(token, 16) if "x" in token else int(np.array(float(token), part).view(unsigned))
            for token in _NUMBER.findall(body[1])
        ]
        content = np.array(bits, unsigned).view(dtype)
    shape = [dim or 0 for dim in shape_of(result.type)]
    return np.full(shape, content[0]) if content.size == 1 else content.reshape(shape)


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


def bits_of(constant: ir.Operation) -> np.ndarray:
    """The bits of a constant's elements as unsigned integers, in its shape."""
    attribute = constant.attributes["value"]
    assert isinstance(attribute, ir.DenseElementsAttr)
    content = raw_content(attribute)
    shape = ir.RankedTensorType(constant.results[0].type).shape
    return np.broadcast_to(content.view(f"u{content.itemsize}"), shape)


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
    with attribute.context, ir.Location.unknown():
        module = ir.Module.create().operation
        module.attributes["content"] = attribute
        return module_bytecode(module)


def _length(size: int) -> bytes:
    """A number as bytecode encodes it: the low zeros of the first byte count the bytes after it."""
    for extra in range(8):
        if size < 1 << 7 * (extra + 1):
            return ((size << 1 | 1) << extra).to_bytes(extra + 1, "little")
    return b"\0" + size.to_bytes(8, "little")

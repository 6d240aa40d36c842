"""The content of constant attributes as numpy arrays, without copying what can be viewed."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UnsupportedOp
from hlo2onnx.mlir.dense_bytes import raw_content
from hlo2onnx.mlir.types import STORED_FLOATS, is_complex, parts_of, shape_of


@dataclass(frozen=True)
class Splat:
    """A constant whose elements are all equal.

    Attributes:
        element: Rank-0 array.
        shape: Static extents of the constant.
    """

    element: np.ndarray
    shape: tuple[int, ...]


class Constants:
    """Reads the constants of a program, and of the modules that its ops expand into.

    The bindings show complex attributes in no form; XLA evaluates all that a module holds when the
    first of them is read, as XLA has complex numbers of every width that StableHLO has. XLA
    evaluates nothing else: it aborts the process on types that it does not know.
    """

    def __init__(self) -> None:
        self._complex: dict[Any, np.ndarray] = {}
        self._raw: dict[Any, np.ndarray] = {}

    def read(self, operation: Any) -> np.ndarray | Splat:
        """The content of a `stablehlo.constant`; views keep the MLIR attribute's memory.

        Raises:
            UnsupportedOp: Its elements have a type that numpy has not.
        """
        (result,) = operation.results
        shape = tuple(dim or 0 for dim in shape_of(result.type))
        if is_complex(result.type):
            return _as_splat(self._read_complex(operation))
        attribute = operation.attributes["value"]
        if not isinstance(attribute, ir.DenseElementsAttr):
            kind = str(attribute)[:20].partition("<")[0]
            raise UnsupportedOp(f"its content is written as {kind}<...>", "write it as dense<...>")
        if attribute.is_splat and math.prod(shape) > 1:
            return Splat(_splat_element(attribute), shape)
        if _viewable(attribute):
            return np.asarray(attribute)
        if result not in self._raw:
            self._raw[result] = raw_content(attribute).reshape(shape)
        return _as_splat(self._raw[result])

    def _read_complex(self, operation: Any) -> np.ndarray:
        (result,) = operation.results
        if result not in self._complex:
            found = [op for op in _constant_ops(_root(operation)) if is_complex(op.results[0].type)]
            for batch in _batches(found):
                for op, array in zip(batch, _evaluate(batch), strict=True):
                    self._complex[op.results[0]] = array
        return self._complex[result]


def _as_splat(array: np.ndarray) -> np.ndarray | Splat:
    with np.errstate(invalid="ignore"):  # some types of ml_dtypes warn of NaN
        equal = array.size > 1 and bool((array == array.flat[0]).all())
    return Splat(array[(0,) * array.ndim], tuple(array.shape)) if equal else array


def _splat_element(attribute: Any) -> np.ndarray:
    """The one element of a splat, whatever its extents: numpy has no arrays as large as types."""
    if not _viewable(attribute):
        return raw_content(attribute)
    tensor = ir.RankedTensorType(attribute.type)
    with ir.Location.unknown(attribute.context):
        scalar = ir.RankedTensorType.get([], tensor.element_type)
    return np.asarray(ir.DenseElementsAttr.get_splat(scalar, attribute.get_splat_value()))


def _root(operation: Any) -> Any:
    """The module an operation stands in."""
    while operation.parent is not None:
        operation = operation.parent.operation
    return operation


def densify(module_operation: Any) -> None:
    """Replaces every `dense_resource` constant of a module, in place, by a dense one.

    The bindings give no access to a resource's bytes and XLA takes no resources; the text of a
    module that holds just those constants has them.

    Raises:
        LoadError: A resource is missing or does not have the size of its constant.
    """
    resources = [op for op in _constant_ops(module_operation) if _is_resource(op)]
    if not resources:
        return
    text = _module_returning(resources).operation.get_asm()
    blobs = {m.group(1): m.group(2) for m in _BLOB.finditer(text)}
    for operation in resources:
        attribute = operation.attributes["value"]
        name = _RESOURCE.match(str(attribute)).group(1)  # type: ignore[union-attr]
        if name not in blobs:
            raise LoadError(f"the resource {name} of a constant is missing")
        operation.attributes["value"] = _dense(attribute.type, blobs[name], name)


_RESOURCE = re.compile(r'dense_resource<"?([^">]+)"?>')
_BLOB = re.compile(r'^\s*"?([^\s":]+)"?: "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_ALIGNMENT_DIGITS = 8


def _is_resource(operation: Any) -> bool:
    # The text of a dense attribute may be gigabytes, so its class is asked first; complex ones
    # cannot even be fetched.
    if is_complex(operation.results[0].type):
        return False
    attribute = operation.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return False
    return _RESOURCE.match(str(attribute)) is not None


def _dense(mlir_type: Any, digits: str, name: str) -> Any:
    """A dense attribute over a resource's bytes, whose first four are its alignment."""
    content = np.frombuffer(bytes.fromhex(digits[_ALIGNMENT_DIGITS:]), np.uint8)
    tensor = ir.RankedTensorType(mlir_type)
    dims = [dim or 0 for dim in shape_of(mlir_type)]
    dtype = STORED_FLOATS.get(str(tensor.element_type))
    if dtype is None:
        (part,) = parts_of(mlir_type)
        dtype = part.dtype.numpy()
    if content.size != math.prod(dims) * dtype.itemsize:
        raise LoadError(f"the resource {name} does not have the size of {mlir_type}")
    array = content.view(_CARRIER.get(dtype.name, dtype)).reshape(dims)
    with mlir_type.context:
        return ir.DenseElementsAttr.get(array, type=tensor.element_type, shape=dims)


_CARRIER = {"bool": np.dtype(bool), "bfloat16": np.dtype(np.uint16)}


def _constant_ops(module_operation: Any) -> Iterable[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.constant":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module_operation.walk(visit)
    return found


def _viewable(attribute: Any) -> bool:
    element = ir.RankedTensorType(attribute.type).element_type
    if isinstance(element, ir.IntegerType):
        return element.width in (1, 8, 16, 32, 64)
    return isinstance(element, ir.F16Type | ir.F32Type | ir.F64Type)


_BATCH_BYTES = 1 << 24
"""XLA holds several copies of the constants that it compiles."""


def _batches(operations: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for operation in operations:
        batch.append(operation)
        size += constant_bytes(operation)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def constant_bytes(operation: Any) -> int:
    """How large the content of a constant is, when all of its elements are written out."""
    mlir_type = operation.results[0].type
    element, parts = ir.RankedTensorType(mlir_type).element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = ir.ComplexType(element).element_type, 2
    assert isinstance(element, ir.IntegerType | ir.FloatType)
    bits = parts * element.width
    return (bits * math.prod(dim or 0 for dim in shape_of(mlir_type)) + 7) // 8


def _evaluate(operations: list[Any]) -> list[np.ndarray]:
    """Runs a module that returns these constants."""
    from hlo2onnx.verification.xla import run_bytecode

    bytecode = io.BytesIO()
    _module_returning(operations).operation.write_bytecode(bytecode)
    return run_bytecode(bytecode.getvalue(), [])


def _module_returning(operations: list[Any]) -> Any:
    """A module whose main returns copies of these constants."""
    context = operations[0].context
    types = [operation.results[0].type for operation in operations]
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get([], types)),
                },
                regions=1,
            )
        block = function.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            copies = [operation.clone() for operation in operations]
            results = [copy.operation.results[0] for copy in copies]
            ir.Operation.create("func.return", operands=results)
    return module

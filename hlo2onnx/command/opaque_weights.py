"""Programs without the numbers of their weights.

A custom call of the type of a weight takes its place. Nothing reads or copies gigabytes then, and
no rule depends on the numbers.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jaxlib.mlir import ir

from hlo2onnx.custom_calls import CustomOp
from hlo2onnx.frontend.mlir.constants import constant_bytes
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.values import operations_of
from hlo2onnx.frontend.source import Source

TARGET = "hlo2onnx.weight"
OPERATOR = CustomOp("hlo2onnx.check", "Weight", attributes={})
"""What stands for a weight in the model that a check looks at."""

LARGE_BYTES = 1 << 16
"""Constants of at least this size are weights, unless they may be indices."""

INDEX_BITS = 8
"""Integers of more bits may be indices."""

LARGE_FILE_BYTES = 1 << 24
"""Files of at least this size are searched for weights before MLIR reads them."""


def without_weights(source: Source) -> Source:
    """The program with its weights as inputs, and without the numbers of large constants."""
    signature = source.signature
    inputs = sorted(
        (*signature.inputs, *(item.port for item in signature.bound)),
        key=lambda port: port.position,
    )
    source = replace(source, signature=replace(signature, inputs=tuple(inputs), bound=()))
    if not any(map(_is_weight, operations_of(source.module.operation))):
        return source
    module = clone_module(source.module)
    for operation in filter(_is_weight, operations_of(module)):
        _conceal(operation)
    return replace(source, module=module)


def _is_weight(operation: ir.Operation) -> bool:
    if operation.name != "stablehlo.constant":
        return False
    element = ir.RankedTensorType(operation.results[0].type).element_type
    if isinstance(element, ir.IntegerType) and not 1 < element.width <= INDEX_BITS:
        return False
    # The bindings do not read attributes of complex numbers.
    if not isinstance(element, ir.IntegerType | ir.FloatType):
        return False
    value = operation.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return False
    return constant_bytes(operation) >= LARGE_BYTES


def _conceal(operation: ir.Operation) -> None:
    with operation.context, operation.location, ir.InsertionPoint(operation):
        made = ir.Operation.create(
            "stablehlo.custom_call",
            [operation.results[0].type],
            attributes={"call_target_name": ir.StringAttr.get(TARGET)},
        )
    operation.results[0].replace_all_uses_with(made.result)
    operation.erase()


# -- files ----------------------------------------------------------------------------------------

_CONSTANT = b'stablehlo.constant dense<"'
_CALL = f"stablehlo.custom_call @{TARGET}() : () -> ".encode()
_TYPE = re.compile(rb"> : (tensor<[0-9x]*?(?:(?:bf|f)\d\w*|u?i[2-8])>)")


def text_without_weights(path: Path) -> bytes | None:
    """The content of a file of StableHLO text with calls instead of large constants.

    Returns:
        None for a small file, and for one that is not text.
    """
    if not path.is_file() or path.stat().st_size < LARGE_FILE_BYTES:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b"\0", 0, 1 << 12) >= 0:
            return None
        return b"".join(_pieces(content))


def _pieces(content: mmap.mmap) -> Iterator[bytes]:
    """The text between large constants, and the calls in their place."""
    start = place = 0
    while (place := content.find(_CONSTANT, place)) >= 0:
        first = place + len(_CONSTANT)
        end = content.find(b'"', first)
        found = _TYPE.match(content, end + 1) if end >= 0 else None
        if found is not None and end - first >= 2 * LARGE_BYTES:
            yield content[start:place]
            yield _CALL + found[1]
            start = found.end()
        place = max(end, first)
    yield content[start:]

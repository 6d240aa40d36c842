"""Exact output types of the ONNX operators we emit.

One module for each family of operators registers its type rules.
"""

from hlo2onnx.ir.type_inference import elementwise, shapes
from hlo2onnx.ir.type_inference.registry import (
    RULES,
    MissingTypesError,
    ValueType,
    check_types,
    infer,
)

__all__ = [
    "RULES",
    "MissingTypesError",
    "ValueType",
    "check_types",
    "elementwise",
    "infer",
    "shapes",
]

"""The attributes of an op that its handler reads."""

from __future__ import annotations

from typing import Any

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import Handler

_OF_NO_MEANING = frozenset({"result_layout", "xla_shape"})
"""Attributes that XLA's exporters add to any op: the memory layout of its result and XLA's name of
its type."""


def read_attributes(handler: Handler, op: Op) -> dict[str, Any]:
    """The attributes the handler reads, as Python values.

    Raises:
        UnsupportedOp: The op has an attribute that the handler does not know, or lacks one that it
            needs.
    """
    values = {}
    for name in op.attribute_names:
        if name in handler.reads or (handler.reads_rest and name not in handler.ignores):
            values[name] = op.attribute(name)
        elif name not in handler.ignores and name not in _OF_NO_MEANING:
            raise UnsupportedOp(f"unknown attribute {name} = {op.attribute(name)}")
    if not handler.required.issubset(values):
        missing = handler.required - values.keys()
        raise UnsupportedOp(f"attribute {', '.join(sorted(missing))} is missing")
    return values

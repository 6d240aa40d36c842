"""How much an operator computes: its elements and multiplications."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import size_of

RUNTIME_DOMAINS = frozenset({"", "com.microsoft"})
"""Domains of operators that ONNX Runtime has itself. Others are of functions and of plug-ins."""

READS_PART = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
"""The work depends on the result alone."""


def elements(node: oir.Node) -> float:
    """Elements of the largest operand or result that is computed or read; inf if a size is
    unknown."""
    values = node.outputs if node.op_type in READS_PART else (*node.inputs, *node.outputs)
    return max([_size(value) for value in values if value is not None and value.name], default=0)


def multiplications(node: oir.Node) -> float | None:
    """Multiplications of products, convolutions, attention and recurrent networks.

    Returns:
        Their number, inf if an extent is unknown; None for other operators.
    """
    if node.op_type not in _PRODUCTS or node.domain not in RUNTIME_DOMAINS:
        return None
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.name]
    if math.inf in map(_size, values):
        return math.inf
    left, right = (extents(value) for value in node.inputs[:2] if value is not None)
    result = _size(node.outputs[0])
    match node.op_type:
        case "Conv" | "ConvInteger":
            return result * math.prod(right[1:])
        case "ConvTranspose":
            return math.prod(left) * math.prod(right[1:])
        case "LSTM" | "GRU" | "RNN":
            return math.prod(left[:2]) * (math.prod(right) + math.prod(extents(node.inputs[2])))
        case "Attention" | "GroupQueryAttention":
            keys = extents(node.outputs[1])[-2:-1] if len(node.outputs) > 1 else right[-2:-1]
            return 2 * math.prod(left) * math.prod(keys)
        case "Gemm" if "transA" in node.attributes and node.attributes["transA"].as_int():
            return result * left[0]
    return result * left[-1]


_PRODUCTS = frozenset(
    {"Attention", "Conv", "ConvInteger", "ConvTranspose", "GRU", "Gemm", "GroupQueryAttention",
     "LSTM", "MatMul", "MatMulInteger", "MatMulNBits", "RNN"}
)  # fmt: skip


def extents(value: oir.Value | None) -> list[int]:
    """The extents of a value that are known."""
    shape = value.shape if value is not None else None
    return [dim for dim in shape or () if isinstance(dim, int)]


def _size(value: oir.Value) -> float:
    """The number of elements; inf if it is not known."""
    size = None if value.shape is None else size_of(value)
    return math.inf if size is None else size

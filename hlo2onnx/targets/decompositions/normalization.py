"""BatchNormalization and IsNaN for targets whose kernels lack a type or take constants only."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.ir.values import attributes_of, dtype_of, present, rank_of
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder


def batch_normalization(b: TargetBuilder, node: oir.Node) -> Outputs:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + bias, where all have one type; not in
    training."""
    x, *parameters = present(node.inputs)
    given = attributes_of(node)
    types = {dtype_of(value) for value in (x, *parameters)}
    if given.get("training_mode") or len(node.outputs) > 1 or len(types) > 1:
        return None
    axes = list(range(1, rank_of(x) - 1))
    scale, bias, mean, variance = (b.unsqueeze(value, axes) for value in parameters)
    epsilon = b.scalar_like(given.get("epsilon", 1e-5), x)
    factor = b.Div(scale, b.Sqrt(b.Add(variance, epsilon)))
    return b.Add(b.Mul(b.Sub(x, mean), factor), bias)


def is_nan(b: TargetBuilder, node: oir.Node) -> Outputs:
    """IsNaN(Cast(x, f32)): casts keep NaN, and make infinities of large numbers."""
    (x,) = present(node.inputs)
    return b.IsNaN(b.cast(x, oir.DataType.FLOAT))


NORMALIZATIONS: Mapping[tuple[str, oir.DataType], Decompose] = {
    ("BatchNormalization", oir.DataType.FLOAT): batch_normalization,
    ("BatchNormalization", oir.DataType.DOUBLE): batch_normalization,
    ("IsNaN", oir.DataType.DOUBLE): is_nan,
}

"""Nodes kept apart from a product before them, for runtimes that would fuse the two.

When it loads a model, ONNX Runtime multiplies constant factors into the constant weights of the
convolution or product before them. The new weights may leave their type's range, or lose digits
that the separate nodes keep: `hlo2onnx.ir.weight_scaling` says where. Only there the nodes
are changed so that they do not match: the runtime expects the constant of a Mul or Add as the
second operand, and matches BatchNormalization but not its arithmetic.

It also matches across Transposes, which its optimizer moves away. All our constants are folded
before, so that the runtime computes no further factors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import complete, dtype_of, is_constant, rank_of
from hlo2onnx.ir.weight_scaling import (
    channel_rows,
    is_rounded,
    keeps_digits,
    keeps_range,
)
from hlo2onnx.ir.weights import ask, detached
from hlo2onnx.targets.builder import TargetBuilder

CONV_NORMALIZATION = "ConvBNFusion"
MATMUL_NORMALIZATION = "MatMul_BatchNormalization_Fusion"

_FEW_BITS = 8.0
"""Means of up to this many deviations lose at most three bits of what is normalized."""

_LARGEST = 2.0**31

_FLOATS = frozenset({oir.DataType.DOUBLE, oir.DataType.FLOAT, oir.DataType.FLOAT16})

_MOVES = {
    "Conv": frozenset({"Identity", "Transpose"}),
    "MatMul": frozenset({"Identity", "Reshape", "Transpose"}),
}
"""Operators between a product and the node that is fused with it."""


def keep_factor_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Mul(Conv(x, w, b), s) with its operands swapped where w * s or b * s is harmful; None for
    others."""
    product, scale = _product(node.inputs[0], "Conv"), node.inputs[1]
    if product is None or scale is None or not is_constant(scale):
        return None
    if _can_scale(product, np.asarray, scale):
        return None
    return builder.Mul(*node.inputs[::-1])


def keep_shift_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Add(Conv(x, w, b), c) with its operands swapped where b + c overflows; None for others."""
    product, shift = _product(node.inputs[0], "Conv"), node.inputs[1]
    bias = None if product is None else (*product.inputs, None)[2]
    if shift is None or bias is None or not is_constant(shift) or not is_constant(bias):
        return None
    if ask(_has_finite_sum, bias, shift):
        return None
    return builder.Add(*node.inputs[::-1])


def _has_finite_sum(bias: np.ndarray, shift: np.ndarray) -> bool:
    """Whether the sum, if a runtime computes it, is finite."""
    if shift.size not in (1, bias.size):
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(bias + shift.reshape(-1)).all())


def keep_bias_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Conv(q, w, b) and Gemm(q, w, b) of dequantized q and w as b + Conv(q, w) where the runtime
    would store b as 32-bit integers times both scales, and b is outside their range; None for
    others."""
    x, weights, bias = (*node.inputs, None)[:3]
    scales = complete(map(_scale_of, (x, weights)))
    if bias is None or scales is None or not is_constant(bias) or ask(_is_in_range, bias, *scales):
        return None
    beside = (-1, *(1,) * (rank_of(node.outputs[0]) - 2)) if node.op_type == "Conv" else None
    factor = node.attributes.get_float("beta", 1.0)  # Conv has none

    def moved(numbers: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = numbers * numbers.dtype.type(factor)
        return scaled if beside is None else np.reshape(scaled, beside)

    product = builder.like(node, [x, weights])
    return builder.Add(builder.derived(moved, bias), product)


def _is_in_range(bias: np.ndarray, x_scale: np.ndarray, weight_scale: np.ndarray) -> bool:
    """Whether 32-bit integers times the least scales hold the bias."""
    step = np.float64(x_scale.min()) * np.float64(weight_scale.min())
    return bool((np.abs(bias) < _LARGEST * step).all())


def _scale_of(value: oir.Value | None) -> oir.Value | None:
    """The scale of a dequantized value, if it is constant."""
    node = None if value is None else value.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return None
    return node.inputs[1] if is_constant(node.inputs[1]) else None


def spell_out_normalization(builder: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """BatchNormalization(x, s, b, m, v) of constants as (x - m) * s' + b where it loses digits, or
    where the runtime would multiply the weights of a product x by s' with harm; None for others.

    See `Flags.folds_batch_norm` for the digits.
    """
    x, *parameters = node.inputs
    constants = [value for value in parameters if value is not None and is_constant(value)]
    training = node.attributes.get_int("training_mode", 0) != 0
    if x is None or training or len(constants) < 4:
        return None
    scale, shift, mean, variance = constants
    epsilon, dtype = node.attributes.get_float("epsilon", 1e-5), dtype_of(x).numpy()
    beside = (-1, *(1,) * (rank_of(x) - 2))

    def factor_of(scale: np.ndarray, variance: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            root = np.sqrt(variance.astype(np.float64) + epsilon)
            factor: np.ndarray = scale.astype(np.float64) / root
            return factor

    def is_small(scale: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> bool:
        with np.errstate(all="ignore"):
            product = mean.astype(np.float64) * factor_of(scale, variance)
        return not np.abs(product).max(initial=0) > _FEW_BITS

    folds = builder.target.flags.folds_batch_norm and not is_rounded(x)
    loses_digits = folds and not ask(is_small, scale, mean, variance)
    fusions = ((CONV_NORMALIZATION, "Conv"), (MATMUL_NORMALIZATION, "MatMul"))
    products = [_product(x, kind) for name, kind in fusions if builder.target.has(name)]
    can_scale = all(
        product is None or _can_scale(product, factor_of, scale, variance) for product in products
    )
    if can_scale and not loses_digits:
        return None
    factor = builder.derived(
        lambda *arrays: factor_of(*arrays).astype(dtype).reshape(beside), scale, variance
    )
    mean, shift = (
        builder.derived(lambda array: array.reshape(beside), value, is_moved=True)
        for value in (mean, shift)
    )
    centred = x if ask(_is_zero, mean) else builder.Sub(x, mean)
    return builder.Add(builder.Mul(factor, centred), shift)


def _is_zero(array: np.ndarray) -> bool:
    return not array.any()


def _product(value: oir.Value | None, op_type: str) -> oir.Node | None:
    """The product with constant weights that makes a value, up to moves; None for others, and for
    bf16 and narrower types, which have no kernel."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVES[op_type] and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.domain or node.op_type != op_type:
        return None
    weights = node.inputs[1]
    is_float = weights is not None and is_constant(weights) and dtype_of(weights) in _FLOATS
    return node if is_float else None


def _can_scale(
    product: oir.Node, factor_of: Callable[..., np.ndarray], *factors: oir.Value
) -> bool:
    """Whether a product may take in a factor for each channel, or one for all, which is computed
    from constants."""
    weights, bias = product.inputs[1], (*product.inputs, None)[2]
    assert weights is not None
    copy, has_bias = detached(product), bias is not None and is_constant(bias)

    def is_harmless(rows: np.ndarray, *others: np.ndarray) -> bool:
        rows = channel_rows(copy, rows)
        scale = factor_of(*others[has_bias:]).reshape(-1)
        if scale.size not in (1, rows.shape[0]):
            return True  # no number a channel: it is not fused
        if has_bias and not keeps_range(others[0].reshape(-1, 1), scale, others[0].dtype):
            return False
        return keeps_digits(rows, scale) and keeps_range(rows, scale, rows.dtype)

    operands = [weights, bias] if has_bias and bias is not None else [weights]
    return bool(ask(is_harmless, *operands, *factors))

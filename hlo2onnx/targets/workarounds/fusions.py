"""Nodes kept apart from a product before them, for runtimes that would fuse the two.

When it loads a model, ONNX Runtime multiplies constant factors into the constant weights of the
convolution or product before them. The new weights may leave their type's range, or lose digits
that the separate nodes keep: `hlo2onnx.analysis.weight_scaling` says where. Only there the nodes
are changed so that they do not match: the runtime expects the constant of a Mul or Add as the
second operand, and matches BatchNormalization but not its arithmetic.

It also matches across Transposes, which its optimizer moves away. All our constants are folded
before, so that the runtime computes no further factors.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.weight_scaling import (
    channel_rows,
    is_rounded,
    keeps_digits,
    keeps_range,
)
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of, dtype_of, rank_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.target import Target

CONV_NORMALIZATION = "ConvBNFusion"
MATMUL_NORMALIZATION = "MatMul_BatchNormalization_Fusion"

_FEW_BITS = 8.0
"""Means of up to this many deviations lose at most three bits of what is normalized."""

_LARGEST = 2.0**31

_MOVES = {
    "Conv": frozenset({"Identity", "Transpose"}),
    "MatMul": frozenset({"Identity", "Reshape", "Transpose"}),
}
"""Operators between a product and the node that is fused with it."""


def keep_factor_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Mul(Conv(x, w, b), s) with its operands swapped where w * s or b * s is harmful; None for
    others."""
    product, scale = _product(node.inputs[0], "Conv"), const_of(node.inputs[1])
    if product is None or scale is None or _can_scale(product, scale.reshape(-1)):
        return None
    return builder.Mul(*node.inputs[::-1])  # type: ignore[no-any-return]


def keep_shift_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Add(Conv(x, w, b), c) with its operands swapped where b + c overflows; None for others."""
    product, shift = _product(node.inputs[0], "Conv"), const_of(node.inputs[1])
    bias = None if product is None else const_of((*product.inputs, None)[2])
    if shift is None or bias is None or shift.size not in (1, bias.size):
        return None
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(bias + shift.reshape(-1)).all()
    return None if is_finite else builder.Add(*node.inputs[::-1])


def keep_bias_apart(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """Conv(q, w, b) and Gemm(q, w, b) of dequantized q and w as b + Conv(q, w) where the runtime
    would store b as 32-bit integers times both scales, and b is outside their range; None for
    others."""
    x, weights, bias = (*node.inputs, None)[:3]
    numbers, scales = const_of(bias), [_scale_of(value) for value in (x, weights)]
    if numbers is None or any(scale is None for scale in scales):
        return None
    step = np.float64(scales[0]) * np.asarray(scales[1], np.float64)
    if (np.abs(numbers) < _LARGEST * step).all():
        return None
    beside = (
        (-1, *(1,) * (rank_of(node.outputs[0]) - 2)) if node.op_type == "Conv" else numbers.shape
    )
    product = builder.like(node, [x, weights])
    factor = node.attributes.get_float("beta", 1.0)  # Conv has none
    moved = (numbers * numbers.dtype.type(factor)).reshape(beside)
    return builder.Add(builder.const(moved), product)  # type: ignore[no-any-return]


def _scale_of(value: oir.Value | None) -> np.ndarray | None:
    """The least scale of a dequantized value, if it is constant."""
    node = None if value is None else value.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return None
    scale = const_of(node.inputs[1])
    return None if scale is None else scale.min()


def spell_out_normalization(builder: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """BatchNormalization(x, s, b, m, v) of constants as (x - m) * s' + b where it loses digits, or
    where the runtime would multiply the weights of a product x by s' with harm; None for others.

    See `Flags.folds_batch_norm` for the digits.
    """
    x, *parameters = node.inputs
    arrays = [const_of(value) for value in parameters]
    training = node.attributes.get_int("training_mode", 0) != 0
    if x is None or training or any(array is None for array in arrays):
        return None
    scale, shift, mean, variance = (np.asarray(a, np.float64) for a in arrays)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
        if _is_harmless(x, factor, mean, shift, builder.target):
            return None
        dtype = dtype_of(x).numpy()
        beside = (-1, *(1,) * (rank_of(x) - 2))
        numbers = [array.astype(dtype).reshape(beside) for array in (mean, factor, shift)]
    constants = [builder.const(array) for array in numbers]
    centred = builder.Sub(x, constants[0]) if mean.any() else x
    return builder.Add(builder.Mul(constants[1], centred), constants[2])  # type: ignore[no-any-return]


def _is_harmless(
    x: oir.Value, factor: np.ndarray, mean: np.ndarray, shift: np.ndarray, target: Target
) -> bool:
    """Whether a batch normalization with this factor may stand behind x."""
    loses_digits = target.flags.folds_batch_norm and not is_rounded(x)
    if loses_digits and np.abs(mean * factor).max(initial=0) > _FEW_BITS:
        return False
    fusions = target.harmful_fusions
    product = _product(x, "Conv") if CONV_NORMALIZATION in fusions else None
    if product is None and MATMUL_NORMALIZATION in fusions:
        product = _product(x, "MatMul")
    if product is None:
        return True
    moved = (shift - mean * factor).astype(dtype_of(x).numpy())
    return _can_scale(product, factor) and bool(np.isfinite(moved).all())


def _product(value: oir.Value | None, op_type: str) -> oir.Node | None:
    """The product with constant weights that makes a value, up to moves; None for others, and for
    bf16 and narrower types, which have no kernel."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVES[op_type] and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.domain or node.op_type != op_type:
        return None
    weights = const_of(node.inputs[1])
    return None if weights is None or weights.dtype.kind != "f" else node


def _can_scale(product: oir.Node, scale: np.ndarray) -> bool:
    """Whether a product may take in a factor for each channel, or one for all."""
    weights, bias = const_of(product.inputs[1]), const_of((*product.inputs, None)[2])
    assert weights is not None
    rows = channel_rows(product, weights)
    if scale.size not in (1, rows.shape[0]):
        return True  # not one number for each channel: it is not fused
    if bias is not None and not keeps_range(bias.reshape(-1, 1), scale, bias.dtype):
        return False
    return keeps_digits(rows, scale) and keeps_range(rows, scale, rows.dtype)

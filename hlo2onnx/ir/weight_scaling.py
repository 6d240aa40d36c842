"""The effect on range and digits of multiplying a factor into constant weights.

A sum y = w_1 x_1 + ... + w_n x_n of constant weights is scaled: (y + b) * s. Folded, it is
(w_1 s) x_1 + ... + (w_n s) x_n + b s. Both are the same real number. In floats they differ in two
ways.

Range: each w_i s and b s must be a normal number of the type, and so must be the sum of all
|w_i s|, which bounds the result for inputs of up to 1.

Digits: let u be half a unit in the last place of 1, and X a bound of |x_i|.
* Folding rounds each weight and the bias once more, unless s is a power of two. That adds up to
  u |s| (|w_1| X + ... + |w_n| X + |b|), and the products, of full length now, are rounded too.
* The original sum has rounding errors of that size itself, or none at all. It has none where all
  products and partial sums fit in the mantissa of p bits. Let g be the largest power of two of
  which all weights are multiples, L = (|w_1| + ... + |w_n|) / g, and let the inputs be integers
  times a power of two, of up to k bits: then it is exact if L 2^k <= 2^p.
* y + b may be any small number, for images around 255 and b = -255 for example. So if the sum may
  be exact, no number of digits bounds the loss. If it is not exact, folding makes the error at most
  three times as large: fewer than two bits.

So a sum with L > 2^(p - 6) is folded. For 8-bit inputs, such as images, it has up to 2 bits more
than the mantissa. Trained f32 weights have L > 2^18; ones, box filters, differences, and few
weights stored in 8 bits have not.

A bias alone changes no weight. Runtimes add it to the finished sum, so that no digit is lost.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_of

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_DEPTH = 4
"""Longest path from a value back to a product that is searched."""

_SPARE_BITS = 6
"""Bits, of the at least 8 bits of inputs, that a rounding sum does not need."""

_FEW_TERMS = 64
"""Terms of a row that are examined first. They usually show that it is not short."""


def channel_rows(node: oir.Node, weights: np.ndarray) -> np.ndarray:
    """The weights of each channel of a Conv, ConvTranspose, Gemm or MatMul, one channel a row.

    Args:
        node: The product; only its operator and attributes are read.
        weights: Its second operand, of rank 3 or more for convolutions, of any rank for MatMul.
    """
    if node.op_type == "Conv":
        return _first_axis_apart(weights)
    if node.op_type == "ConvTranspose":
        groups = node.attributes.get_int("group", 1)
        parts = weights.reshape(groups, weights.shape[0] // groups, weights.shape[1], -1)
        return parts.transpose(0, 2, 1, 3).reshape(groups * weights.shape[1], -1)
    if weights.ndim < 2:
        return weights.reshape(1, -1)
    if node.op_type == "Gemm" and node.attributes.get_int("transB", 0) != 0:
        return weights
    return np.moveaxis(weights, -1, 0).reshape(weights.shape[-1], -1)


def _first_axis_apart(array: np.ndarray) -> np.ndarray:
    """The elements for each index of the first axis, in the order that needs no copy."""
    others = sorted(range(1, array.ndim), key=lambda axis: -array.strides[axis])
    if array.strides[0] <= min(array.strides[axis] for axis in others):
        return array.transpose(*others, 0).reshape(-1, array.shape[0]).T
    return array.transpose(0, *others).reshape(array.shape[0], -1)


def keeps_range(rows: np.ndarray, scale: np.ndarray, dtype: np.dtype) -> bool:
    """Whether weights times a scale for each row, or one for all, are normal numbers of a type.

    Zeros may stay zeros. Infinite and NaN weights and scales are refused.
    """
    sizes, magnitudes = np.abs(scale.astype(np.float64).reshape(-1)), np.abs(rows)
    least = np.where(rows == 0, rows.dtype.type(np.inf), magnitudes).min(axis=1, initial=np.inf)
    with np.errstate(all="ignore"):
        reach = magnitudes.sum(axis=1, dtype=np.float64) * sizes
        is_normal = least * sizes >= float(np.finfo(dtype).tiny)
        return bool(((sizes == 0) | is_normal).all() and (reach <= np.finfo(dtype).max).all())


def keeps_digits(rows: np.ndarray, scale: np.ndarray) -> bool:
    """Whether scaling the rows loses less than two bits, whatever the inputs are (see above).

    Args:
        rows: The weights in their own type, one channel a row.
        scale: A factor for each row, or one for all.
    """
    is_exact = np.abs(np.frexp(scale.astype(np.float64).reshape(-1))[0]) == 0.5
    scaled = ~np.broadcast_to(is_exact, rows.shape[:1])
    return not bool((scaled & may_sum_exactly(rows)).any())


def is_rounded(value: oir.Value, depth: int = _DEPTH) -> bool:
    """Whether a value is computed from sums of products that round. Sums with unknown weights
    do."""
    node = value.producer()
    if node is None or depth == 0:
        return False
    if node.op_type in PRODUCTS and not node.domain:
        weights = const_of(node.inputs[1])
        if weights is None or weights.dtype.kind != "f" or weights.ndim < 2:
            return True
        return not may_sum_exactly(channel_rows(node, weights)).any()
    return any(is_rounded(x, depth - 1) for x in node.inputs if x is not None)


def may_sum_exactly(rows: np.ndarray) -> np.ndarray:
    """For each row, whether its products with inputs of few digits add up without rounding.

    Rows of zeros do, but have no digits to lose, so the answer for them is False.
    """
    found = _are_short(rows[:, :_FEW_TERMS])
    if rows.shape[1] > _FEW_TERMS and found.any():  # more terms only need more digits
        found[found] = _are_short(rows[found])
    return found & rows.any(axis=1) if found.any() else found


def _are_short(rows: np.ndarray) -> np.ndarray:
    """For each row, whether the sum of its sizes is few of its steps."""
    numbers = rows.astype(np.float64)
    most = 2.0 ** (np.finfo(rows.dtype).nmant + 1 - _SPARE_BITS)
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(numbers).sum(axis=1) / _steps(numbers) <= most)


def _steps(rows: np.ndarray) -> np.ndarray:
    """The largest power of two of which all numbers of a row are multiples; inf for zeros."""
    fractions, exponents = np.frexp(rows)
    with np.errstate(all="ignore"):  # infinities and NaN are refused for their range
        whole = np.ldexp(fractions, 53).astype(np.int64)
        lowest = (whole & -whole).astype(np.float64)
        steps = np.where(rows == 0, np.inf, np.ldexp(lowest, exponents - 53))
    return np.asarray(steps.min(axis=1, initial=np.inf))

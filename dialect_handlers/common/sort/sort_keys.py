"""Sorting by keys: tensors that TopK orders, and the permutation it gives.

TopK is stable: among equals the lower index comes first. It has neither the total order nor a rule
for NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.float_bits import total_order_key
from dialect_handlers.common.sort.comparators import Order
from hlo2onnx.ir.notes import keep_rounding
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, INTEGERS, Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter

T = oir.DataType

_I63 = range_of_type(T.INT64)


@dataclass(frozen=True)
class Key:
    """A tensor to sort by; `descending` says that the greater element comes first."""

    tensor: oir.Value
    descending: bool


def keys_of(em: Emitter, x: oir.Value, order: Order, descending: bool) -> list[Key]:
    """Keys that TopK can sort by so that the elements of x come in this order."""
    return [Key(tensor, descending) for tensor in _comparable(em, x, order)]


def top_k(em: Emitter, key: Key, axis: int, k: Dim | None) -> tuple[oir.Value, oir.Value]:
    """The first k elements in the key's order (all for None) and their indices as i64."""
    tensor, dims = key.tensor, list(shape_of(key.tensor))
    extent = dims[axis] if k is None else k
    if k is not None or isinstance(extent, int):
        count, dims[axis] = em.extents.value(extent), extent
    else:
        count = em.op("Shape", tensor, start=axis, end=axis + 1, types=[(T.INT64, (1,))])
    shape = tuple(dims)
    values, indices = em.outputs(
        "TopK",
        tensor,
        count,
        axis=axis,
        largest=int(key.descending),
        sorted=1,
        n_outputs=2,
        types=[(dtype_of(tensor), shape), (T.INT64, shape)],
    )
    return values, indices


def permutation(em: Emitter, keys: Sequence[Key], axis: int, k: Dim | None) -> oir.Value:
    """Indices (i64) of the first k elements, sorted stably by the keys, the most significant first.

    One stable sort per key, from the last to the first.
    """
    keys = _packed(em, keys)
    indices: oir.Value | None = None
    for key in reversed(keys):
        count = k if key is keys[0] else None
        if indices is None:
            _, indices = top_k(em, key, axis, count)
            continue
        moved = Key(em.GatherElements(key.tensor, indices, axis=axis), key.descending)
        _, picked = top_k(em, moved, axis, count)
        indices = em.GatherElements(indices, picked, axis=axis)
    assert indices is not None
    return indices


# -- tensors that TopK orders as StableHLO does -------------------------------------------------


def _comparable(em: Emitter, x: oir.Value, order: Order) -> list[oir.Value]:
    """Tensors, the most significant first, with the order of the elements of x."""
    dtype = dtype_of(x)
    if dtype == T.BOOL:
        return [em.cast(x, T.UINT8)]
    if dtype == T.UINT64:
        return [_biased(em, x)]
    if dtype not in FLOATS:
        return [em.cast(x, T.INT8) if dtype.bitwidth < 8 else x]
    nan_free = em.facts.nan_free(x) or not em.guards_nan
    if order == Order.NUMBERS:
        return _numbers(em, x, nan_free)
    return _in_total_order(em, x, nan_free)


def _biased(em: Emitter, x: oir.Value) -> oir.Value:
    """u64 as i64 of the same order: the highest bit inverted."""
    known = em.facts.int_range(x)
    signed = em.cast(x, T.INT64)
    if known is not None and known.within(*_I63):
        return signed
    return em.BitwiseXor(signed, em.scalar_like(_I63.low, signed))


def _numbers(em: Emitter, x: oir.Value, nan_free: bool) -> list[oir.Value]:
    """The order of numbers: a wider type has room for NaN above infinity. f64, which has none, and
    f32 where the target has no f64, are sorted by whether they are NaN first."""
    narrow = dtype_of(x) not in (T.FLOAT, T.DOUBLE)
    if nan_free:
        return [_in_f32(em, x) if narrow and dtype_of(x) != T.FLOAT16 else x]
    if narrow or (dtype_of(x) == T.FLOAT and em.has_f64):
        wide = _in_f32(em, x) if narrow else em.cast(x, T.DOUBLE)
        return [_nan_above_infinity(em, wide, em.facts.float_range(x).high < math.inf)]
    return _nan_first(em, x)


def _in_f32(em: Emitter, x: oir.Value) -> oir.Value:
    """A narrower float in f32: rounded, so that equal numbers stay equal."""
    return keep_rounding(em.cast(x, T.FLOAT))


def _nan_first(em: Emitter, x: oir.Value) -> list[oir.Value]:
    """Whether x is NaN, and x with infinity in place of NaN."""
    nan = em.IsNaN(x)
    return [em.cast(nan, T.UINT8), em.Where(nan, em.scalar_like(math.inf, x), x)]


def _nan_above_infinity(em: Emitter, wide: oir.Value, finite: bool) -> oir.Value:
    """x with NaN as infinity, and infinity as the largest number of a wider type, which no other
    element reaches; `finite` says that there is no infinity."""
    bounded = wide
    if not finite:
        largest = np.finfo(dtype_of(wide).numpy()).max
        bounded = em.Min(wide, em.scalar_like(largest, wide))
    return em.Where(em.IsNaN(wide), em.scalar_like(math.inf, wide), bounded)


def _in_total_order(em: Emitter, x: oir.Value, nan_free: bool) -> list[oir.Value]:
    """Keys for the total order: the bits if the sign of NaN can be read, else numbers of a wider
    type, or the numbers and then the signs of zeros."""
    dtype = dtype_of(x)
    if dtype == T.DOUBLE or (not nan_free and dtype.bitwidth > 8 and em.has_bitcast):
        return [total_order_key(em, x)]
    if not nan_free:
        em.report.note("sorts treat every NaN as positive: reading its sign needs BitCast")
    if not em.has_f64:
        single = _in_f32(em, x)
        keys = [single] if nan_free else _nan_first(em, single)
        return [*keys, _is_positive_zero(em, single)]
    apart = _zeros_apart(em, x)
    if nan_free:
        return [apart]
    return [_nan_above_infinity(em, apart, em.facts.float_range(x).high < math.inf)]


def _is_positive_zero(em: Emitter, x: oir.Value) -> oir.Value:
    """1 for +0, and for numbers so small that their reciprocals are infinite; 0 for -0."""
    reciprocal = em.Div(em.scalar_like(1.0, x), x)
    return em.cast(em.Equal(reciprocal, em.scalar_like(math.inf, x)), T.UINT8)


def _zeros_apart(em: Emitter, x: oir.Value) -> oir.Value:
    """Floats without NaN, of f32 or less, as f64 with -0 < +0. The addend that separates the zeros
    (by 1 / -0 = -inf) is too small to move a number past its neighbour."""
    wide = em.cast(x, T.DOUBLE)
    reciprocal = em.Div(em.scalar_like(1.0, wide), wide)
    sign = em.Clip(reciprocal, em.scalar_like(-1e-50, wide), em.scalar_like(1e-50, wide))
    return em.Add(wide, sign)


# -- several integer keys in one ------------------------------------------------------------------


def _packed(em: Emitter, keys: Sequence[Key]) -> list[Key]:
    """The keys, with neighbours joined if their ranges together fit into one i64: a sort costs more
    than the arithmetic. A target without i64 keeps them apart."""
    if em.target.flags.narrows_i64:
        return list(keys)
    packed = [keys[0]]
    for key in keys[1:]:
        joined = _joined(em, packed[-1], key)
        if joined is None:
            packed.append(key)
        else:
            packed[-1] = joined
    return packed


def _joined(em: Emitter, major: Key, minor: Key) -> Key | None:
    """major · span + minor as one ascending key, None where that might not fit."""
    if not {dtype_of(major.tensor), dtype_of(minor.tensor)} <= INTEGERS:
        return None
    upper, lower = em.facts.int_range(major.tensor), em.facts.int_range(minor.tensor)
    if upper is None or lower is None:
        return None
    span = lower.high - lower.low + 1
    low, high = (~upper.high, ~upper.low) if major.descending else upper
    if span > _I63.high or low * span < _I63.low or high * span + span - 1 > _I63.high:
        return None
    first, second = em.cast(major.tensor, T.INT64), em.cast(minor.tensor, T.INT64)
    if major.descending:
        first = em.BitwiseNot(first)
    scaled = em.Mul(first, em.scalar_like(span, first))
    if minor.descending:
        rest = em.Sub(em.scalar_like(lower.high, second), second)
    else:
        rest = em.Sub(second, em.scalar_like(lower.low, second))
    return Key(em.Add(scaled, rest), descending=False)

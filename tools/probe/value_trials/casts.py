"""Trials of casts and of quantization: integers wrap, floats are rounded once, to nearest even.

Outside the range of an integer type ONNX leaves the cast of a float open, and what becomes of too
large a number in 8 bits depends on the runtime: both are not tried. Quantized numbers are
(q - zero point) · scale, and back with saturation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    LIMITED,
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    is_float,
    node,
    specials,
    spread,
)


def _cast(source: ir.DataType, result: ir.DataType) -> list[Trial]:
    x = _inputs(source, result)
    long = np.concatenate([x, spread(x, VECTOR)])
    attributes: dict[str, Any] = {"to": result.value}
    if result.name.startswith("FLOAT8"):
        attributes["saturate"] = 0
    if result == ir.DataType.FLOAT8E8M0:
        attributes["round_mode"] = "nearest"
    trials = []
    for values in (long, long[:3], long[1]):
        right, also = _cast_values(np.asarray(values), result)
        trials.append(Trial("Cast", (np.asarray(values),), (right,), attributes, also))
    return trials


def _inputs(source: ir.DataType, result: ir.DataType) -> Array:
    """Edges of the source, and for a narrower float numbers on and next to its ties."""
    x = edges(source)
    if not is_float(result.numpy()):
        if result == ir.DataType.BOOL:
            return specials(source)
        if not is_float(x.dtype):
            return x
        x = np.concatenate([x, _near_the_end(source, result)])
        return x[_truncates_into(x, result)]
    if is_float(x.dtype):
        x = specials(source)
        if result.bitwidth < source.bitwidth:
            x = np.concatenate([x, _ties(source, result)])
    return x[_fits(x, result)]


def _near_the_end(source: ir.DataType, result: ir.DataType) -> Array:
    """Floats in the upper half of an integer type's range, and the negative ones."""
    top = float(ml_dtypes.iinfo(result.numpy()).max) + 1
    sizes = np.array([top / 2, 0.625 * top, top * (1 - 2.0**-8), top * (1 - 2.0**-20)])
    with np.errstate(over="ignore"):
        found = np.concatenate([sizes, -sizes]).astype(source.numpy())
    return found[np.isfinite(found.astype(np.float64))]


def _ties(source: ir.DataType, result: ir.DataType) -> Array:
    """Halfway between neighbours of the narrower type, and one step of the wider to either side."""
    digits, wider = (ml_dtypes.finfo(d.numpy()).nmant for d in (result, source))
    halves = 1 + (2 * np.arange(min(2**digits, 8)) + 1) * 2.0 ** -(digits + 1)
    sizes = np.concatenate([halves * (1 + step * 2.0**-wider) for step in (-1, 0, 1)])
    scaled = np.concatenate([sizes, -sizes, sizes * 4])
    if ml_dtypes.finfo(result.numpy()).minexp < -4:
        scaled = np.concatenate([scaled, sizes / 8])
    return scaled.astype(source.numpy())


def _fits(x: Array, result: ir.DataType) -> Array:
    """Up to the largest number; infinities from 16 bits on; of f8e8m0 its values only."""
    wide = x.astype(np.float64)
    if result == ir.DataType.FLOAT8E8M0:
        return np.asarray((wide > 2.0**-127) & (np.frexp(wide)[0] == 0.5))
    fits = np.abs(wide) <= float(ml_dtypes.finfo(result.numpy()).max)
    return np.asarray(fits | np.isnan(wide) | (np.isinf(wide) & (result.bitwidth >= 16)))


def _truncates_into(x: Array, result: ir.DataType) -> Array:
    info = ml_dtypes.iinfo(result.numpy())
    low, high = int(info.min), int(info.max)
    if LIMITED.get() and result.bitwidth >= 32:
        low, high = max(low, -(2**24)), 2**24
    whole = np.trunc(x.astype(np.longdouble))
    return (whole >= low) & (whole <= high)


def _cast_values(x: Array, result: ir.DataType) -> tuple[Array, tuple[Array, ...] | None]:
    """What is right, and what a rounding to f32 on the way makes of it, as it does in XLA."""
    to = result.numpy()
    with np.errstate(all="ignore"):
        if result == ir.DataType.BOOL:
            return x.astype(np.float64) != 0 if is_float(x.dtype) else x.astype(bool), None
        if not is_float(to):
            return _wrapped(x, result), None
        right = _rounded(x.astype(np.longdouble), to)
        if to.itemsize >= 4:
            return right, None
        return right, (_rounded(x.astype(np.float32).astype(np.longdouble), to),)


def _wrapped(x: Array, result: ir.DataType) -> Array:
    """Whole numbers modulo the width of an integer type."""
    bits = result.bitwidth
    low = 0 if result.name.startswith("U") else -(1 << bits - 1)
    numbers = [(int(n) - low) % (1 << bits) + low for n in np.asarray(x).reshape(-1)]
    return (
        np.array(numbers, object)
        .astype(np.int64 if low else np.uint64)
        .astype(result.numpy())
        .reshape(x.shape)
    )


def _rounded(x: Array, to: np.dtype[Any]) -> Array:
    """Round to nearest even in one step, in numbers of 64 bits of mantissa."""
    info = ml_dtypes.finfo(to)
    odd = ~np.isfinite(x) | (x == 0)
    exponent = np.maximum(np.frexp(np.where(odd, 1, x))[1] - 1, int(info.minexp))
    unit = exponent - int(info.nmant)
    whole = np.rint(np.ldexp(np.where(odd, 0, x), -unit))
    exact = np.where(odd, x, np.ldexp(whole, unit))
    return np.asarray(exact.astype(np.float64).astype(to)).reshape(x.shape)


def _cast_like(source: ir.DataType, result: ir.DataType) -> list[Trial]:
    return [
        replace(
            trial,
            op_type="CastLike",
            inputs=(*trial.inputs, np.ones(1, result.numpy())),
            attributes={name: item for name, item in trial.attributes.items() if name != "to"},
        )
        for trial in _cast(source, result)
    ]


def _bit_cast(source: ir.DataType, result: ir.DataType) -> list[Trial]:
    if source.bitwidth != result.bitwidth:
        return []
    x = spread(specials(source), 5, VECTOR)
    return [Trial("BitCast", (x,), (x.view(result.numpy()),), {"to": result.value})]


_LARGEST = 2000
"""Beyond it halves are no numbers of f16."""


def _dequantize(quantized: ir.DataType, scale: ir.DataType = ir.DataType.FLOAT) -> list[Trial]:
    """Without a zero point, and with one where the type is not i32, which has none."""
    x = edges(quantized)
    x = x[np.abs(x.astype(np.float64)) <= _LARGEST]
    if scale == ir.DataType.FLOAT8E8M0 or is_float(x.dtype):
        return []
    step, found = np.asarray(0.5, scale.numpy()), []
    for points in [()] if quantized == ir.DataType.INT32 else [(), (edges(quantized)[2],)]:
        right = (x.astype(np.int32) - int(points[0] if points else 0)) * 0.5
        found.append(node("DequantizeLinear", x, step, *points, right=(right.astype(step.dtype),)))
    return found


def _quantize(source: ir.DataType, result: ir.DataType = ir.DataType.UINT8) -> list[Trial]:
    """Ties go to even, before the zero point is added."""
    if is_float(result.numpy()):
        return []
    x = np.arange(-VECTOR, VECTOR) / 8
    x = np.concatenate([x, spread(np.array([-900.25, 700.5, 300]), 9)]).astype(source.numpy())
    step, found = np.asarray(0.25, source.numpy()), []
    info = ml_dtypes.iinfo(result.numpy())
    for zero in edges(result)[[-1, 2]]:
        right = np.clip(np.rint(x.astype(np.float64) * 4) + int(zero), int(info.min), int(info.max))
        right = right.astype(np.int32).astype(zero.dtype)
        found.append(node("QuantizeLinear", x, step, zero, right=(right,)))
    return found


TRIALS: Mapping[str, Trials] = {
    "BitCast": _bit_cast,
    "Cast": _cast,
    "CastLike": _cast_like,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
}

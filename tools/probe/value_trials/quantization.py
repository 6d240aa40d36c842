"""Trials of quantization to integers: (q - zero point) · scale, and back with saturation."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import VECTOR, Array, Trial, Trials, edges, is_float, spread

_LARGEST = 2000
"""Beyond it halves are no numbers of f16."""


def _points(dtype: ir.DataType) -> list[Array]:
    """Zero points: none, and one where the type is not i32, which has none."""
    return [] if dtype == ir.DataType.INT32 else [np.asarray(edges(dtype)[2])]


def _dequantize(quantized: ir.DataType, scale: ir.DataType = ir.DataType.FLOAT) -> list[Trial]:
    if scale == ir.DataType.FLOAT8E8M0:
        return []
    x = edges(quantized)
    x = x[np.abs(x.astype(np.float64)) <= _LARGEST]
    if is_float(x.dtype):
        return []
    step = np.asarray(0.5, scale.numpy())
    found = [Trial("DequantizeLinear", (x, step), (x.astype(step.dtype) * step,))]
    for zero in _points(quantized):
        right = (x.astype(np.int32) - int(zero)) * 0.5
        found.append(Trial("DequantizeLinear", (x, step, zero), (right.astype(step.dtype),)))
    return found


def _quantize(source: ir.DataType, result: ir.DataType = ir.DataType.UINT8) -> list[Trial]:
    """Ties go to even, before the zero point is added."""
    if is_float(result.numpy()):
        return []
    info = ml_dtypes.iinfo(result.numpy())
    x = np.arange(-VECTOR, VECTOR) / 8
    x = np.concatenate([x, spread(np.array([-900.25, 700.5, 300]), 9)]).astype(source.numpy())
    step = np.asarray(0.25, source.numpy())
    found = []
    for zero in (np.asarray(edges(result)[-1]), np.asarray(edges(result)[2])):
        right = np.clip(np.rint(x.astype(np.float64) * 4) + int(zero), int(info.min), int(info.max))
        found.append(
            Trial("QuantizeLinear", (x, step, zero), (right.astype(np.int32).astype(zero.dtype),))
        )
    return found


TRIALS: Mapping[str, Trials] = {"DequantizeLinear": _dequantize, "QuantizeLinear": _quantize}

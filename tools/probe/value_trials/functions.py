"""Trials of functions whose floats are rounded: they may be off by a little, but not by much.

Fourier transforms are among them. A single 1 among zeros has ones as its spectrum, and the other
way round, of which every sum of products is exact; of random numbers none is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import VECTOR, Trial, Trials, i64, node

_CLOSE: Mapping[ir.DataType, float] = {ir.DataType.FLOAT: 1e-5, ir.DataType.DOUBLE: 1e-10}
"""How far, relative to the largest number of a result, others may be off. Other types have no
trials: runtimes may compute them in f32."""


def _elementwise(op_type: str, low: float, high: float, dtype: ir.DataType) -> list[Trial]:
    x = np.linspace(low, high, 2001).astype(dtype.numpy())
    return [node(op_type, x, tolerance=_CLOSE[dtype])] if dtype in _CLOSE else []


def _rows(op_type: str, dtype: ir.DataType) -> list[Trial]:
    """Rows whose exponentials leave the range."""
    if dtype not in _CLOSE:
        return []
    x = np.random.default_rng(0).normal(size=(6, 40)) * 5
    x = (x + np.array([0, 50, -50, 1000, -1000, 3000])[:, None]).astype(dtype.numpy())
    if op_type.endswith("max"):
        return [node(op_type, x, axis=1, tolerance=_CLOSE[dtype])]
    return [node(op_type, x, i64(1), keepdims=0, tolerance=_CLOSE[dtype])]


_RANGES: Mapping[str, tuple[float, float]] = {
    "Acos": (-1, 1),
    "Acosh": (1, 30),
    "Asin": (-1, 1),
    "Asinh": (-30, 30),
    "Atan": (-30, 30),
    "Atanh": (-0.99, 0.99),
    "Cos": (-300, 300),
    "Cosh": (-5, 5),
    "Exp": (-5, 5),
    "Log": (0.01, 30),
    "Sigmoid": (-10, 10),
    "Sin": (-300, 300),
    "Sinh": (-5, 5),
    "Tan": (-1.5, 1.5),
    "Tanh": (-30, 30),
}


def _dft(dtype: ir.DataType, inverse: bool = False, onesided: bool = False) -> list[Trial]:
    """Along axis 1, where DFT has it by default until opset 19 (from then on it is the last but
    one), and along axis 0, which is an attribute until opset 19."""
    found = []
    for length in (1, 2, 64, VECTOR):
        half = length // 2 + 1
        inputs = half if inverse and onesided else length
        outputs = half if onesided and not inverse else length
        x = np.zeros((2, inputs, 2 if inverse else 1), dtype.numpy())
        y = np.zeros((2, outputs, 1 if inverse and onesided else 2), dtype.numpy())
        if inverse:
            x[..., 0], y[:, 0, 0] = 1, 1
        else:
            x[:, 0, 0], y[..., 0] = 1, 1
        attributes = {"inverse": int(inverse), "onesided": int(onesided)}
        inputs_ = (x, np.array(length, np.int64))
        found.append(Trial("DFT", inputs_, (y,), attributes))
        turned = (np.ascontiguousarray(x.swapaxes(0, 1)), inputs_[1], np.array(0, np.int64))
        found.append(Trial("DFT", turned, (np.ascontiguousarray(y.swapaxes(0, 1)),), attributes))
    if not inverse and dtype == ir.DataType.FLOAT:
        found.append(_random(onesided))
    return found


def _random(onesided: bool) -> Trial:
    """Real numbers of f32."""
    x = np.random.default_rng(0).normal(size=(2, VECTOR, 1)).astype(np.float32)
    transform = np.fft.rfft if onesided else np.fft.fft
    spectrum = transform(x[..., 0].astype(np.float64), axis=1)
    y = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    inputs = (x, np.array(VECTOR, np.int64))
    return Trial("DFT", inputs, (y,), {"inverse": 0, "onesided": int(onesided)}, tolerance=1e-5)


TRIALS: Mapping[str, Trials] = {
    **{op_type: partial(_elementwise, op_type, *ends) for op_type, ends in _RANGES.items()},
    **{op: partial(_rows, op) for op in ("LogSoftmax", "ReduceLogSumExp", "Softmax")},
    "DFT": _dft,
    "DFT[inverse=1,onesided=1]": partial(_dft, inverse=True, onesided=True),
    "DFT[inverse=1]": partial(_dft, inverse=True),
    "DFT[onesided=1]": partial(_dft, onesided=True),
}

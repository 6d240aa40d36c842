"""Trials of Fourier transforms: a single 1 among zeros has ones as its spectrum, and the other way
round, of which every sum of products is exact; and random numbers, of which none is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import VECTOR, Trial, Trials


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
    "DFT": _dft,
    "DFT[inverse=1,onesided=1]": partial(_dft, inverse=True, onesided=True),
    "DFT[inverse=1]": partial(_dft, inverse=True),
    "DFT[onesided=1]": partial(_dft, onesided=True),
}

"""jax.scipy.signal and jax.numpy.fft: what is built on transforms and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import signal

import hlo2onnx

RNG = np.random.default_rng(0)
LINE, TAPS = RNG.normal(size=300), RNG.normal(size=17)
IMAGE, STAMP = RNG.normal(size=(20, 30)), RNG.normal(size=(3, 5))

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    **{
        f"{name} {mode}": (lambda x, y, f=f, mode=mode: f(x, y, mode=mode), inputs)
        for mode in ("full", "same", "valid")
        for name, f, inputs in (
            ("convolve", signal.convolve, (LINE, TAPS)),
            ("correlate", signal.correlate, (LINE, TAPS)),
            ("convolve2d", signal.convolve2d, (IMAGE, STAMP)),
            ("fftconvolve", signal.fftconvolve, (LINE, TAPS)),
        )
    },
    "convolve by transforms": (lambda x, y: signal.convolve(x, y, method="fft"), (LINE, TAPS)),
    "fftconvolve of images": (signal.fftconvolve, (IMAGE, STAMP)),
    "fftconvolve along an axis": (
        lambda x, y: signal.fftconvolve(x, y, axes=1), (IMAGE, IMAGE[:, :7])
    ),
    "stft": (lambda x: signal.stft(x, fs=2.0, nperseg=64), (LINE,)),
    "stft of another length": (
        lambda x: signal.stft(x, nperseg=50, noverlap=20, detrend="constant"), (LINE,)
    ),
    "stft of complex numbers": (
        lambda x: signal.stft(x + 1j * x[::-1], nperseg=64, return_onesided=False), (LINE,)
    ),
    "istft": (lambda x: signal.istft(signal.stft(x, nperseg=64)[2], nperseg=64), (LINE,)),
    "welch": (lambda x: signal.welch(x, nperseg=64), (LINE,)),
    "welch of images": (lambda x: signal.welch(x, nperseg=12, scaling="spectrum"), (IMAGE,)),
    "csd": (lambda x: signal.csd(x, x[::-1], nperseg=60), (LINE,)),
    "gradient of welch": (
        jax.grad(lambda x: jnp.log(signal.welch(x, nperseg=64)[1]).sum()), (LINE,)
    ),
    "fftshift": (lambda x: jnp.fft.fftshift(jnp.fft.fft2(x)), (IMAGE,)),
    "hfft": (lambda x: jnp.fft.hfft(x + 1j * x[::-1]), (TAPS,)),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    arrays = [array.astype(np.float32) for array in inputs]
    verification = hlo2onnx.translate(jax.jit(function).lower(*arrays)).verify(*arrays)
    assert verification.ok, f"{verification}"


@pytest.mark.costly
@pytest.mark.parametrize("name", ["fftconvolve full", "stft of another length", "istft", "welch"])
def test_f64(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    with jax.enable_x64(True):
        verification = hlo2onnx.translate(jax.jit(function).lower(*inputs)).verify(*inputs)
    assert verification.ok, f"{verification}"

"""Matrices for tests of linear algebra, and functions of JAX against XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from against_xla import Run, against_xla

REAL = ("float32", "float64")
FLOATS = (*REAL, "complex64", "complex128")
MLIR = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
"""MLIR's names of element types."""


def matrix(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Normal random elements."""
    rng = np.random.default_rng(seed)
    array = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        array = array + 1j * rng.normal(size=shape)
    return array.astype(dtype)


def dominant(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Well-conditioned square matrices: large on the diagonal."""
    array = matrix(shape, dtype, seed)
    array += (2 * shape[-1] * np.eye(shape[-1])).astype(dtype)
    return array


def definite(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Well-conditioned Hermitian positive definite matrices."""
    array = matrix(shape, dtype, seed)
    square: np.ndarray = array @ array.conj().swapaxes(-1, -2)
    square += (shape[-1] * np.eye(shape[-1])).astype(dtype)
    return square


def text_of(function: Callable[..., Any], *arguments: np.ndarray) -> str:
    """StableHLO of a function, with 64-bit types enabled."""
    with jax.enable_x64(True):
        text: str = jax.jit(function).lower(*arguments).as_text()
    return text


def like_jax(function: Callable[..., Any], *arguments: np.ndarray) -> Run:
    """A function translated and run, with XLA's results."""
    return against_xla(text_of(function, *arguments), *arguments)


def hermitian(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random Hermitian matrices."""
    a = matrix(shape, dtype)
    symmetric: np.ndarray = (a + a.conj().swapaxes(-1, -2)) / np.array(2, dtype)
    return symmetric

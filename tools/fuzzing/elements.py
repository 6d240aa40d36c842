"""Element types, and arrays of their interesting values."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np

NUMPY: dict[str, np.dtype] = {
    name: np.dtype(kind)
    for name, kind in {
        "i1": bool,
        "i4": ml_dtypes.int4,
        "i8": np.int8,
        "i16": np.int16,
        "i32": np.int32,
        "i64": np.int64,
        "ui4": ml_dtypes.uint4,
        "ui8": np.uint8,
        "ui16": np.uint16,
        "ui32": np.uint32,
        "ui64": np.uint64,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "f32": np.float32,
        "f64": np.float64,
        "complex<f32>": np.complex64,
        "complex<f64>": np.complex128,
    }.items()
}
BOOL = ("i1",)
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
INTEGERS = SIGNED + UNSIGNED
SMALL_INTEGERS = ("i4", "ui4")
SMALL_FLOATS = ("f8E4M3FN", "f8E5M2")
COMMON_FLOATS = ("f32", "f64", "f16", "bf16")
FLOATS = COMMON_FLOATS + SMALL_FLOATS
COMPLEX = ("complex<f32>", "complex<f64>")
REAL = INTEGERS + COMMON_FLOATS
ALL = BOOL + INTEGERS + COMMON_FLOATS + COMPLEX
NOT_AT_BOUNDARY = SMALL_INTEGERS
"""ONNX Runtime's Python API takes and gives no arrays of these."""

MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8E4M3FN": 4, "f8E5M2": 3}
WIDTH = {name: 8 * dtype.itemsize for name, dtype in NUMPY.items()} | {"i1": 1, "i4": 4, "ui4": 4}
PART = {"complex<f32>": "f32", "complex<f64>": "f64"}

GRID_BOUND, GRID_BITS = 3.5, 1
"""Leaves on a grid are halves of magnitude 3.5 at most, which every float type holds."""
MODERATE = 8.0


def integer_range(element: str) -> tuple[int, int]:
    """Smallest and largest."""
    info = ml_dtypes.iinfo(NUMPY[element])
    return int(info.min), int(info.max)


def random_array(rng: random.Random, element: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """An array.

    Args:
        kind: "grid" (halves), "moderate" (of magnitude 8 at most; also infinities and NaN now and
            then), "finite" (the same without those) or "special" (also extremes). Integers know
            "small", "exponent" (small and not -1) and everything else.
    """
    size = int(np.prod(shape, dtype=np.int64))
    if element in COMPLEX:
        parts = [random_array(rng, PART[element], shape, kind) for _ in range(2)]
        pairs = np.ascontiguousarray(np.stack(parts, -1))
        return pairs.view(NUMPY[element]).reshape(shape)
    if element == "i1":
        items: list[float] = [rng.random() < 0.5 for _ in range(size)]
    elif element in FLOATS:
        wild = kind in ("moderate", "special") and rng.random() < 0.5
        items = [_float_item(rng, element, kind, wild) for _ in range(size)]
    else:
        items = [_integer_item(rng, element, kind) for _ in range(size)]
    return np.array(items, NUMPY[element]).reshape(shape)


def _integer_item(rng: random.Random, element: str, kind: str) -> int:
    low, high = integer_range(element)
    if kind == "exponent":
        return rng.choice([k for k in range(max(low, -5), min(high, 9) + 1) if k != -1])
    if kind == "small" or rng.random() < 0.5:
        return rng.randint(max(low, -5), min(high, 9))
    if rng.random() < 0.5:
        return rng.choice([low, low + 1, high, high - 1, high // 2, high // 2 + 1])
    return rng.randint(low, high)


def _float_item(rng: random.Random, element: str, kind: str, wild: bool) -> float:
    if kind == "grid":
        return rng.randint(-7, 7) / 2
    choice = rng.random()
    if wild and choice < 0.2:
        return rng.choice([np.inf, -np.inf, np.nan])
    if kind == "special" and choice < 0.4:
        info = ml_dtypes.finfo(NUMPY[element])
        extremes = [info.max, info.min, info.smallest_normal, -info.smallest_normal]
        powers = [2.0**e for e in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
        numbers = [*map(float, extremes), *(p for p in powers if p < float(info.max))]
        return rng.choice([1, -1]) * rng.choice(numbers)
    if choice < 0.6:
        return rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.75])
    number = max(-MODERATE, min(MODERATE, rng.gauss(0, 2)))
    # No denormals, which XLA flushes.
    return number if element in ("f32", "f64", "bf16") else round(number * 64) / 64

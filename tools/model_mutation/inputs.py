"""Inputs of an adversarial search: many scales, edges, thresholds, indices out of range, NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hlo2onnx.verify.element_kinds import is_float

Rng = np.random.Generator
Shape = tuple[int, ...]
Values = np.ndarray
"""Numbers that the model has as constants, in f64."""


@dataclass(frozen=True)
class Draw:
    """Arrays for all inputs, and how they were made.

    Attributes:
        arrays: One array for each input.
        kinds: The kind of numbers in each.
    """

    arrays: list[np.ndarray]
    kinds: tuple[str, ...]


def _scaled(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-4, 4))


def _extreme(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-40, 38, shape)


def _near(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    """Constants of the model, some a bit more or less."""
    steps = rng.choice([0, 0, 1e-6, -1e-6, 0.1, -0.1, 1, -1], shape)
    chosen = rng.choice(values, shape)
    return np.asarray(chosen + steps * np.maximum(1, np.abs(chosen)))


def _planted(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    """Normal numbers with a few special ones."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-42, 3e38, *values]
    some = rng.random(shape) < rng.choice([0.02, 0.2])
    return np.where(some, rng.choice(special, shape), rng.standard_normal(shape))


def _matrices(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    """Positive definite matrices, or numbers in [0, 1) where the shape is another."""
    if len(shape) >= 2 and shape[-1] == shape[-2]:
        made = rng.standard_normal(shape)
        return made @ made.swapaxes(-1, -2) + np.eye(shape[-1])
    return rng.random(shape)


def _sparse(rng: Rng, shape: Shape, values: Values) -> np.ndarray:
    return rng.standard_normal(shape) * (rng.random(shape) < 0.2)


FLOATS: Mapping[str, Callable[[Rng, Shape, Values], np.ndarray]] = {
    "normal": lambda rng, shape, values: rng.standard_normal(shape),
    "positive": lambda rng, shape, values: np.abs(rng.standard_normal(shape)) + 0.01,
    "negative": lambda rng, shape, values: -np.abs(rng.standard_normal(shape)),
    "uniform in [-12, 12]": lambda rng, shape, values: rng.uniform(-12, 12, shape),
    "normal x 1e-4 .. 1e4": _scaled,
    "shifted": lambda rng, shape, values: rng.standard_normal(shape) + rng.uniform(-30, 30),
    "whole numbers with ties": lambda rng, shape, values: rng.integers(-3, 4, shape) * 1.0,
    "halves": lambda rng, shape, values: rng.integers(-9, 10, shape) / 2.0,
    "equal": lambda rng, shape, values: np.full(shape, rng.standard_normal()),
    "constants of the model": _near,
    "mostly zeros": _sparse,
    "positive definite or in [0, 1)": _matrices,
    "sorted": lambda rng, shape, values: np.sort(rng.standard_normal(shape), axis=None).reshape(
        shape
    ),
    "with NaN, inf, zeros": _planted,
    "all magnitudes": _extreme,
}
"""Kinds of floats. The first ones are those on which rounding tells least."""


def _edges(rng: Rng, shape: Shape, dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    edges = [low, low + 1, -1, 0, 1, 31, 32, 63, 64, high - 1, high]
    fit = np.array([edge for edge in edges if low <= edge <= high], object)
    return fit[rng.integers(0, len(fit), shape)]


def _all_bits(rng: Rng, shape: Shape, dtype: np.dtype) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    wide = np.int64 if info.min else np.uint64
    return rng.integers(int(info.min), int(info.max), shape, dtype=wide, endpoint=True)


INTEGERS: Mapping[str, Callable[[Rng, Shape, Values], np.ndarray]] = {
    "small": lambda rng, shape, values: rng.integers(0, 8, shape),
    "around zero": lambda rng, shape, values: rng.integers(-10, 11, shape),
    "to 200": lambda rng, shape, values: rng.integers(-20, 200, shape),
    "constants of the model": lambda rng, shape, values: np.nan_to_num(
        rng.choice(values[np.abs(values) < 2.0**31], shape) + rng.integers(-1, 2, shape)
    ),
    "equal": lambda rng, shape, values: np.full(shape, rng.integers(-3, 30)),
}
"""Kinds of integers that may be cut off at the ends of their type."""
WHOLE_RANGE = {"edges": _edges, "all bits": _all_bits}
"""Kinds of integers that depend on the type."""


def _integers(rng: Rng, shape: Shape, dtype: np.dtype, values: Values, kind: str) -> np.ndarray:
    if kind in WHOLE_RANGE:
        return WHOLE_RANGE[kind](rng, shape, dtype)
    info = ml_dtypes.iinfo(dtype)
    return np.clip(INTEGERS[kind](rng, shape, values), int(info.min), min(int(info.max), 2**62))


def array_of(kind: str, shape: Shape, dtype: np.dtype, values: Values, rng: Rng) -> np.ndarray:
    """An array of a kind of numbers."""
    if dtype.kind == "b":
        return rng.random(shape) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    if dtype.kind in "iu" or "int" in dtype.name:
        return np.asarray(_integers(rng, shape, dtype, values, kind)).astype(dtype)
    with np.errstate(all="ignore"):
        made = np.asarray(FLOATS[kind](rng, shape, values))
        if dtype.kind == "c":
            made = made + 1j * np.asarray(FLOATS[kind](rng, shape, values))
        return made.astype(dtype)


def kinds_of(dtype: np.dtype) -> Sequence[str]:
    """The kinds of numbers of an element type."""
    if dtype.kind == "b":
        return ("mixed",)
    is_integer = not is_float(np.empty(0, dtype)) and dtype.kind != "c"
    return (*INTEGERS, *WHOLE_RANGE) if is_integer else tuple(FLOATS)


def draws_of(
    ports: Sequence[tuple[Shape, np.dtype]], values: Values, count: int, seed: int
) -> list[Draw]:
    """Draws of all inputs.

    First every kind for all inputs at once, then each input of a kind of its own.

    Args:
        ports: Shape and type of each input.
        values: The numbers in the program.
    """
    rng = np.random.default_rng([seed, 0x6D75])
    longest = max((len(kinds_of(dtype)) for _, dtype in ports), default=0)
    found = []
    for index in range(count):
        kinds = []
        for _, dtype in ports:
            choices = kinds_of(dtype)
            same = index < 2 * longest
            place = index % len(choices) if same else int(rng.integers(len(choices)))
            # One unusual input among normal ones reaches more than unusual ones only.
            kinds.append(choices[0] if not same and rng.random() < 0.4 else choices[place])
        arrays = [
            array_of(kind, shape, dtype, values, rng)
            for kind, (shape, dtype) in zip(kinds, ports, strict=True)
        ]
        found.append(Draw(arrays, tuple(kinds)))
    return found

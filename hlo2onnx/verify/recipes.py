"""Changes ordinary inputs to reach special cases of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hlo2onnx.verify.element_kinds import is_float
from hlo2onnx.verify.roles import Role

Change = Callable[[np.ndarray, Role, np.random.Generator, int], np.ndarray]
"""Takes an ordinary array, the role of the input, a generator and the number of the draw."""


@dataclass(frozen=True)
class Recipe:
    """A way to change inputs.

    Attributes:
        what: Its description for the user.
        change: Changes one array.
        is_tame: Whether the inputs stay in the range of ordinary numbers. Others are used only if
            they reach a new side of a guard.
        column: The column of the table of samples that counts them.
    """

    what: str
    change: Change
    is_tame: bool
    column: str = "other ranges"


_IN_TURN = 0.7


def _special(
    array: np.ndarray, role: Role, rng: np.random.Generator, number: int, share: float = 0.5
) -> np.ndarray:
    """Some or all elements become values that matter. A single element takes them in turn."""
    if not role.values:
        return array
    pool = _cast(role.values, array.dtype)
    if array.size <= 1:  # some by chance, so that several scalars do not go in step
        place = number if rng.random() < _IN_TURN else int(rng.integers(0, len(pool)))
        return np.full(array.shape, pool[place % len(pool)])
    # Each value comes once before one comes again.
    order = rng.permutation(array.size).reshape(array.shape)
    chosen = pool[(order + number * (array.size // 2)) % len(pool)]
    # All of them in turns, so that values of several inputs meet.
    return np.where(rng.random(array.shape) < (1 if number % 2 else share), chosen, array)


def _few_special(
    array: np.ndarray, role: Role, rng: np.random.Generator, number: int
) -> np.ndarray:
    return _special(array, role, rng, number, 0.1)


def _same(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """All elements become one value that matters."""
    if not role.values:
        return array
    pool = _cast(role.values, array.dtype)
    return np.full(array.shape, pool[number % len(pool)])


def _edges(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """One element becomes NaN or infinite."""
    if not role.takes_nonfinite or role.is_limited or not is_float(array) or not array.size:
        return array
    found = array.copy()
    place = int(rng.integers(0, array.size))
    found.reshape(-1)[place] = (np.nan, np.inf, -np.inf)[number % 3]
    return found


def _scaled(factor: float) -> Change:
    def change(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
        if array.dtype.kind == "c" or (is_float(array) and not role.is_limited):
            with np.errstate(all="ignore"):
                return np.asarray(array * np.array(factor, array.dtype), array.dtype)
        return array

    return change


def _ties(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """Few distinct numbers, so that some are equal; also -0."""
    if not is_float(array):
        return array
    return (np.rint(array.astype(np.float64) * 2) / 2).astype(array.dtype)


def _negative(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    return -np.abs(array) if is_float(array) else array


def _zeros(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    return np.zeros_like(array)


def _ordinary(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    return array


def _positive(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """Variances must not be negative, for example."""
    return np.abs(array) if is_float(array) else array


def in_domain(array: np.ndarray, role: Role) -> np.ndarray:
    """The array with positive numbers if the program takes their roots, and with positive definite
    matrices if it takes their Cholesky factors."""
    if role.is_definite and (is_float(array) or array.dtype.kind == "c"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        size = array.shape[-1]
        product = wide @ wide.swapaxes(-1, -2).conj() / size + np.eye(size)
        return np.asarray(product, array.dtype)
    if role.least is not None and is_float(array):
        return np.asarray(np.abs(array.astype(np.float64)) + role.least, array.dtype)
    return array


COLUMNS = ("ordinary", "at limits", "NaN or inf", "other ranges")
"""The columns of the table of samples."""
ORDINARY = Recipe("", _ordinary, True, "ordinary")
POSITIVE = Recipe("floats made positive", _positive, True, "ordinary")

LIMITS = Recipe("values at the limits of the program", _special, True, "at limits")
_FEW = Recipe("few values at the limits of the program", _few_special, True, "at limits")
_EQUAL = Recipe("equal values at a limit of the program", _same, False, "at limits")
_NOT_FINITE = Recipe("NaN or infinity", _edges, True, "NaN or inf")

RECIPES: Sequence[Recipe] = (
    LIMITS,
    _NOT_FINITE,
    _EQUAL,
    _FEW,
    Recipe("floats times 30", _scaled(30), False),
    LIMITS,
    _NOT_FINITE,
    Recipe("rounded floats", _ties, True),
    LIMITS,
    _NOT_FINITE,
    Recipe("floats times 0.01", _scaled(0.01), True),
    _EQUAL,
    Recipe("floats made negative", _negative, False),
    _FEW,
    Recipe("floats times 1e4", _scaled(1e4), False),
    _EQUAL,
    Recipe("zeros", _zeros, False),
    ORDINARY,
)
"""The recipes after the first two draws. They repeat."""


def _cast(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    # Integers of 64 bits do not pass through f64.
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            return np.array([dtype.type(int(value)) for value in values], dtype)
        return np.array(values, np.float64).astype(dtype)

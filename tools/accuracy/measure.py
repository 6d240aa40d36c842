"""Errors in units in the last place, of a translated function and of XLA's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
from mpmath import mp, mpf

import hlo2onnx
from tools.accuracy.exact import DIGITS
from tools.accuracy.functions import Function
from tools.accuracy.grid import Array, product


@dataclass(frozen=True)
class Error:
    """The largest error.

    Attributes:
        ulps: In units in the last place of the truth.
        where: The arguments.
    """

    ulps: float
    where: tuple[float, ...]


@dataclass(frozen=True)
class Measurement:
    """A function in one element type."""

    function: str
    dtype: str
    points: int
    ours: Error
    xla: Error

    @property
    def is_close(self) -> bool:
        """Whether ours is at most twice XLA's, or 5 units."""
        return self.ours.ulps <= max(2 * self.xla.ulps, 5)


def arguments_of(function: Function, dtype: np.dtype[Any], density: float) -> tuple[Array, ...]:
    """Where a function is measured; more or fewer points by a factor."""
    return product(function.domain, dtype, round(function.points * density))


def truth(function: Function, arguments: Sequence[Array]) -> Array:
    """The exact values, to long double's precision."""
    values = []
    with mp.workdps(DIGITS):
        for point in zip(*(x.astype(np.float64) for x in arguments), strict=True):
            values.append(_long(_evaluated(function, point)))
    return np.array(values, np.longdouble)


def _evaluated(function: Function, point: Sequence[float]) -> mpf:
    try:
        value = function.exact(*map(mpf, point))
    except (ZeroDivisionError, ValueError):  # a pole, or no convergence
        return mp.nan
    return mp.nan if not isinstance(value, mpf) and value.imag else mp.re(value)


def _long(value: mpf) -> np.longdouble:
    """A number of mpmath as the nearest long double."""
    if not mp.isfinite(value):
        return np.longdouble(float(value))
    mantissa, exponent = mp.frexp(value)
    high = float(mantissa)
    low = float(mantissa - high)
    return np.ldexp(np.longdouble(high) + np.longdouble(low), int(exponent))


def errors(got: Array, exact: Array, floor: float = 0.0) -> Array:
    """The error of each element in units in the last place of the truth.

    Not counted (0) where the truth is no normal number of the type, or not known. Infinite where
    the result is not finite although the truth is. Numbers below the floor have its units.
    """
    info = ml_dtypes.finfo(got.dtype)
    size = np.abs(exact)
    counted = (size >= float(info.smallest_normal)) & (size <= float(info.max))
    exponent = np.frexp(np.maximum(np.where(counted, size, 1), floor))[1] - 1
    unit = np.ldexp(np.longdouble(1), exponent - info.nmant)
    with np.errstate(invalid="ignore"):
        error = np.abs(got.astype(np.longdouble) - exact) / unit
    error = np.where(np.isfinite(got.astype(np.float64)), error, np.inf)
    return np.where(counted, error, 0)


def largest(got: Array, exact: Array, arguments: Sequence[Array], floor: float) -> Error:
    """The largest error and where it is."""
    found = errors(got, exact, floor)
    index = int(np.argmax(found))
    return Error(float(found[index]), tuple(float(x[index]) for x in arguments))


def results(function: Function, arguments: Sequence[Array]) -> tuple[Array, Array]:
    """The results of the function in ONNX Runtime and in XLA."""
    with jax.enable_x64(True):
        compiled = jax.jit(function.in_jax)
        program = hlo2onnx.translate(compiled.lower(*arguments))
        return np.asarray(program(*arguments)), np.asarray(compiled(*arguments))


def measure(function: Function, dtype: np.dtype[Any], density: float = 1.0) -> Measurement:
    """Measures a function in an element type."""
    arguments = arguments_of(function, dtype, density)
    exact = truth(function, arguments)
    ours, xla = results(function, arguments)
    return Measurement(
        function.name,
        dtype.name,
        len(exact),
        largest(ours, exact, arguments, function.floor),
        largest(xla, exact, arguments, function.floor),
    )

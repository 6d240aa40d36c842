"""Numbers of discrete Fourier transforms: the factors of a length, and the roots of unity by which
stages multiply."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from hlo2onnx.targets.costs import Costs

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST_MATRIX = 256
"""A factor of a length up to this is one matrix: a limit on the size of the model, not a cost."""


def radices(length: int, costs: Costs) -> tuple[int, ...]:
    """Returns the factors of a length whose stages take least time, in descending order.

    Prime factors above `LARGEST_MATRIX` are factors of their own. The length 1 is one factor.

    Args:
        length: How many points are transformed.
        costs: What a stage costs.
    """
    primes = list(_primes(length))
    large = [prime for prime in primes if prime > LARGEST_MATRIX]
    rest = int(np.prod([prime for prime in primes if prime <= LARGEST_MATRIX], dtype=np.int64))
    small = _cheapest(rest, costs.dft_stage)[1] if rest > 1 or not large else ()
    return tuple(sorted((*large, *small), reverse=True))


@functools.cache
def _cheapest(length: int, stage: float) -> tuple[float, tuple[int, ...]]:
    """Cost per element and factors, all of them up to `LARGEST_MATRIX`."""
    found: list[tuple[float, tuple[int, ...]]] = []
    if length <= LARGEST_MATRIX:
        found.append((length, (length,)))
    for radix in range(2, min(LARGEST_MATRIX, length // 2) + 1):
        if length % radix == 0:
            cost, others = _cheapest(length // radix, stage)
            found.append((radix + stage + cost, (radix, *others)))
    return min(found)


def _primes(number: int) -> Iterator[int]:
    """Its prime factors, ascending and as often as they divide it."""
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


@functools.cache
def convolution_length(least: int, costs: Costs) -> int:
    """Returns the product of small primes, at least `least`, that is transformed in least time."""
    lengths = [1]
    for base in (2, 3, 5):
        lengths = [
            length * base**power
            for length in lengths
            for power in range(least.bit_length() + 1)
            if length * base**power < 2 * least
        ]
    fitting = [length for length in lengths if length >= least]
    return min((length * _cheapest(length, costs.dft_stage)[0], length) for length in fitting)[1]


def roots(length: int, powers: Array) -> Array:
    """Returns exp(2 pi i powers / length), correctly rounded to f64; ±1 and ±i are exact."""
    powers = np.asarray(powers, np.int64) % length
    quarter = (4 * powers + length // 2) // length
    rest = (4 * powers - quarter * length).astype(np.longdouble)
    angle = rest * np.arctan(np.longdouble(1)) * 2 / length
    root = np.cos(angle) + 1j * np.sin(angle)
    result: Array = root * np.array([1, 1j, -1, -1j])[quarter % 4]
    return result


def dft_matrix(length: int, outputs: int, inputs: int, sign: int) -> Array:
    """Returns the first rows and columns of the matrix exp(sign 2 pi i row column / length)."""
    return roots(length, sign * np.arange(outputs)[:, None] * np.arange(inputs))


def as_real(matrix: Array, parts_out: int, parts_in: int) -> Array:
    """Returns a complex matrix as a real one. It multiplies columns of real parts above imaginary
    parts; with one part, columns have real parts only."""
    top = np.concatenate([matrix.real, -matrix.imag][:parts_in], axis=1)
    bottom = np.concatenate([matrix.imag, matrix.real][:parts_in], axis=1)
    return np.concatenate([top, bottom][:parts_out])


def chirp(length: int, count: int, sign: int) -> Array:
    """Returns exp(sign pi i j^2 / length) for the first j."""
    squares = [j * j % (2 * length) for j in range(count)]
    return roots(2 * length, sign * np.array(squares, np.int64))


def chirp_spectrum(length: int, inputs: int, outputs: int, sign: int, padded: int) -> Array:
    """Returns the transform, over the padded length, of the filter for a chirped signal.

    j k = (j^2 + k^2 - (k - j)^2) / 2, so a transform of any length is a convolution with the
    opposite chirp (Bluestein). Its elements from -(inputs - 1) to outputs - 1 are needed.
    """
    filter_ = np.zeros(padded, np.clongdouble)
    filter_[:outputs] = chirp(length, outputs, -sign)
    filter_[padded - inputs + 1 :] = chirp(length, inputs, -sign)[:0:-1]
    return np.asarray(np.fft.fft(filter_))

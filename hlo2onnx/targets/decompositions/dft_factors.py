"""The numbers behind discrete Fourier transforms: how a length splits into factors, and the roots
of unity their stages multiply by."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST_MATRIX = 256
"""A factor of a length up to this is one matrix."""

_STAGE = 110
"""What one more stage costs, in multiplications per element (measured in ONNX Runtime: 8 to 64
rows of 64 to 16,384 elements, f32 and f64)."""


_FEW = 8
"""So few transforms at once are a vector rather than a matrix, times a matrix, which takes as long
as loading the latter: twice the time per multiplication, where it is large."""

_SMALL_MATRIX = 64

MANY = _FEW
"""Stands for a number of transforms that is not known."""


def radices(length: int, count: int) -> tuple[int, ...]:
    """The factors of a length whose stages take least time, in descending order.

    Prime factors above `LARGEST_MATRIX` are factors of their own. The length 1 is one factor.

    Args:
        length: How many points are transformed.
        count: How many transforms there are at once.
    """
    primes = list(_primes(length))
    large = [prime for prime in primes if prime > LARGEST_MATRIX]
    rest = int(np.prod([prime for prime in primes if prime <= LARGEST_MATRIX], dtype=np.int64))
    small = _cheapest(rest)[1] if rest > 1 or not large else ()
    if count < _FEW and small == (length,) and length > _SMALL_MATRIX:
        small = min([(2 * length, small), *_splits(length)])[1]
    return tuple(sorted((*large, *small), reverse=True))


@functools.cache
def _cheapest(length: int) -> tuple[int, tuple[int, ...]]:
    """Cost per element and factors, all of them up to `LARGEST_MATRIX`."""
    found: list[tuple[int, tuple[int, ...]]] = []
    if length <= LARGEST_MATRIX:
        found.append((length, (length,)))
    return min([*found, *_splits(length)])


def _splits(length: int) -> list[tuple[int, tuple[int, ...]]]:
    """Cost and factors of two and more stages, by the first factor."""
    found = []
    for radix in range(2, min(LARGEST_MATRIX, length // 2) + 1):
        if length % radix == 0:
            cost, others = _cheapest(length // radix)
            found.append((radix + _STAGE + cost, (radix, *others)))
    return found


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
def convolution_length(least: int) -> int:
    """The length of at least that, a product of small primes, that is transformed in least time."""
    lengths = [1]
    for base in (2, 3, 5):
        lengths = [
            length * base**power
            for length in lengths
            for power in range(least.bit_length() + 1)
            if length * base**power < 2 * least
        ]
    return min((length * _cheapest(length)[0], length) for length in lengths if length >= least)[1]


def roots(length: int, powers: Array) -> Array:
    """exp(2 pi i powers / length), right to the last bit of f64; ±1 and ±i are exact."""
    powers = np.asarray(powers, np.int64) % length
    quarter = (4 * powers + length // 2) // length
    rest = (4 * powers - quarter * length).astype(np.longdouble)
    angle = rest * np.arctan(np.longdouble(1)) * 2 / length
    root = np.cos(angle) + 1j * np.sin(angle)
    result: Array = root * np.array([1, 1j, -1, -1j])[quarter % 4]
    return result


def dft_matrix(length: int, outputs: int, inputs: int, sign: int) -> Array:
    """The first rows and columns of the matrix of a transform: exp(sign 2 pi i row column / n)."""
    return roots(length, sign * np.arange(outputs)[:, None] * np.arange(inputs))


def as_real(matrix: Array, parts_out: int, parts_in: int) -> Array:
    """A complex matrix as one of real numbers that acts on a column of real parts above one of
    imaginary parts, which is absent where there is one part only."""
    top = np.concatenate([matrix.real, -matrix.imag][:parts_in], axis=1)
    bottom = np.concatenate([matrix.imag, matrix.real][:parts_in], axis=1)
    return np.concatenate([top, bottom][:parts_out])


def chirp(length: int, count: int, sign: int) -> Array:
    """exp(sign pi i j^2 / length) of the first j."""
    squares = [j * j % (2 * length) for j in range(count)]
    return roots(2 * length, sign * np.array(squares, np.int64))


def chirp_spectrum(length: int, inputs: int, outputs: int, sign: int, padded: int) -> Array:
    """The transform of what a chirped signal is convolved with, over the padded length.

    j k = (j^2 + k^2 - (k - j)^2) / 2, so that a transform of any length is a convolution with the
    opposite chirp (Bluestein), which is needed from -(inputs - 1) to outputs - 1.
    """
    filter_ = np.zeros(padded, np.clongdouble)
    filter_[:outputs] = chirp(length, outputs, -sign)
    filter_[padded - inputs + 1 :] = chirp(length, inputs, -sign)[:0:-1]
    return np.asarray(np.fft.fft(filter_))

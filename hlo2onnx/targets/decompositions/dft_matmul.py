"""Discrete Fourier transforms as products with matrices.

A transform of n = r s points is one of r points for each s-th element, a multiplication by roots
of unity and one of s points (Cooley and Tukey). The transforms of r points are one product with a
matrix. A prime r that is too large for that is a convolution, done by transforms of a power of two
(Bluestein).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.costs import Costs

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST_MATRIX = 256
"""A factor of a length up to this is one matrix: a limit on the size of the model, no cost."""


@dataclass(frozen=True)
class Transform:
    """y[k] = scale * sum over j of x[j] exp(sign 2 pi i j k / length).

    Tensors are (outer, parts, extent, inner), where parts is 2, real parts before imaginary ones,
    or 1 where the imaginary ones are zero or not asked for.

    Attributes:
        inputs: How many x there are; the rest, up to the length, are zeros.
        outputs: How many y are asked for, the first ones.
        parts_in, parts_out: 1 or 2.
    """

    length: int
    sign: int
    inputs: int
    outputs: int
    parts_in: int = 2
    parts_out: int = 2
    scale: float = 1.0


def transformed(b: TargetBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    """The transform of (outer, parts_in, inputs, inner): (outer, parts_out, outputs, inner)."""
    outer, _, _, inner = columns_of(x)
    factors = radices(transform.length, b.costs)
    rest, done = transform.length, 1
    for index, radix in enumerate(factors):
        rest, before = rest // radix, done
        done *= radix
        stage = Transform(radix, transform.sign, radix, radix)
        if index == 0:
            inputs = -(-transform.inputs // rest)
            x = _padded(b, x, inputs * rest)
            stage = replace(stage, inputs=inputs, parts_in=transform.parts_in)
        if rest == 1:
            outputs = -(-transform.outputs // before)
            parts = transform.parts_out
            stage = replace(stage, outputs=outputs, parts_out=parts, scale=transform.scale)
        x = shaped(b, x, [outer, stage.parts_in, stage.inputs, rest * before * inner])
        x = _prime(b, x, stage) if radix > LARGEST_MATRIX else _product(b, x, stage)
        if rest > 1:
            x = _twiddled(b, x, radix, rest, transform.sign)
    x = shaped(b, x, [outer, transform.parts_out, stage.outputs * before, inner])
    return b.slice(x, [0], [transform.outputs], axes=[2])


def _product(b: TargetBuilder, x: oir.Value, stage: Transform) -> oir.Value:
    """The transform as one product with a matrix."""
    outer, _, _, inner = columns_of(x)
    matrix = dft_matrix(stage.length, stage.outputs, stage.inputs, stage.sign) * stage.scale
    weights = as_real(matrix, stage.parts_out, stage.parts_in)
    if inner == 1:
        x = shaped(b, x, [outer, weights.shape[1]])
        x = b.MatMul(x, const_like(b, weights.T, x))
    else:
        x = shaped(b, x, [outer, weights.shape[1], inner])
        x = b.MatMul(const_like(b, weights, x), x)
    return shaped(b, x, [outer, stage.parts_out, stage.outputs, inner])


def _twiddled(b: TargetBuilder, x: oir.Value, radix: int, rest: int, sign: int) -> oir.Value:
    """What comes between two stages: (outer, 2, radix, rest * columns) times the roots of unity
    that belong to its radix and rest, as (outer, 2, rest, radix * columns)."""
    outer, _, _, inner = columns_of(x)
    columns = inner // rest
    x = shaped(b, x, [outer, 2, radix, rest, columns])
    x = _times(b, x, dft_matrix(radix * rest, radix, rest, sign)[..., None])
    x = b.transpose(x, (0, 1, 3, 2, 4))
    return shaped(b, x, [outer, 2, rest, radix * columns])


def _prime(b: TargetBuilder, x: oir.Value, stage: Transform) -> oir.Value:
    """The transform as a convolution with a chirp."""
    length, sign = stage.length, stage.sign
    padded = 1 << (stage.inputs + stage.outputs - 2).bit_length()
    spectrum = chirp_spectrum(length, stage.inputs, stage.outputs, sign, padded)
    x = _times(b, x, chirp(length, stage.inputs, sign)[:, None])
    x = transformed(b, x, Transform(padded, -1, stage.inputs, padded))
    x = _times(b, x, spectrum[:, None] * (stage.scale / padded))
    x = transformed(b, x, Transform(padded, 1, padded, stage.outputs))
    x = _times(b, x, chirp(length, stage.outputs, sign)[:, None])
    return b.slice(x, [0], [stage.parts_out], axes=[1])


def _times(b: TargetBuilder, x: oir.Value, factors: Array) -> oir.Value:
    """x, with its parts along axis 1, times complex numbers of the shape of a part, without leading
    axes; complex, whatever x was."""
    place = 1 - rank_of(x)
    real, imaginary = (np.expand_dims(part, place) for part in (factors.real, factors.imag))
    if shape_of(x)[1] == 1:
        return b.Mul(x, const_like(b, np.concatenate([real, imaginary], place), x))
    swapped = b.Gather(x, b.i64([1, 0]), axis=1)
    straight = b.Mul(x, const_like(b, real, x))
    crossed = b.Mul(swapped, const_like(b, np.concatenate([-imaginary, imaginary], place), x))
    return b.Add(straight, crossed)


def _padded(b: TargetBuilder, x: oir.Value, extent: int) -> oir.Value:
    """x with zeros up to that extent of axis 2."""
    missing = extent - columns_of(x)[2]
    if not missing:
        return x
    return b.Pad(x, b.i64([0, 0, 0, 0, 0, 0, missing, 0]))


def shaped(b: TargetBuilder, x: oir.Value, dims: Sequence[Dim]) -> oir.Value:
    """Reshape, also of what x itself is a Reshape of."""
    node = x.producer()
    if node is not None and node.op_type in RESHAPES:
        x = node.inputs[0] or x
    return b.reshape(x, dims)


def const_like(b: TargetBuilder, array: Array, like: oir.Value) -> oir.Value:
    """A constant of the element type of `like`."""
    return b.const(np.ascontiguousarray(array), dtype_of(like))


def columns_of(x: oir.Value) -> tuple[Dim, int, int, int]:
    """The extents of a value (outer, parts, extent, inner), of which the first may be symbolic."""
    outer, *rest = shape_of(x)
    parts, extent, inner = fixed(rest)
    return outer, parts, extent, inner


# -- factors and roots of unity --------------------------------------------------------------------


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

"""Discrete Fourier transforms as products with matrices.

A transform of n = r s points is one of r points for each s-th element, a multiplication by roots
of unity and one of s points (Cooley and Tukey). The transforms of r points are one product with a
matrix. A prime r that is too large for that is a convolution, done by transforms of a length that
is a product of small primes (Bluestein).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.dft_factors import (
    LARGEST_MATRIX,
    Array,
    as_real,
    chirp,
    chirp_spectrum,
    convolution_length,
    dft_matrix,
    radices,
)

MERGED_COLUMNS = 64
"""Fewest columns that are multiplied by a matrix for each row of the first stage."""

MERGED_ELEMENTS = 1 << 18
"""Elements of all these matrices: a limit on the size of the model."""


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
    if inner == 1 and len(factors) == 2 and factors[0] <= LARGEST_MATRIX:
        return b.slice(_rows(b, x, transform, factors), [0], [transform.outputs], axes=[2])
    if len(factors) == 2 and inner >= MERGED_COLUMNS and _is_merged(factors):
        return b.slice(_merged(b, x, transform, factors), [0], [transform.outputs], axes=[2])
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


def _rows(
    b: TargetBuilder, x: oir.Value, transform: Transform, factors: tuple[int, ...]
) -> oir.Value:
    """The transform of rows, (outer, parts_in, inputs, 1), in two stages; it may give more outputs
    than asked for.

    In the first product the parts follow their element, so that the second one takes all of them as
    its rows, transposed: a runtime may do so without moving them.
    """
    radix, rest = factors
    outer, parts, extent, _ = columns_of(x)
    inputs, outputs = -(-extent // rest), -(-transform.outputs // radix)
    first = as_real(dft_matrix(radix, radix, inputs, transform.sign), 2, parts)
    first = first.reshape(2, radix, -1).swapaxes(0, 1).reshape(2 * radix, -1)
    x = shaped(b, _padded(b, x, inputs * rest), [outer, parts * inputs, rest])
    x = shaped(b, b.MatMul(const_like(b, first, x), x), [outer, radix, 2, rest])
    x = _times(b, x, dft_matrix(radix * rest, radix, rest, transform.sign), axis=2)
    x = b.transpose(shaped(b, x, [outer, radix, 2 * rest]), (0, 2, 1))
    matrix = dft_matrix(rest, outputs, rest, transform.sign) * transform.scale
    second = as_real(matrix, transform.parts_out, 2)
    x = b.MatMul(const_like(b, second, x), x)
    return shaped(b, x, [outer, transform.parts_out, outputs * radix, 1])


def _is_merged(factors: tuple[int, ...]) -> bool:
    """Whether the second stage has a matrix for each row of the first one."""
    radix, rest = factors
    return radix <= LARGEST_MATRIX and 4 * radix * rest * rest <= MERGED_ELEMENTS


def _merged(
    b: TargetBuilder, x: oir.Value, transform: Transform, factors: tuple[int, ...]
) -> oir.Value:
    """The transform of columns, (outer, parts_in, inputs, inner), in two stages; it may give
    more outputs than asked for.

    The rows of the first product have the parts of an element next to each other. So those of one
    row of the radix are the columns of a matrix that also multiplies by its roots of unity.
    """
    radix, rest = factors
    outer, parts, extent, inner = columns_of(x)
    inputs, outputs = -(-extent // rest), -(-transform.outputs // radix)
    first = as_real(dft_matrix(radix, radix, inputs, transform.sign), 2, parts)
    first = first.reshape(2, radix, -1).swapaxes(0, 1).reshape(2 * radix, -1)
    x = shaped(b, _padded(b, x, inputs * rest), [outer, parts * inputs, rest * inner])
    x = shaped(b, b.MatMul(const_like(b, first, x), x), [outer, radix, 2 * rest, inner])
    matrix = dft_matrix(rest, outputs, rest, transform.sign) * transform.scale
    twiddles = dft_matrix(radix * rest, radix, rest, transform.sign)
    second = [as_real(matrix * row, transform.parts_out, 2) for row in twiddles]
    x = b.MatMul(const_like(b, np.stack(second), x), x)
    x = shaped(b, x, [outer, radix, transform.parts_out, outputs, inner])
    x = b.transpose(x, (0, 2, 3, 1, 4))
    return shaped(b, x, [outer, transform.parts_out, outputs * radix, inner])


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
    padded = convolution_length(stage.inputs + stage.outputs - 1, b.costs)
    spectrum = chirp_spectrum(length, stage.inputs, stage.outputs, sign, padded)
    x = _times(b, x, chirp(length, stage.inputs, sign)[:, None])
    x = transformed(b, x, Transform(padded, -1, stage.inputs, padded))
    x = _times(b, x, spectrum[:, None] * (stage.scale / padded))
    x = transformed(b, x, Transform(padded, 1, padded, stage.outputs))
    x = _times(b, x, chirp(length, stage.outputs, sign)[:, None])
    return b.slice(x, [0], [stage.parts_out], axes=[1])


def _times(b: TargetBuilder, x: oir.Value, factors: Array, axis: int = 1) -> oir.Value:
    """x, with its parts along an axis, times complex numbers of the shape of a part, without
    leading axes; complex, whatever x was."""
    place = axis - rank_of(x)
    real, imaginary = (np.expand_dims(part, place) for part in (factors.real, factors.imag))
    if shape_of(x)[axis] == 1:
        return b.Mul(x, const_like(b, np.concatenate([real, imaginary], place), x))
    swapped = b.Gather(x, b.i64([1, 0]), axis=axis)
    if axis > 1:
        # One number for both parts would be repeated for each part, which takes time.
        real = np.concatenate([real, real], place)
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
    if not all(isinstance(dim, int) for dim in rest):
        raise InternalError(f"{x.name} has a dynamic shape")
    parts, extent, inner = fixed(rest)
    return outer, parts, extent, inner

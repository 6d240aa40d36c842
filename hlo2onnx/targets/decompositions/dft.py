"""DFT as MatMul: for runtimes whose kernel is inexact or slow.

A transform of n = r s points is one of r points for each s-th element, a multiplication by roots
of unity and one of s points (Cooley and Tukey). The transforms of r points are one product with a
matrix. A prime r that is too large for that is a convolution, done by transforms of a length that
is a product of small primes (Bluestein).

ONNX Runtime's kernel is accurate for powers of two only (at n = 4,097 the error is 8e-4 of the
norm in f32, 1e-12 in f64; here 3e-7 and 7e-16), and there 4 to 8 times slower than this, from
n = 64 on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.graph import edit
from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.values import const_ints, const_of, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.targets.decompositions.fourier import (
    LARGEST_MATRIX,
    Array,
    as_real,
    chirp,
    chirp_spectrum,
    convolution_length,
    dft_matrix,
    radices,
)


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


def transformed(b: GraphBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    """The transform of (outer, parts_in, inputs, inner): (outer, parts_out, outputs, inner)."""
    outer, _, _, inner = _dims(x)
    factors = radices(transform.length)
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
        x = b.reshape(x, [outer, stage.parts_in, stage.inputs, rest * before * inner])
        x = _prime(b, x, stage) if radix > LARGEST_MATRIX else _product(b, x, stage)
        if rest > 1:
            x = _twiddled(b, x, radix, rest, transform.sign)
    x = b.reshape(x, [outer, transform.parts_out, stage.outputs * before, inner])
    return b.slice(x, [0], [transform.outputs], axes=[2])


def _product(b: GraphBuilder, x: oir.Value, stage: Transform) -> oir.Value:
    """The transform as one product with a matrix."""
    outer, _, _, inner = _dims(x)
    matrix = dft_matrix(stage.length, stage.outputs, stage.inputs, stage.sign) * stage.scale
    weights = as_real(matrix, stage.parts_out, stage.parts_in)
    if inner == 1:
        x = b.reshape(x, [outer, weights.shape[1]])
        x = b.MatMul(x, _const(b, weights.T, x))
    else:
        x = b.reshape(x, [outer, weights.shape[1], inner])
        x = b.MatMul(_const(b, weights, x), x)
    return b.reshape(x, [outer, stage.parts_out, stage.outputs, inner])


def _twiddled(b: GraphBuilder, x: oir.Value, radix: int, rest: int, sign: int) -> oir.Value:
    """What comes between two stages: (outer, 2, radix, rest * columns) times the roots of unity
    that belong to its radix and rest, as (outer, 2, rest, radix * columns)."""
    outer, _, _, inner = _dims(x)
    columns = inner // rest
    x = b.reshape(x, [outer, 2, radix * rest, columns])
    x = _times(b, x, dft_matrix(radix * rest, radix, rest, sign).reshape(-1))
    x = b.transpose(b.reshape(x, [outer, 2, radix, rest, columns]), (0, 1, 3, 2, 4))
    return b.reshape(x, [outer, 2, rest, radix * columns])


def _prime(b: GraphBuilder, x: oir.Value, stage: Transform) -> oir.Value:
    """The transform as a convolution with a chirp."""
    length, sign = stage.length, stage.sign
    padded = convolution_length(stage.inputs + stage.outputs - 1)
    spectrum = chirp_spectrum(length, stage.inputs, stage.outputs, sign, padded)
    x = _times(b, x, chirp(length, stage.inputs, sign))
    x = transformed(b, x, Transform(padded, -1, stage.inputs, padded))
    x = _times(b, x, spectrum * (stage.scale / padded))
    x = transformed(b, x, Transform(padded, 1, padded, stage.outputs))
    x = _times(b, x, chirp(length, stage.outputs, sign))
    return b.slice(x, [0], [stage.parts_out], axes=[1])


def _times(b: GraphBuilder, x: oir.Value, factors: Array) -> oir.Value:
    """(outer, parts, extent, inner) times (extent) complex numbers; complex, whatever x was."""
    factors = factors[:, None]
    if _dims(x)[1] == 1:
        product: oir.Value = b.Mul(x, _const(b, np.stack([factors.real, factors.imag]), x))
        return product
    swapped = b.Gather(x, b.i64([1, 0]), axis=1)
    straight = b.Mul(x, _const(b, factors.real, x))
    crossed = b.Mul(swapped, _const(b, np.stack([-factors.imag, factors.imag]), x))
    result: oir.Value = b.Add(straight, crossed)
    return result


def _padded(b: GraphBuilder, x: oir.Value, extent: int) -> oir.Value:
    """x with zeros up to that extent of axis 2."""
    missing = extent - _dims(x)[2]
    if not missing:
        return x
    padded: oir.Value = b.Pad(x, b.i64([0, 0, 0, 0, 0, 0, missing, 0]))
    return padded


def _const(b: GraphBuilder, array: Array, like: oir.Value) -> oir.Value:
    return b.const(np.ascontiguousarray(array), dtype_of(like))


def _dims(x: oir.Value) -> tuple[int, ...]:
    dims = static_shape(x)
    if dims is None:
        raise InternalError(f"{x.name} has a dynamic shape")
    return tuple(map(int, dims))


# -- nodes ---------------------------------------------------------------------------------------


def decompose_dft(b: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DFT node's output from other operators; None where its extents are not known."""
    x = node.inputs[0]
    assert x is not None
    dims, axis = static_shape(x), _axis(node)
    length = None if dims is None or axis is None else _length(node, dims[axis])
    if dims is None or axis is None or not length or 0 in dims:
        return None
    transform = _transform(node, length, dims[axis])
    columns = (math.prod(dims[:axis]), 1, dims[axis], math.prod(dims[axis + 1 : -1]))
    parts = [b.reshape(part, columns) for part in _parts(b, x)]
    parts = [b.slice(part, [0], [transform.inputs], axes=[2]) for part in parts]
    made = _one_point(b, parts, transform) if length == 1 else _points(b, parts, transform)
    shape = (*dims[:axis], transform.outputs, *dims[axis + 1 : -1])
    results = [b.reshape(part, shape) for part in made]
    _hand_out(node.outputs[0], results)
    return b.concat([b.unsqueeze(part, [len(shape)]) for part in results], len(shape))


def _one_point(
    b: GraphBuilder, parts: Sequence[oir.Value], transform: Transform
) -> Sequence[oir.Value]:
    """One point is its own transform."""
    if len(parts) < transform.parts_out:
        return [*parts, b.expand(b.scalar_like(0, parts[0]), _dims(parts[0]))]
    return parts[: transform.parts_out]


def _points(
    b: GraphBuilder, parts: Sequence[oir.Value], transform: Transform
) -> Sequence[oir.Value]:
    if transform.parts_out == 1:
        x = _half_spectrum(b, parts, transform.length)
    else:
        x = b.concat(parts, axis=1)
    y = transformed(b, x, replace(transform, parts_in=_dims(x)[1]))
    return [b.slice(y, [index], [index + 1], axes=[1]) for index in range(transform.parts_out)]


def _axis(node: oir.Node) -> int | None:
    """An attribute until opset 19, then an input; None if it is no constant."""
    x, _, given = (*node.inputs, None, None)[:3]
    assert x is not None
    if given is None:
        return node.attributes.get_int("axis", 1) % rank_of(x)
    numbers = const_ints(given)
    return None if numbers is None else numbers[0] % rank_of(x)


def _length(node: oir.Node, extent: int) -> int | None:
    """How many points are transformed; None if it is no constant."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        numbers = const_ints(node.inputs[1])
        return None if numbers is None else numbers[0]
    return 2 * (extent - 1) if _is_real(node) else extent


def _is_real(node: oir.Node) -> bool:
    """Whether it makes real numbers of one half of a symmetric spectrum."""
    attributes = node.attributes
    return bool(attributes.get_int("inverse", 0) and attributes.get_int("onesided", 0))


def _transform(node: oir.Node, length: int, extent: int) -> Transform:
    is_inverse = bool(node.attributes.get_int("inverse", 0))
    half = length // 2 + 1
    halves = bool(node.attributes.get_int("onesided", 0))
    return Transform(
        length,
        sign=1 if is_inverse else -1,
        inputs=min(extent, half if is_inverse and halves else length),
        outputs=half if halves and not is_inverse else length,
        parts_out=1 if is_inverse and halves else 2,
        scale=1 / length if is_inverse else 1.0,
    )


def _half_spectrum(b: GraphBuilder, parts: Sequence[oir.Value], length: int) -> oir.Value:
    """The parts of one half of a symmetric spectrum, weighted for a transform to real numbers.

    What is not there is conjugate to what is: the latter counts twice, but for the one or two
    elements that are their own conjugates, whose imaginary parts are not looked at.
    """
    real, *imaginary = parts
    extent = _dims(real)[2]
    end = min((length + 1) // 2, extent)
    if imaginary and end > 1:
        inside = b.slice(imaginary[0], [1], [end], axes=[2])
        edges = b.i64([0, 0, 1, 0, 0, 0, extent - end, 0])
        real = b.Concat(real, b.Pad(inside, edges), axis=1)
    weights = np.ones((extent, 1))
    weights[1:end] = 2
    weighted: oir.Value = b.Mul(real, _const(b, weights, real))
    return weighted


def _parts(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    """What stands along the last axis of x."""
    axis = rank_of(x) - 1
    if shape_of(x)[axis] == 1:
        return [_without_last_axis(x) or b.squeeze(x, [axis])]
    joined = x.producer()
    if joined is not None and joined.op_type == "Concat":
        parts = [_without_last_axis(part) for part in joined.inputs]
        found = [part for part in parts if part is not None]
        if len(found) == len(parts):
            return found
    return [b.Gather(x, b.i64(index), axis=axis) for index in (0, 1)]


def _without_last_axis(x: oir.Value | None) -> oir.Value | None:
    """What x was before it got a last axis of extent 1; None if it did not."""
    node = None if x is None else x.producer()
    if node is None or node.op_type != "Unsqueeze":
        return None
    is_last = const_ints(node.inputs[1]) == (rank_of(node.outputs[0]) - 1,)
    return node.inputs[0] if is_last else None


def _hand_out(y: oir.Value, parts: Sequence[oir.Value]) -> None:
    """Gives the parts of y to those who take them out of it."""
    for reader in [use.node for use in y.uses()]:
        if reader.op_type != "Gather" or reader.attributes.get_int("axis", 0) != rank_of(y) - 1:
            continue
        number = const_of(reader.inputs[1])
        if number is not None and number.ndim == 0:
            part = parts[int(number)]
            if edit.can_replace(reader.outputs[0], part):
                edit.replace(reader, [part])

"""DFT nodes from other operators: for runtimes whose kernel is inexact or slow.

ONNX Runtime's is accurate for powers of two only (at n = 4,097 its error is 8e-4 of the norm in
f32, 1e-12 in f64; here 4e-7 and 6e-16), and there 4 to 8 times slower than this, from n = 64 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import dim_of, expression, fixed, is_static, product
from hlo2onnx.ir.values import Dim, const_ints, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.rewrite.replace import can_replace
from hlo2onnx.rewrite.replace import replace as replace_node
from hlo2onnx.targets.decompositions.dft_matmul import (
    RESHAPES,
    Transform,
    columns_of,
    const_like,
    shaped,
    transformed,
)


def decompose_dft(b: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DFT node's output; None where the extents from the transformed axis on are not known."""
    x = node.inputs[0]
    assert x is not None
    dims, axis = shape_of(x), _axis(node)
    if axis is None or not is_static(dims[axis:]) or 0 in dims:
        return None
    (extent,) = fixed([dims[axis]])
    length = _length(node, extent)
    if not length:
        return None
    transform = _transform(node, length, extent)
    columns = _columns(b, x, axis)
    columns = b.slice(columns, [0], [transform.inputs], axes=[2])
    make = _one_point if length == 1 else _points
    y = make(b, columns, transform)
    shape = (*dims[:axis], transform.outputs, *dims[axis + 1 : -1])
    parts = [
        shaped(b, b.slice(y, [index], [index + 1], axes=[1]), shape)
        for index in range(transform.parts_out)
    ]
    _hand_out(node.outputs[0], parts)
    return b.concat([b.unsqueeze(part, [len(shape)]) for part in parts], len(shape))


def _one_point(b: GraphBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    """One point is its own transform."""
    if columns_of(x)[1] < transform.parts_out:
        zeros = b.Expand(b.scalar_like(0, x), b.Shape(x), types=[(dtype_of(x), shape_of(x))])
        return b.concat([x, zeros], axis=1)
    return b.slice(x, [0], [transform.parts_out], axes=[1])


def _points(b: GraphBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    if transform.parts_out == 1:
        x = _half_spectrum(b, x, transform.length)
    return transformed(b, x, replace(transform, parts_in=columns_of(x)[1]))


def _half_spectrum(b: GraphBuilder, x: oir.Value, length: int) -> oir.Value:
    """One half of a symmetric spectrum, weighted for a transform to real numbers.

    What is not there is conjugate to what is: the latter counts twice, but for the one or two
    elements that are their own conjugates, whose imaginary parts are not looked at.
    """
    _, parts, extent, _ = columns_of(x)
    paired = np.zeros((extent, 1), bool)
    paired[1 : (length + 1) // 2] = True
    if parts == 2 and paired.any():
        is_read = b.const(np.stack([np.ones_like(paired), paired]))
        x = b.Where(is_read, x, b.scalar_like(0, x))
    else:
        x = b.slice(x, [0], [1], axes=[1])
    return b.Mul(x, const_like(b, 1.0 + paired, x))


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


# -- real and imaginary parts --------------------------------------------------------------------


def _columns(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """What stands along an axis of x, whose last axis holds real and imaginary parts, as
    (outer, parts, extent, inner)."""
    dims = shape_of(x)[:-1]
    outer, inner = product(dims[:axis]), product(dims[axis + 1 :])
    parts = _parts(b, x)
    whole = _cut_from(parts, outer)
    if whole is None:
        columns = [shaped(b, part, (outer, 1, dims[axis], inner)) for part in parts]
        return b.concat(columns, axis=1)
    # They were columns along another axis: the parts change places with what lies between.
    before = columns_of(whole)[0]
    fewer, ratio = (outer, _ratio(before, outer)), _ratio(outer, before)
    few, many = (before, ratio) if ratio else fewer
    assert many is not None
    between = (2, many) if ratio and ratio > 1 else (many, 2)
    rest = _ratio(product((outer, dims[axis], inner)), product((few, many)))
    assert rest is not None
    whole = b.transpose(shaped(b, whole, (few, *between, rest)), (0, 2, 1, 3))
    return shaped(b, whole, (outer, 2, dims[axis], inner))


def _ratio(more: Dim, fewer: Dim) -> int | None:
    """How many times the one is the other; None if it is no multiple."""
    if isinstance(more, int) and isinstance(fewer, int):
        return more // fewer if more % fewer == 0 else None
    ratio = dim_of(expression(more) / expression(fewer))
    return ratio if isinstance(ratio, int) else None


def _cut_from(parts: Sequence[oir.Value], outer: Dim) -> oir.Value | None:
    """The transform whose two parts these are; None if they are not, or if it does not extend
    over `outer` groups of columns or a divisor or multiple of them."""
    sources = []
    for index, part in enumerate(parts):
        node = part.producer()
        while node is not None and node.op_type in RESHAPES:
            node = node.inputs[0].producer() if node.inputs[0] is not None else None
        if node is None or node.op_type != "Slice":
            return None
        if (const_ints(node.inputs[1]), const_ints(node.inputs[3])) != ((index,), (1,)):
            return None
        sources.append(node.inputs[0])
    whole = sources[0]
    if len(sources) != 2 or whole is not sources[1] or whole is None or rank_of(whole) != 4:
        return None
    before, count, *_ = columns_of(whole)
    fits = _ratio(before, outer) is not None or _ratio(outer, before) is not None
    return whole if count == 2 and fits else None


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
            if can_replace(reader.outputs[0], part):
                replace_node(reader, [part])

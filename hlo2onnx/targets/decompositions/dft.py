"""DFT nodes from other operators, for runtimes whose kernel is inexact or slow.

The kernel of ONNX Runtime is accurate for powers of two only: at n = 4,097 its error is 8e-4 of the
norm in f32 and 1e-12 in f64; here it is 4e-7 and 6e-16. For powers of two from 64 on, that kernel
takes 4 to 8 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import dim_of, expression, fixed, is_static, product
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.replace import can_replace
from hlo2onnx.ir.replace import replace as replace_node
from hlo2onnx.ir.values import Dim, const_ints, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.dft_matmul import (
    Transform,
    columns_of,
    const_like,
    shaped,
    transformed,
)


def decompose_dft(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
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


def _one_point(b: TargetBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    """One point is its own transform."""
    if columns_of(x)[1] < transform.parts_out:
        zeros = b.Expand(b.scalar_like(0, x), b.Shape(x), types=[(dtype_of(x), shape_of(x))])
        return b.concat([x, zeros], axis=1)
    return b.slice(x, [0], [transform.parts_out], axes=[1])


def _points(b: TargetBuilder, x: oir.Value, transform: Transform) -> oir.Value:
    if transform.parts_out == 1:
        x = _half_spectrum(b, x, transform.length)
    return transformed(b, x, replace(transform, parts_in=columns_of(x)[1]))


def _half_spectrum(b: TargetBuilder, x: oir.Value, length: int) -> oir.Value:
    """One half of a symmetric spectrum, weighted for a transform to real numbers.

    The other half holds the conjugates. So each element counts twice, except for one or two that
    are their own conjugates; their imaginary parts are not read.
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
    """An attribute until opset 19, then an input; None if it is not constant."""
    x, _, given = (*node.inputs, None, None)[:3]
    assert x is not None
    if given is None:
        return node.attributes.get_int("axis", 1) % rank_of(x)
    numbers = const_ints(given)
    return None if numbers is None else numbers[0] % rank_of(x)


def _length(node: oir.Node, extent: int) -> int | None:
    """How many points are transformed; None if it is not constant."""
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


def _columns(b: TargetBuilder, x: oir.Value, axis: int) -> oir.Value:
    """x as (outer, parts, extent, inner): the extent is that of an axis, and the last axis of x
    holds the real and imaginary parts."""
    dims = shape_of(x)[:-1]
    outer, inner = product(dims[:axis]), product(dims[axis + 1 :])
    parts = _parts(b, x)
    whole = _cut_from(parts, outer)
    if whole is None:
        columns = [shaped(b, part, (outer, 1, dims[axis], inner)) for part in parts]
        return b.concat(columns, axis=1)
    # They were columns along another axis: exchange the parts with the axes in between.
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
    """more / fewer; None if it is not an integer."""
    if isinstance(more, int) and isinstance(fewer, int):
        return more // fewer if more % fewer == 0 else None
    ratio = dim_of(expression(more) / expression(fewer))
    return ratio if isinstance(ratio, int) else None


def _cut_from(parts: Sequence[oir.Value], outer: Dim) -> oir.Value | None:
    """The transform that has these two parts; None if there is none, or if its number of groups of
    columns is neither a divisor nor a multiple of `outer`."""
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


def _parts(b: TargetBuilder, x: oir.Value) -> list[oir.Value]:
    """The elements along the last axis of x, each a tensor."""
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
    """The operand of the Unsqueeze that adds the last axis of x; None if there is none."""
    node = None if x is None else x.producer()
    if node is None or node.op_type != "Unsqueeze":
        return None
    is_last = const_ints(node.inputs[1]) == (rank_of(node.outputs[0]) - 1,)
    return node.inputs[0] if is_last else None


def _hand_out(y: oir.Value, parts: Sequence[oir.Value]) -> None:
    """Gives the parts of y to the Gathers that take them from y."""
    for reader in [use.node for use in y.uses()]:
        if reader.op_type != "Gather" or reader.attributes.get_int("axis", 0) != rank_of(y) - 1:
            continue
        number = const_of(reader.inputs[1])
        if number is not None and number.ndim == 0:
            part = parts[int(number)]
            if can_replace(reader.outputs[0], part):
                replace_node(reader, [part])

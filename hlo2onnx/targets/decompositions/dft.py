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

from hlo2onnx.ir.dims import fixed, is_static, product
from hlo2onnx.ir.replace import can_replace
from hlo2onnx.ir.replace import replace as replace_node
from hlo2onnx.ir.values import const_ints, const_of, present, rank_of, shape_of
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
    x = present(node.inputs)[0]
    dims, axis = shape_of(x), _axis(node)
    if axis is None or not is_static(dims[axis:]) or 0 in dims:
        return None
    (extent,) = fixed([dims[axis]])
    transform = _transform(node, extent)
    if transform is None:
        return None
    columns = _columns(b, x, axis)
    columns = b.slice(columns, [0], [transform.inputs], axes=[2])
    if transform.parts_out == 1:
        columns = _half_spectrum(b, columns, transform.length)
    y = transformed(b, columns, replace(transform, parts_in=columns_of(columns)[1]))
    shape = (*dims[:axis], transform.outputs, *dims[axis + 1 : -1])
    parts = [
        shaped(b, b.slice(y, [index], [index + 1], axes=[1]), shape)
        for index in range(transform.parts_out)
    ]
    _hand_out(node.outputs[0], parts)
    return b.concat([b.unsqueeze(part, [len(shape)]) for part in parts], len(shape))


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
    """An attribute until opset 19, then an input; None if it is no constant."""
    rank, given = rank_of(node.outputs[0]), node.inputs[2] if len(node.inputs) > 2 else None
    if given is None:
        return node.attributes.get_int("axis", 1) % rank
    numbers = const_ints(given)
    return None if numbers is None else numbers[0] % rank


def _transform(node: oir.Node, extent: int) -> Transform | None:
    """What the node computes; None if the count of points is 0, or no constant."""
    is_inverse, halves = (bool(node.attributes.get_int(x, 0)) for x in ("inverse", "onesided"))
    length = 2 * (extent - 1) if is_inverse and halves else extent
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        (length,) = const_ints(node.inputs[1]) or (0,)
    if not length:
        return None
    half = length // 2 + 1
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
    shape = (product(dims[:axis]), 1, dims[axis], product(dims[axis + 1 :]))
    return b.concat([shaped(b, part, shape) for part in _parts(b, x)], axis=1)


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

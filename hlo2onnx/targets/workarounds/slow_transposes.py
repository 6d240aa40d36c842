"""Transposes for which a runtime has no fast kernel.

ONNX Runtime 1.32 takes 0.2 to 0.4 µs for each matrix of a batch: 390 µs for 1,000 of 6 x 6. With
the batch last, a row of the batch is copied at once: 27 µs.

It has a fast kernel for one axis that moves, of up to 32 bits an element: 2048 x 1024 numbers take
0.6 ms. Of two axes that move it copies element by element, and counts axes of extent 1: the same
numbers as 1 x 1 x 2048 x 1024 take 34 ms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import attributes_of, dtype_of, present, rank_of, static_shape
from hlo2onnx.targets.builder import TargetBuilder

_FEWEST_MATRICES, _MOVED_MATRIX = 32, 144
"""Fewest matrices that are transposed with the batch last, and elements of the largest one."""
_MOVED_ELEMENTS = 4096
"""Fewest elements that move one axis at a time."""


def transpose_with_batch_last(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Transpose(x), leading axes staying -> the rows of x with these axes last, in another order.

    Legal for every type: numbers are only moved. None if no axis stays, if the parts that move are
    large or few, or where a MatMul takes the Transpose over.
    """
    (x,), perm = present(node.inputs), _perm(node)
    dims = static_shape(x)
    kept = next((k for k, axis in enumerate(perm) if k != axis), len(perm))
    if dims is None or not kept or _is_multiplied(node):
        return None
    batch, core = dims[:kept], dims[kept:]
    count, size = math.prod(batch), math.prod(core)
    if not 1 < size <= _MOVED_MATRIX or count < _FEWEST_MATRICES:
        return None
    places = np.arange(size).reshape(core).transpose([axis - kept for axis in perm[kept:]])
    rows = b.transpose(b.reshape(x, (count, size)), (1, 0))
    moved = b.Gather(rows, b.i64(places.reshape(-1).tolist()), axis=0)
    return b.reshape(b.transpose(moved, (1, 0)), (*batch, *places.shape))


MOVED_BITS = 32
"""Bits of the largest elements for which there is a fast kernel."""


def move_one_axis(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Transpose(x), several axes moving -> Transpose of fewer axes, one of which moves

    Axes that stay next to each other count as one, and axes of extent 1 as none. Legal for every
    type: numbers are only moved. None for few elements, other orders, and where a MatMul takes the
    Transpose over.
    """
    (x,), perm = present(node.inputs), _perm(node)
    dims = static_shape(x)
    if dims is None or dtype_of(x).bitwidth > MOVED_BITS or _moves_one(perm):
        return None
    if math.prod(dims) < _MOVED_ELEMENTS or _is_multiplied(node):
        return None
    parts, order = _parts(dims, perm)
    if not _moves_one(order):
        return None
    return b.reshape(b.transpose(b.reshape(x, parts), order), [dims[axis] for axis in perm])


def _perm(node: oir.Node) -> list[int]:
    reverse = range(rank_of(node.outputs[0]))[::-1]
    return [int(axis) for axis in attributes_of(node).get("perm", reverse)]


def _is_multiplied(node: oir.Node) -> bool:
    """Whether a MatMul takes a Transpose over."""
    return any(user.op_type == "MatMul" for user in node.outputs[0].consumers())


def _moves_one(perm: Sequence[int]) -> bool:
    """Whether all axes but one stay in order."""
    rest = ([*perm[:place], *perm[place + 1 :]] for place in range(len(perm)))
    return not perm or any(axes == sorted(axes) for axes in rest)


def _parts(dims: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """The extents of the parts of a tensor that a Transpose moves as wholes, and their order."""
    real = [axis for axis, dim in enumerate(dims) if dim != 1]
    groups: list[list[int]] = []
    for place in (real.index(axis) for axis in perm if axis in real):
        if groups and groups[-1][-1] + 1 == place:
            groups[-1].append(place)
        else:
            groups.append([place])
    extents = [math.prod(dims[real[place]] for place in group) for group in sorted(groups)]
    return extents, [sorted(groups).index(group) for group in groups]

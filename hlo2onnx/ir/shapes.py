"""Shapes under broadcasting, and those that Reshape and Slice take and produce."""

from __future__ import annotations

from collections.abc import Sequence

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.dims import difference, is_positive
from hlo2onnx.ir.values import Dim, Shape


def broadcast_dims(first: Dim, second: Dim) -> Dim:
    """The extent numpy broadcasting gives two extents."""
    if first == second or second == 1:
        return first
    if first == 1:
        return second
    if isinstance(first, int) and isinstance(second, int):
        raise InternalError(f"extents {first} and {second} do not broadcast")
    if isinstance(first, int):
        return first
    if isinstance(second, int):
        return second
    # Operands of StableHLO's ops have equal extents, whatever their expressions.
    return first


def common_dim(first: Dim, second: Dim) -> Dim:
    """The extent that two axes share which the program says are equal."""
    if isinstance(first, int) and isinstance(second, int) and first != second:
        raise InternalError(f"extents {first} and {second} differ")
    return second if isinstance(second, int) else first


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape numpy broadcasting gives."""
    if shapes.count(shapes[0]) == len(shapes):  # as of most operands
        return shapes[0]
    rank = max(map(len, shapes))
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = broadcast_dims(result[axis], dim)
    return tuple(result)


INT64_MAX = (1 << 63) - 1
"""The end of an axis, as the limit of a Slice."""
INT64_MIN = -(1 << 63)
"""The place before the first element, as the limit of a backward Slice."""


def reshape_target(have: Sequence[Dim], dims: Sequence[Dim]) -> list[int] | None:
    """The constant shape operand of a Reshape to these partly symbolic extents. 0 keeps the extent
    of an axis and one -1 is inferred. None if that does not suffice."""
    target = [
        dim if isinstance(dim, int) else 0 if have[axis : axis + 1] == (dim,) else -1
        for axis, dim in enumerate(dims)
    ]
    if 0 in (dim for dim in dims if isinstance(dim, int)) or target.count(-1) > 1:
        return None
    kept = [dim for dim, item in zip(dims, target, strict=True) if item == 0]
    if -1 in target and not all(map(is_positive, kept)):
        return None
    return target


def added_units(have: Sequence[Dim], dims: Sequence[Dim]) -> list[int] | None:
    """The axes of extent 1 that `dims` adds to `have`; None if they differ in another way."""
    added = []
    position = 0
    for axis, dim in enumerate(dims):
        if position < len(have) and have[position] == dim:
            position += 1
        elif dim == 1:
            added.append(axis)
        else:
            return None
    return added if position == len(have) else None


def slice_of(dim: int, start: int, limit: int, step: int) -> slice:
    """The Python slice equal to ONNX's Slice of an axis. Backwards, ONNX clamps a start before the
    first element to that element, and a limit before it to the place before it."""
    if step > 0:
        return slice(start, limit, step)
    return slice(max(start, -dim), None if limit < -dim else limit, step)


def sliced_extent(dim: Dim, start: Dim, limit: Dim, step: int) -> Dim:
    """The extent of a slice of an axis."""
    if isinstance(dim, int) and isinstance(start, int) and isinstance(limit, int):
        return len(range(*slice_of(dim, start, limit, step).indices(dim)))
    if step < 0:
        if (start, limit) != (-1, INT64_MIN):
            raise InternalError("only the whole of a symbolic axis can be reversed")
        return dim if step == -1 else (dim + (-step - 1)) // -step
    length = difference(limit, start)
    return length if step == 1 else (length + (step - 1)) // step

"""Extents and shapes under numpy's broadcasting."""

from __future__ import annotations

from hlo2onnx.errors import InternalError
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

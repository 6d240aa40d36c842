"""Points of comparison: values of the model that hold values of the program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.notes import ARGUMENTS, CALLEE, Held, Path, held_by
from hlo2onnx.ir.traversal import all_values
from hlo2onnx.verify.model_graphs import ModelGraphs, Scope
from hlo2onnx.verify.program_values import BlockValues

_NOT_FED = frozenset(
    {oir.DataType.INT4, oir.DataType.UINT4, oir.DataType.INT2, oir.DataType.UINT2}
    | {oir.DataType.FLOAT4E2M1}
)
"""Types that ONNX Runtime's Python API does not take."""


@dataclass(frozen=True)
class Point:
    """A value of the model that holds a value of the program.

    Attributes:
        name: Its name in the model.
        held: The value of the program.
        dtype: Its element type.
        shape: Its shape; None for an extent that is not static.
    """

    name: str
    held: Held
    dtype: oir.DataType
    shape: tuple[int | None, ...]

    @property
    def order(self) -> tuple[float, ...]:
        """Sorts points in the order of the program. A call comes after the ops in its callee."""
        return (*self.held.path, float("inf"))


def points_of(model: oir.Model) -> list[Point]:
    """All points of a model in memory."""
    return sorted(
        (
            Point(str(value.name), held, value.dtype, _dims(value))
            for value in _values(model)
            for held in held_by(value)
            if value.dtype is not None and value.dtype not in _NOT_FED and value.shape is not None
        ),
        key=lambda point: point.order,
    )


def _values(model: oir.Model) -> Iterator[oir.Value]:
    for graph in each_graph(model):
        yield from all_values(graph)


def _dims(value: oir.Value) -> tuple[int | None, ...]:
    return tuple(dim if isinstance(dim, int) else None for dim in value.shape or ())


def is_direct(path: Path, block: Path) -> bool:
    """Whether an op runs once in each run of a block.

    It is in the block itself, or in a function that is called there. The path of the block's own
    arguments counts as direct, too.
    """
    rest = path[len(block) :]
    if path[: len(block)] != block or len(rest) % 2 == 0:
        return False
    if rest[-1] == ARGUMENTS:
        return len(rest) == 1
    return all(region == CALLEE for region in rest[1::2])


def op_around(path: Path, block: Path) -> Path | None:
    """The op with a region that an inner op is in, within a block; None for a direct op."""
    if path[: len(block)] != block:
        return None
    for place in range(len(block) + 1, len(path), 2):
        if path[place] != CALLEE:
            return path[:place]
    return None


def array_of(point: Point, values: BlockValues, block: Path) -> np.ndarray | None:
    """XLA's content for a value of the model; None if it is not known, or of another type."""
    held = point.held
    if held.path[-1] == ARGUMENTS:
        known = values.arguments if held.path[:-1] == block else []
    else:
        known = values.results.get(held.path, [])
    array = known[held.number] if held.number < len(known) else None
    if array is None:
        return None
    if held.parts == 2:
        part = array.imag if held.part else array.real
        array = np.ascontiguousarray(part).reshape(array.shape)
    for kind, numbers in held.view:
        if kind == "transpose" and len(numbers) == array.ndim:
            array = array.transpose(numbers)
        elif kind == "reshape" and math.prod(numbers) == array.size:
            array = array.reshape(numbers)
        else:
            return None
    fits = len(array.shape) == len(point.shape) and all(
        want in (None, have) for want, have in zip(point.shape, array.shape, strict=True)
    )
    return array if fits and array.dtype == point.dtype.numpy() else None


def trip_of(point: Point, loop: Path, around: Mapping[Path, int]) -> int | str | None:
    """The trip of a loop that a point is in.

    Args:
        around: The current trips of the loops around it.

    Returns:
        The number of the trip if the loop is unrolled, `STACKED` if the value has all trips, "any"
        if the model has the loop. None if the point belongs to other trips of the loops around.
    """
    found: int | str = "any"
    for path, trip in point.held.trips:
        if path == loop:
            found = trip
        elif around.get(path) != trip:
            return None
    return found


def points_in(points: Iterable[Point], graphs: ModelGraphs, scope: Scope) -> list[Point]:
    """The points whose value belongs to one graph."""
    return [point for point in points if graphs.scopes.get(point.name) is scope]


def scopes_of(points: Iterable[Point], graphs: ModelGraphs) -> list[Scope]:
    """The graphs with values that hold results of ops, without constants."""
    found: list[Scope] = []
    for point in points:
        scope = graphs.scopes.get(point.name)
        if point.held.path[-1] == ARGUMENTS or scope is None or scope in found:
            continue
        if graphs.constant(point.name) is None:
            found.append(scope)
    return found


MOST_BYTES = 1 << 30
"""XLA returns values of up to this size at once."""


def within_memory(points: Sequence[Point]) -> list[Point]:
    """Points whose values fit into memory, evenly among all."""
    sizes = [_bytes(point) for point in points]
    parts = -(-sum(sizes) // MOST_BYTES)
    if parts <= 1:
        return list(points)
    found, passed = [], 0
    for point, size in zip(points, sizes, strict=True):
        passed += size
        if passed >= parts * size:
            found.append(point)
            passed -= parts * size
    return found


def _bytes(point: Point) -> int:
    return math.prod(dim or 1 for dim in point.shape) * max(point.dtype.bitwidth // 8, 1)

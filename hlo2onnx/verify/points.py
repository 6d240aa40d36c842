"""Points of comparison: values of the model that hold values of the program.

A translation notes them, a user names them, or two programs share them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.mlir.block_functions import block_at, callee_of
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.locations import Origin, OriginReader
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, numpy_type
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in
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
        The trip number if the loop is unrolled, `STACKED` if the value has all trips, "any" if the
        model has the loop. None if the point belongs to other trips of the loops around.
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
"""XLA returns values of up to this size. With more, the op that is named is the last of several."""


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


def named_points(
    module: ir.Operation, function: str, model: onnx.ModelProto, names: Mapping[str, str]
) -> list[Point]:
    """The points of a map of names.

    Args:
        names: Names of tensors of the model, by the value of the program: its name in the text of
            the function ("%12", "%12#1"), the scope of its op ("Dense_0/dot_general"), or the
            source line of its op ("model.py:12"), which is the last op of this line.

    Raises:
        UsageError: The program has no such value, or the model no such tensor.
    """
    values = dict(_named_values(module, function))
    tensors = _tensors(model)
    found = []
    for key, tensor in names.items():
        if key not in values:
            raise UsageError(
                f"names= has {key!r}, and the program has no such value"
                '\n  next   name it as in the text ("%12"), or by scope or source line of its op'
            )
        if tensor not in tensors:
            raise UsageError(f"names= has {tensor!r}, and the model has no such tensor")
        path, number, value = values[key]
        dtype = oir.DataType.from_numpy(numpy_type(element_type(value.type)))
        shape = tuple(ir.RankedTensorType(value.type).shape)
        found.append(Point(tensor, Held(path, number), dtype, shape))
    return sorted(found, key=lambda point: point.order)


def _tensors(model: onnx.ModelProto) -> set[str]:
    made = {name for node in model.graph.node for name in node.output}
    return made | {tensor.name for tensor in model.graph.initializer}


def _named_values(
    module: ir.Operation, function: str
) -> Iterator[tuple[str, tuple[Path, int, MlirValue]]]:
    """The values of a function by every name; of equal names the last one counts."""
    read = OriginReader()
    for path, operation in direct_operations(module, function):
        origin = read(operation.location)
        for number, value in enumerate(operation.results):
            if is_tensor(value.type):
                place = path, number, value
                if len(path) == 1:
                    yield value.get_name(use_local_scope=True), place
                yield from ((name, place) for name in (origin.scope, origin.source) if name)


def direct_operations(
    module: ir.Operation, function: str, block: Path = ()
) -> Iterator[tuple[Path, ir.Operation]]:
    """The ops of a function that run once, and those of the functions that it calls."""
    functions = functions_of(module)
    operations = operations_in(block_at(module, function, block))
    for index, operation in enumerate(operations[:-1]):
        path = (*block, index)
        if callee_of(operation, functions) is not None:
            yield from direct_operations(module, function, (*path, CALLEE))
        yield path, operation


def shared_points(
    points: Sequence[Point],
    module: ir.Operation,
    function: str,
    other: ir.Operation,
    other_function: str,
) -> list[Point]:
    """The points of another program's model, as values of this program.

    Two values are the same if their ops have the same scope, name, results and number among the ops
    for which that holds.

    Args:
        points: The points of the other program's model.
        module: The normalized module of this program.
        other: That of the other one.
    """
    mine = {key: path for path, key in _keys(module, function)}
    theirs = {path: mine[key] for path, key in _keys(other, other_function) if key in mine}
    found = []
    for point in points:
        path = theirs.get(point.held.path)
        if path is not None and is_direct(path, ()):
            held = point.held._replace(path=path)
            found.append(Point(point.name, held, point.dtype, point.shape))
    return sorted(found, key=lambda point: point.order)


def _keys(module: ir.Operation, function: str) -> Iterator[tuple[Path, tuple[object, ...]]]:
    read, counts = OriginReader(), Counter[tuple[object, ...]]()
    for path, operation in direct_operations(module, function):
        origin: Origin = read(operation.location)
        types = tuple(str(value.type) for value in operation.results)
        key = (origin.scope, operation.name, types)
        counts[key] += 1
        yield path, (*key, counts[key])

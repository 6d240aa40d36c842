"""Points of comparison that a user names, and those that two programs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import onnx
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.mlir.block_functions import block_at, callee_of
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.locations import Origin, OriginReader
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, numpy_type
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in
from hlo2onnx.ir.notes import CALLEE, Held, Path
from hlo2onnx.verify.points import Point, is_direct


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
    values = dict(_values(module, function))
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


def _values(
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

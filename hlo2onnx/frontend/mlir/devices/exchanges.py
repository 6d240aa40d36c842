"""The collectives of StableHLO among values of several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.devices.tensors import joined, part, tensor, zeros_like
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in
from hlo2onnx.limitations import unsupported

PLACEMENTS = frozenset(
    {
        "sdy.propagation_barrier",
        "sdy.reshard",
        "sdy.sharding_constraint",
        "sdy.sharding_group",
        "stablehlo.custom_call @Sharding",
        "stablehlo.custom_call @xla.sdy.FuncResultSharding",
    }
)
"""Ops that say where their operand lies."""
Values = Sequence[MlirValue]
"""A value on each device of the program, or of a group."""


def exchange(operation: ir.Operation, operands: Sequence[Values], devices: Devices) -> list[Values]:
    """The results of a collective on each device, from its operands on each.

    Equal groups of values give one result.

    Raises:
        UnsupportedOp: A device is in no group, or a group is of other devices.
    """
    if operation.name == "stablehlo.collective_permute":
        return [_permuted(x, devices.pairs(operation)) for x in operands]
    found: list[list[MlirValue | None]] = [[None] * devices.count for _ in operation.results]
    known: dict[tuple[tuple[MlirValue, ...], ...], list[Values]] = {}
    for group in devices.groups(operation):
        if max(group) >= devices.count:
            raise unsupported("groups", f"a group has device {max(group)}")
        given = tuple(tuple(x[device] for device in group) for x in operands)
        if given not in known:
            known[given] = _EXCHANGES[operation.name](operation, given)
        for values, row in zip(known[given], found, strict=True):
            for device, value in zip(group, values, strict=True):
                row[device] = value
    if operation.name == "stablehlo.collective_broadcast":
        return [_or_zeros(row, x[0]) for row, x in zip(found, operands, strict=True)]
    complete = [[value for value in row if value is not None] for row in found]
    if any(len(row) < devices.count for row in complete):
        raise unsupported("groups", "a device is in no group")
    return list(complete)


def _permuted(x: Values, pairs: Sequence[tuple[int, int]]) -> Values:
    if any(max(pair) >= len(x) for pair in pairs):
        raise unsupported("groups", f"source_target_pairs = {list(map(list, pairs))}")
    found: list[MlirValue | None] = [None] * len(x)
    for source, target in pairs:
        found[target] = x[source]
    return _or_zeros(found, x[0])


def _or_zeros(found: Sequence[MlirValue | None], like: MlirValue) -> Values:
    """The values, with zeros for devices that receive none."""
    zeros = zeros_like(like) if any(value is None for value in found) else like
    return [zeros if value is None else value for value in found]


def _reduced(operation: ir.Operation, given: Sequence[Values]) -> list[MlirValue]:
    """The sum, maximum or the like over a group, in the order of its devices, as in XLA."""
    found = [values[0] for values in given]
    for place in range(1, len(given[0])):
        found = _combined(operation, found, [values[place] for values in given])
    return found


def _combined(operation: ir.Operation, a: Values, b: Values) -> list[MlirValue]:
    """The computation of a reduction, of scalars, on whole tensors."""
    block = operation.regions[0].blocks[0]
    if len(block.arguments) == 2 < 2 * len(a):  # one computation for several operands
        return [_combined(operation, [x], [y])[0] for x, y in zip(a, b, strict=True)]
    known = dict(zip(block.arguments, [*a, *b], strict=True))
    *body, last = operations_in(block)
    for item in body:
        if item.name in PLACEMENTS:
            known[item.results[0]] = known[item.operands[0]]
            continue
        if item.regions or not item.operands:
            raise UnsupportedOp(f"its computation has {item.name}, which is not elementwise")
        operands = [known[x] for x in item.operands]
        shape = shape_of(operands[0].type)
        types = [tensor(shape, result.type) for result in item.results]
        attributes = {name: item.attributes[name] for name in keys_of(item.attributes)}
        new = ir.Operation.create(item.name, types, operands, attributes)
        known.update(zip(item.results, new.results, strict=True))
    return [known[x] for x in last.operands]


def _all_reduce(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    size = len(given[0])
    return [[value] * size for value in _reduced(operation, given)]


def _reduce_scatter(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    axis, size = _integer(operation, "scatter_dimension"), len(given[0])
    found = _reduced(operation, given)
    return [[_along(x, axis, place, size) for place in range(size)] for x in found]


def _all_gather(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    axis = _integer(operation, "all_gather_dim")
    return [[joined(values, axis)] * len(values) for values in given]


def _all_to_all(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    names = ("split_dimension", "concat_dimension", "split_count")
    split, along, count = (_integer(operation, name) for name in names)
    return [
        [joined([_along(x, split, place, count) for x in values], along) for place in range(count)]
        for values in given
    ]


def _broadcast(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    if "has_dynamic_root" in operation.attributes:
        raise UnsupportedOp(
            "its root is known only when the program runs", "broadcast from the first of a group"
        )
    return [[values[0]] * len(values) for values in given]


_EXCHANGES: Mapping[str, Callable[[ir.Operation, Sequence[Values]], list[Values]]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_broadcast": _broadcast,
    "stablehlo.reduce_scatter": _reduce_scatter,
}
COLLECTIVES = frozenset({*_EXCHANGES, "stablehlo.collective_permute"})
"""Ops that exchange data between devices."""


def _along(x: MlirValue, axis: int, place: int, count: int) -> MlirValue:
    """One of the equal parts along an axis."""
    rank = len(shape_of(x.type))
    index = [place if other == axis else 0 for other in range(rank)]
    return part(x, index, [count if other == axis else 1 for other in range(rank)])


def _integer(operation: ir.Operation, name: str) -> int:
    return int(to_python(operation.attributes[name]))

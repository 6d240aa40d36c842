"""The collectives of StableHLO among values of several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.devices.tensors import joined, part, tensor, zeros_like
from hlo2onnx.frontend.mlir.types import element_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, made, operations_in
from hlo2onnx.limitations import unsupported

Values = Sequence[MlirValue]
"""A value on each device of the program, or of a group."""


def exchange(operation: ir.Operation, operands: Sequence[Values], devices: Devices) -> list[Values]:
    """The results of a collective on each device, from its operands on each.

    Equal groups of values give one result.

    Raises:
        UnsupportedOp: A device is in no group, or a group is of other devices.
    """
    if operation.name == "stablehlo.collective_permute":
        senders = {target: source for source, target in devices.pairs(operation)}
        sources = [senders.get(device) for device in range(devices.count)]
        return [_or_zeros([None if i is None else x[i] for i in sources], x[0]) for x in operands]
    found: list[list[MlirValue | None]] = [[None] * devices.count for _ in operation.results]
    known: dict[tuple[tuple[MlirValue, ...], ...], list[Values]] = {}
    groups = devices.groups(operation)
    if sum(map(len, groups)) < devices.count and "broadcast" not in operation.name:
        raise unsupported("groups", "a device is in no group")
    for group in groups:
        given = tuple(tuple(x[device] for device in group) for x in operands)
        if given not in known:
            known[given] = _EXCHANGES[operation.name](operation, given)
        for values, row in zip(known[given], found, strict=True):
            for device, value in zip(group, values, strict=True):
                row[device] = value
    return [_or_zeros(row, x[0]) for row, x in zip(found, operands, strict=True)]


def _or_zeros(found: Sequence[MlirValue | None], like: MlirValue) -> Values:
    """The values, with zeros for devices that receive none."""
    zeros = zeros_like(like) if any(value is None for value in found) else like
    return [zeros if value is None else value for value in found]


def _reduced(operation: ir.Operation, values: Values) -> MlirValue:
    """The sum, maximum or the like over a group, in the order of its devices, as in XLA.

    The computation is one of scalars. It is applied to whole tensors.
    """
    narrow, shape = values[0].type, shape_of(values[0].type)
    if element_type(narrow) == "bf16":  # XLA on the CPU rounds only the result
        wide = tensor(shape, ir.RankedTensorType.get([], ir.F32Type.get()))
        values = [made("convert", wide, value) for value in values]
    block, found = operation.regions[0].blocks[0], values[0]
    *body, last = operations_in(block)
    for value in values[1:]:
        known = dict(zip(block.arguments, (found, value), strict=True))
        for item in body:
            operands = [known[x] for x in item.operands]
            if item.name.startswith("sdy."):  # says where a scalar lies
                known[item.result] = operands[0]
                continue
            if item.regions or not operands:
                raise UnsupportedOp(f"its computation has {item.name}, which is not elementwise")
            attributes = {name: item.attributes[name] for name in keys_of(item.attributes)}
            is_scalar_given = item.result.type == block.arguments[0].type
            kind = found.type if is_scalar_given else tensor(shape, item.result.type)
            known[item.result] = ir.Operation.create(item.name, [kind], operands, attributes).result
        found = known[last.operands[0]]
    return found if found.type == narrow else made("convert", narrow, found)


def _all_reduce(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    return [[_reduced(operation, values)] * len(values) for values in given]


def _reduce_scatter(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    axis, size = to_python(operation.attributes["scatter_dimension"]), len(given[0])
    found = [_reduced(operation, values) for values in given]
    return [[_along(x, axis, place, size) for place in range(size)] for x in found]


def _all_gather(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    axis = to_python(operation.attributes["all_gather_dim"])
    return [[joined(values, axis)] * len(values) for values in given]


def _all_to_all(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    names = ("split_dimension", "concat_dimension", "split_count")
    split, along, count = (to_python(operation.attributes[name]) for name in names)
    return [
        [joined([_along(x, split, place, count) for x in values], along) for place in range(count)]
        for values in given
    ]


def _broadcast(operation: ir.Operation, given: Sequence[Values]) -> list[Values]:
    if "has_dynamic_root" in operation.attributes:
        raise UnsupportedOp("its root is known only when the program runs")
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

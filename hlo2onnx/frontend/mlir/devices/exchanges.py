"""The collectives of StableHLO, and shards, as ops on the values of all devices at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.devices.meshes import Devices, Shards
from hlo2onnx.frontend.mlir.devices.per_device import PerDevice, first_places, joint, stacked
from hlo2onnx.frontend.mlir.devices.tensors import (
    Extent,
    extents,
    extremes,
    i64s,
    in_place,
    joined,
    picked,
    pieces_of,
    rearranged,
    scalar,
    split,
    tensor,
)
from hlo2onnx.frontend.mlir.types import element_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in
from hlo2onnx.limitations import unsupported


def exchange(
    operation: ir.Operation, operands: Sequence[PerDevice], devices: Devices
) -> list[PerDevice]:
    """The results of a collective on each device, from its operands on each.

    Raises:
        UnsupportedOp: A device is in no group, or a group is of other devices.
    """
    if operation.name == "stablehlo.collective_permute":
        senders = {target: source for source, target in devices.pairs(operation)}
        return [_received(x, senders) for x in operands]
    groups = devices.groups(operation)
    if operation.name == "stablehlo.collective_broadcast":
        if "has_dynamic_root" in operation.attributes:
            raise UnsupportedOp("its root is known only when the program runs")
        roots = {device: group[0] for group in groups for device in group}
        return [_received(x, roots) for x in operands]
    if sum(map(len, groups)) < devices.count:
        raise unsupported("groups", "a device is in no group")
    return [_exchanged(operation, x, groups) for x in operands]


def _received(x: PerDevice, senders: Mapping[int, int]) -> PerDevice:
    """What each device gets from its sender; zeros if it has none."""
    givers = [senders.get(device) for device in range(len(x.rows))]
    if x.count == 1 and None not in givers:
        return x
    kinds = [x.count if giver is None else x.rows[giver] for giver in givers]
    rows = joint([tuple(kinds)])
    return stacked(x.of_all([givers[place] for place in first_places(rows)]), rows)


def _exchanged(operation: ir.Operation, x: PerDevice, groups: Sequence[Sequence[int]]) -> PerDevice:
    """The result of a collective in groups. It is made once for groups with the same values."""
    keys = [tuple(x.rows[device] for device in group) for group in groups]
    results: list[MlirValue] = []
    made_rows: dict[tuple[int, ...], range] = {}
    start = 0
    for size in dict.fromkeys(map(len, keys)):
        alike = {key: group for key, group in zip(keys, groups, strict=True) if len(key) == size}
        whole = x.of_all([device for group in alike.values() for device in group])
        results.append(_EXCHANGES[operation.name](operation, whole, len(alike)))
        each = (shape_of(results[-1].type)[0] or 0) // len(alike)  # all members, or one for all
        for key in alike:
            made_rows[key] = range(start, start := start + each)
    rows = {
        device: made_rows[key][place % len(made_rows[key])]
        for key, group in zip(keys, groups, strict=True)
        for place, device in enumerate(group)
    }
    return stacked(joined(results, 0), [rows[device] for device in range(len(rows))])


# -- collectives of groups of one size: the rows are the members of the first group, and so on -----


def _all_reduce(operation: ir.Operation, x: MlirValue, groups: int) -> MlirValue:
    """The sum, maximum or the like over each group: a row for each."""
    (block,) = operation.regions[0].blocks
    kind = _computation(block)
    if kind in _STARTS and element_type(x.type) != "f16":  # of which XLA rounds each sum
        return _reduced(kind, x, groups)
    return _in_turn(block, x, groups)


def _computation(block: ir.Block) -> str:
    """The name of the one op of both arguments that a computation of scalars is; else ""."""
    body = [item for item in operations_in(block)[:-1] if not item.name.startswith("sdy.")]
    is_of_both = len(body) == 1 and set(body[0].operands) == set(block.arguments)
    return body[0].name if is_of_both else ""


def _reduced(name: str, x: MlirValue, groups: int) -> MlirValue:
    """stablehlo.reduce over the members of each group."""
    pieces = pieces_of(x)
    pieces[0] = [groups, _members(x, groups)]
    x = rearranged(x, pieces, [[1], [0], *in_place(pieces)[1:]])
    start = scalar(_STARTS[name](x.type), x.type)
    result = ir.Operation.create(
        "stablehlo.reduce",
        [tensor(shape_of(x.type)[1:], x.type)],
        [x, start],
        {"dimensions": i64s([0])},
        regions=1,
    )
    block = result.regions[0].blocks.append(start.type, start.type)
    with ir.InsertionPoint(block):
        found = ir.Operation.create(name, [start.type], list(block.arguments)).result
        ir.Operation.create("stablehlo.return", operands=[found])
    return result.result


_STARTS: Mapping[str, Callable[[ir.Type], float]] = {
    "stablehlo.add": lambda _: 0,
    "stablehlo.multiply": lambda _: 1,
    "stablehlo.maximum": lambda kind: extremes(kind)[0],
    "stablehlo.minimum": lambda kind: extremes(kind)[1],
    "stablehlo.and": lambda kind: 1 if element_type(kind) == "i1" else -1,
    "stablehlo.or": lambda _: 0,
}
"""The neutral element of the computations that become one reduction."""


def _in_turn(block: ir.Block, x: MlirValue, groups: int) -> MlirValue:
    """A computation of scalars, applied to the first two members of each group, then to its result
    and the next one, as in XLA."""
    count = (shape_of(x.type)[0] or 0) // groups
    each = [picked(x, [group * count + i for group in range(groups)]) for i in range(count)]
    *body, last = operations_in(block)
    found = each[0]
    for value in each[1:]:
        known: dict[MlirValue, MlirValue] = dict(zip(block.arguments, (found, value), strict=True))
        for item in body:
            operands = [known[operand] for operand in item.operands]
            if item.name.startswith("sdy."):  # says where a scalar lies
                known[item.result] = operands[0]
                continue
            if item.regions or not operands:
                raise UnsupportedOp(f"its computation has {item.name}, which is not elementwise")
            attributes = {name: item.attributes[name] for name in keys_of(item.attributes)}
            is_scalar_given = item.result.type == block.arguments[0].type
            kind = found.type if is_scalar_given else tensor(shape_of(found.type), item.result.type)
            known[item.result] = ir.Operation.create(item.name, [kind], operands, attributes).result
        found = known[last.operands[0]]
    return found


def _reduce_scatter(operation: ir.Operation, x: MlirValue, groups: int) -> MlirValue:
    axis, members = to_python(operation.attributes["scatter_dimension"]) + 1, _members(x, groups)
    found = _all_reduce(operation, x, groups)
    pieces = pieces_of(found)
    pieces[axis] = split(pieces[axis][0], members)
    order = in_place(pieces)
    order[0], order[axis] = [0, axis], [axis + 1]
    return rearranged(found, pieces, order)


def _all_gather(operation: ir.Operation, x: MlirValue, groups: int) -> MlirValue:
    axis = to_python(operation.attributes["all_gather_dim"]) + 1
    pieces = pieces_of(x)
    pieces[0] = [groups, _members(x, groups)]
    order = in_place(pieces)
    order[0] = [0]
    order[axis].insert(0, 1)
    return rearranged(x, pieces, order)


def _all_to_all(operation: ir.Operation, x: MlirValue, groups: int) -> MlirValue:
    names = ("split_dimension", "concat_dimension")
    cut, along = (to_python(operation.attributes[name]) + 1 for name in names)
    pieces = pieces_of(x)
    pieces[0] = [groups, _members(x, groups)]
    pieces[cut] = split(pieces[cut][0], _members(x, groups))
    order = in_place(pieces)
    order[0] = [0, order[cut].pop(0)]
    order[along].insert(0, 1)
    return rearranged(x, pieces, order)


_EXCHANGES: Mapping[str, Callable[[ir.Operation, MlirValue, int], MlirValue]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.reduce_scatter": _reduce_scatter,
}
COLLECTIVES = frozenset(
    {*_EXCHANGES, "stablehlo.collective_broadcast", "stablehlo.collective_permute"}
)
"""Ops that exchange data between devices."""


def _members(x: MlirValue, groups: int) -> int:
    return (shape_of(x.type)[0] or 0) // groups


# -- shards ---------------------------------------------------------------------------------------


def cut(x: PerDevice, shards: Shards) -> PerDevice:
    """The shard of each device."""
    if math.prod(shards.counts) == 1:
        return x
    parts = x.of_all(first_places(x.rows))
    pieces: list[list[Extent]] = [[x.count]]
    for size, count in zip(extents(parts)[1:], shards.counts, strict=True):
        pieces.append(split(size, count) if count > 1 else [size])
    first, *rest = in_place(pieces)
    order = [first + [axis[0] for axis in rest if len(axis) > 1], *([axis[-1]] for axis in rest)]
    places = np.ravel_multi_index(np.transpose(shards.places), shards.counts)
    rows = np.array(x.rows) * math.prod(shards.counts) + places
    return stacked(rearranged(parts, pieces, order), rows.tolist())


def whole(x: PerDevice, shards: Shards) -> PerDevice:
    """The tensor of each device, from the shards of all. Of several devices with the same shard,
    the first one gives it."""
    families: dict[Hashable, dict[tuple[int, ...], int]] = {}
    for device, (place, family) in enumerate(zip(shards.places, shards.families, strict=True)):
        families.setdefault(family, {}).setdefault(place, device)
    givers = {
        family: [found[place] for place in sorted(found)] for family, found in families.items()
    }
    keys = {family: tuple(x.rows[device] for device in found) for family, found in givers.items()}
    distinct = {keys[family]: found for family, found in givers.items()}
    parts = x.of_all([device for found in distinct.values() for device in found])
    counts = [count for count in shards.counts if count > 1]
    pieces: list[list[Extent]] = [
        [len(distinct), *counts],
        *([size] for size in extents(parts)[1:]),
    ]
    (first, *firsts), *lasts = in_place(pieces)
    rest = iter(firsts)
    axes = zip(lasts, shards.counts, strict=True)
    order = [[first], *([next(rest), *axis] if count > 1 else axis for axis, count in axes)]
    numbers = {key: number for number, key in enumerate(distinct)}
    return stacked(rearranged(parts, pieces, order), [numbers[keys[f]] for f in shards.families])

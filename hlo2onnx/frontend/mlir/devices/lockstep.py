"""Runs all devices of a program in lockstep: a value is a list with the value of each device."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.errors import Refusal, TranslationError, UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.mlir.devices.exchanges import COLLECTIVES, Values, exchange
from hlo2onnx.frontend.mlir.devices.meshes import Devices, Shards
from hlo2onnx.frontend.mlir.devices.tensors import joined, part, scalar_like
from hlo2onnx.frontend.mlir.functions import CALLEES, functions_of
from hlo2onnx.frontend.mlir.locations import origin_of
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    defining_operation,
    operands_within,
    operations_in,
    operations_of,
    returned_by,
)
from hlo2onnx.limitations import unsupported

Environment = dict[MlirValue, Values]
"""The values of the new program on each device, by those of the old one."""

_CALL = "stablehlo.custom_call"
NUMBERS = frozenset({"stablehlo.partition_id", "stablehlo.replica_id"})
MANUAL = "sdy.manual_computation"
TO_SHARD, FROM_SHARD = f"{_CALL} @SPMDFullToShardShape", f"{_CALL} @SPMDShardToFullShape"
EXCHANGES = COLLECTIVES | {MANUAL, TO_SHARD, FROM_SHARD}
"""Ops that need the values of several devices at once."""


def key_of(operation: ir.Operation) -> str:
    """The name of an op; of a custom call with its target."""
    if operation.name != _CALL:
        return operation.name
    return f"{_CALL} @{text_of(operation, 'call_target_name')}"


def refusal_of(operation: ir.Operation, error: UnsupportedOp) -> Refusal:
    """What an error says of an op."""
    given, results = ([x.type for x in side] for side in (operation.operands, operation.results))
    types = str(ir.FunctionType.get(given, results, operation.context))
    where = str(origin_of(operation.location))
    return Refusal(key_of(operation), types, where, error.why, error.next)


class Lockstep:
    """Makes the ops of all devices at the insertion point.

    Attributes:
        copies: How often each op of the old program was made.
    """

    def __init__(self, module: ir.Operation, devices: Devices) -> None:
        self.copies: dict[ir.Operation, int] = {}
        self._functions = functions_of(module)
        self._devices = devices
        self._running = list(range(devices.count))
        self._reached: dict[tuple[str, frozenset[str]], bool] = {}

    def reaches(self, operation: ir.Operation, keys: frozenset[str]) -> bool:
        """Whether an op is one of these, or has one in a region or a function that it calls."""
        return any(
            key_of(item) in keys
            or (item.name in CALLEES and self.calls(text_of(item, CALLEES[item.name]), keys))
            for item in operations_of(operation)
        )

    def calls(self, symbol: str, keys: frozenset[str]) -> bool:
        """Whether a function reaches one of these ops."""
        if (symbol, keys) not in self._reached:
            self._reached[symbol, keys] = False  # a function that calls itself is refused later
            function = self._functions.get(symbol)
            self._reached[symbol, keys] = function is not None and self.reaches(function, keys)
        return self._reached[symbol, keys]

    def block(self, block: ir.Block, known: Environment) -> list[Values]:
        """Makes the ops of a block; returns what it returns."""
        for operation in operations_in(block)[:-1]:
            try:
                with operation.location:
                    results = self._results(operation, known)
            except UnsupportedOp as error:
                raise TranslationError([refusal_of(operation, error)]) from error
            known.update(zip(operation.results, results, strict=True))
        return [known[value] for value in returned_by(block)]

    def _results(self, operation: ir.Operation, known: Environment) -> Sequence[Values]:
        key, operands = key_of(operation), [known[x] for x in operation.operands]
        if key in COLLECTIVES:
            return exchange(operation, operands, self._devices)
        if key in NUMBERS:
            return [self._numbers(operation)]
        if key == MANUAL:
            return self._manual(operation, known)
        if key in (TO_SHARD, FROM_SHARD):
            return [self._resharded(operation, operands[0])]
        if not self.reaches(operation, EXCHANGES | NUMBERS):
            return self._copied(operation, known)
        if operation.name in CALLEES:
            (block,) = self._functions[text_of(operation, CALLEES[operation.name])].regions[0]
            return self.block(block, dict(zip(block.arguments, operands, strict=True)))
        if key == "stablehlo.while":
            return self._loop(operation, known)
        if key in ("stablehlo.case", "stablehlo.if"):
            return self._branches(operation, known)
        raise UnsupportedOp("devices exchange data in its region, and it is no loop and no branch")

    def _numbers(self, operation: ir.Operation) -> Values:
        """The number of each device."""
        count = self._devices.partitions
        place = 1 if operation.name.endswith("partition_id") else 0
        numbers = [divmod(device, count)[place] for device in self._running]
        made = {n: scalar_like(n, operation.results[0].type) for n in dict.fromkeys(numbers)}
        return [made[number] for number in numbers]

    # -- ops that know nothing of devices ---------------------------------------------------------

    def _copied(self, operation: ir.Operation, known: Environment) -> list[Values]:
        """The results of an op that is made once for all devices with the same operands."""
        read = dict.fromkeys(operation.operands)
        if operation.regions:
            read |= dict.fromkeys(x for x in operands_within(operation) if x in known)
        made: dict[Hashable, Sequence[MlirValue]] = {}
        found = []
        for place in range(len(self._running)):
            values = tuple(known[x][place] for x in read)
            if values not in made:
                made[values] = _copy(operation, dict(zip(read, values, strict=True)))
            found.append(made[values])
        self.copies[operation] = len(made)
        return _by_result(operation, found)

    # -- shards -----------------------------------------------------------------------------------

    def _manual(self, operation: ir.Operation, known: Environment) -> list[Values]:
        """manual_computation(args) { body }: each device gets its shards of the arguments, and the
        results are joined."""
        axes = list(sdy.ManualAxesAttr(operation.attributes["manual_axes"]))
        given, wanted = (
            [
                self._devices.shardy(item, axes)
                for item in sdy.TensorShardingPerValueAttr(operation.attributes[name]).shardings
            ]
            for name in ("in_shardings", "out_shardings")
        )
        block = operation.regions[0].blocks[0]
        inner = dict(known)
        for argument, x, shards in zip(block.arguments, operation.operands, given, strict=True):
            inner[argument] = _cut(known[x], shards)
        results = self.block(block, inner)
        return [_whole(x, shards) for x, shards in zip(results, wanted, strict=True)]

    def _resharded(self, operation: ir.Operation, x: Values) -> Values:
        """The shards of a tensor, or the tensor of shards, in programs of GSPMD."""
        to_shard = key_of(operation) == TO_SHARD
        # The call says "manual" of the side with the shards. The other side has the sharding.
        source = defining_operation(operation.operands[0]) if to_shard else operation
        name = "mhlo.sharding"
        text = text_of(source, name) if source is not None and name in source.attributes else ""
        (shape,) = (shape_of(value.type) for value in operation.results)
        shards = self._devices.gspmd(text, len(shape))
        found = _cut(x, shards) if to_shard else _whole(x, shards)
        if shape_of(found[0].type) != shape:
            raise unsupported("shards", f"its sharding is {text or 'not known'}")
        return found

    # -- regions ----------------------------------------------------------------------------------

    def _alone(self, operation: ir.Operation, known: Environment) -> list[Values]:
        """The results of an op that each device computes for itself."""
        read = [value for value in operands_within(operation) if value in known]
        found = []
        for place, device in enumerate(self._running):
            alone = copy(self)
            alone._running = [device]
            results = alone._results(operation, {x: [known[x][place]] for x in read})
            found.append([value for (value,) in results])
        return _by_result(operation, found)

    def _branches(self, operation: ir.Operation, known: Environment) -> list[Values]:
        """case(index) { ... } with collectives, which all devices enter together."""
        index = known[operation.operands[0]]
        if len(set(index)) > 1:
            if self.reaches(operation, EXCHANGES):
                raise unsupported("exchange")
            return self._alone(operation, known)
        name, count = operation.name, len(operation.regions)
        draft = ir.Operation.create(name, [], [index[0]], regions=count)
        blocks, returned = [], []
        for region, new in zip(operation.regions, draft.regions, strict=True):
            blocks.append(new.blocks.append())
            with ir.InsertionPoint(blocks[-1]):
                returned.append(self.block(region.blocks[0], dict(known)))
        per_result = list(zip(*returned, strict=True))
        classes = [_classes(list(zip(*values, strict=True))) for values in per_result]
        for block, values in zip(blocks, returned, strict=True):
            _return(block, _chosen(values, classes))
        types = [value.type for value in _chosen(returned[0], classes)]
        made = ir.Operation.create(name, types, [index[0]], regions=count)
        for block, region in zip(blocks, made.regions, strict=True):
            block.append_to(region)
        draft.erase()
        return _spread(list(made.results), classes)

    def _loop(self, operation: ir.Operation, known: Environment) -> list[Values]:
        """while(states) with collectives, which all devices run together. States on which devices
        agree in every trip are one state: they are found by trying."""
        starts = [known[x] for x in operation.operands]
        classes = [_classes(x) for x in starts]
        while True:
            given = _chosen(starts, classes)
            types = [value.type for value in given]
            made = ir.Operation.create(operation.name, types, given, regions=2)
            returned = []
            for region, new in zip(operation.regions, made.regions, strict=True):
                block, old = new.blocks.append(*types), region.blocks[0]
                states = _spread(list(block.arguments), classes)
                with ir.InsertionPoint(block):
                    inner = known | dict(zip(old.arguments, states, strict=True))
                    returned.append(self.block(old, inner))
            [whether], states = returned
            found = [
                _classes(list(zip(*x, strict=True))) for x in zip(classes, states, strict=True)
            ]
            if len(set(whether)) == 1 and found == classes:
                condition, body = (region.blocks[0] for region in made.regions)
                _return(condition, [whether[0]])
                _return(body, _chosen(states, classes))
                return _spread(list(made.results), classes)
            made.erase()
            if len(set(whether)) > 1:
                if self.reaches(operation, EXCHANGES):
                    raise unsupported("exchange")
                return self._alone(operation, known)
            classes = found


# -- classes of devices with the same value -------------------------------------------------------


def _classes(keys: Sequence[Hashable]) -> list[int]:
    """For each device, the first one with the same value."""
    first: dict[Hashable, int] = {}
    return [first.setdefault(key, place) for place, key in enumerate(keys)]


def _chosen(every: Sequence[Values], classes: Sequence[Sequence[int]]) -> list[MlirValue]:
    """One value of each class."""
    pairs = zip(every, classes, strict=True)
    return [values[place] for values, firsts in pairs for place in dict.fromkeys(firsts)]


def _spread(values: Sequence[MlirValue], classes: Sequence[Sequence[int]]) -> list[Values]:
    """The value of each device, from one of each class."""
    rest = iter(values)
    found: list[Values] = []
    for firsts in classes:
        made = {place: next(rest) for place in dict.fromkeys(firsts)}
        found.append([made[place] for place in firsts])
    return found


def _return(block: ir.Block, values: Values) -> None:
    with ir.InsertionPoint(block):
        ir.Operation.create("stablehlo.return", operands=list(values))


# -- copies and shards ----------------------------------------------------------------------------


def _copy(operation: ir.Operation, values: Mapping[MlirValue, MlirValue]) -> list[MlirValue]:
    """The results of a copy of an op that reads other values."""
    new = operation.clone().operation
    for item in operations_of(new):
        for place, value in enumerate(item.operands):
            item.operands[place] = values.get(value, value)
    return list(new.results)


def _by_result(operation: ir.Operation, found: Sequence[Sequence[MlirValue]]) -> list[Values]:
    """The values of each result, from the results of each device."""
    return [[results[i] for results in found] for i in range(len(operation.results))]


def _cut(xs: Values, shards: Shards) -> Values:
    """The shard of each device."""
    made: dict[Hashable, MlirValue] = {}
    found = []
    for x, place in zip(xs, shards.places, strict=True):
        if (x, place) not in made:
            made[x, place] = part(x, place, shards.counts)
        found.append(made[x, place])
    return found


def _whole(xs: Values, shards: Shards) -> Values:
    """The tensor of each device, from the shards of all. Of several devices with the same shard,
    the first one gives it."""
    families: dict[Hashable, dict[tuple[int, ...], MlirValue]] = {}
    for x, place, family in zip(xs, shards.places, shards.families, strict=True):
        families.setdefault(family, {}).setdefault(place, x)
    made: dict[Hashable, MlirValue] = {}
    for parts in families.values():
        if (key := tuple(parts.items())) not in made:
            made[key] = _assembled(parts, shards.counts, ())
    return [made[tuple(families[family].items())] for family in shards.families]


def _assembled(
    parts: Mapping[tuple[int, ...], MlirValue], counts: Sequence[int], index: tuple[int, ...]
) -> MlirValue:
    """The part of a tensor whose index begins so, from all of its parts."""
    axis = len(index)
    if axis == len(counts):
        return parts[index]
    return joined([_assembled(parts, counts, (*index, i)) for i in range(counts[axis])], axis)

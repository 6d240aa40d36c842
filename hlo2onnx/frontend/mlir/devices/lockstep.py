"""Runs all devices of a program in lockstep: each op is made once for the values of all devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.errors import Refusal, TranslationError, UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.devices.exchanges import COLLECTIVES, cut, exchange, whole
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.devices.per_device import (
    PerDevice,
    Rows,
    first_places,
    joint,
    same,
    stacked,
)
from hlo2onnx.frontend.mlir.devices.stacking import stacked_results
from hlo2onnx.frontend.mlir.devices.tensors import constant, i64
from hlo2onnx.frontend.mlir.functions import CALLEES, functions_of
from hlo2onnx.frontend.mlir.locations import origin_of
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    defining_operation,
    is_used,
    made,
    operands_within,
    operations_in,
    operations_of,
    returned_by,
)
from hlo2onnx.limitations import limitation_of, unsupported

Environment = dict[MlirValue, PerDevice]
"""The values of the new program on each device, by those of the old one."""

_CALL = "stablehlo.custom_call"
NUMBERS = frozenset({"stablehlo.partition_id", "stablehlo.replica_id"})
MANUAL = "sdy.manual_computation"
TO_SHARD, FROM_SHARD = f"{_CALL} @SPMDFullToShardShape", f"{_CALL} @SPMDShardToFullShape"
EXCHANGES = COLLECTIVES | {MANUAL, TO_SHARD, FROM_SHARD}
"""Ops that need the values of several devices at once."""
APART = EXCHANGES | NUMBERS
"""Ops that may compute different values on different devices."""


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
        copies: For each op of the old program, how often it was made, one after another.
        stacked: The ops that were made once for devices with different values.
    """

    def __init__(self, module: ir.Operation, devices: Devices, limit: int = 0) -> None:
        """
        Args:
            limit: How often an op may be made, which has no form for all devices.
        """
        self.copies: dict[ir.Operation, int] = {}
        self.stacked: set[ir.Operation] = set()
        self._functions = functions_of(module)
        self._devices = devices
        self._limit = limit
        self._entered: list[str] = []
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

    def block(self, block: ir.Block, known: Environment) -> list[PerDevice]:
        """Makes the ops of a block; returns what it returns."""
        for operation in operations_in(block)[:-1]:
            try:
                with operation.location:
                    results = self._results(operation, known)
            except UnsupportedOp as error:
                raise TranslationError([refusal_of(operation, error)]) from error
            known.update(zip(operation.results, results, strict=True))
        return [known[value] for value in returned_by(block)]

    def _results(self, operation: ir.Operation, known: Environment) -> Sequence[PerDevice]:
        key, operands = key_of(operation), [known[x] for x in operation.operands]
        if key in COLLECTIVES:
            return exchange(operation, operands, self._devices)
        if key in NUMBERS:
            return [self._numbers(operation)]
        if key == MANUAL:
            return self._manual(operation, known)
        if key in (TO_SHARD, FROM_SHARD):
            return [self._resharded(operation, operands[0])]
        read = _read(operation, known)
        rows = joint([(0,) * len(self._running), *(known[x].rows for x in read)])
        if max(rows) == 0 and not self.reaches(operation, APART):
            return self._each(operation, known, read, rows)
        if key == "func.call" or (key in CALLEES and self.reaches(operation, APART)):
            return self._called(text_of(operation, CALLEES[key]), operands)
        if key == "stablehlo.while":
            return self._loop(operation, known)
        if key in ("stablehlo.case", "stablehlo.if"):
            return self._branches(operation, known)
        if self.reaches(operation, APART):
            raise UnsupportedOp(
                "devices exchange data in its region, and it is no loop and no branch"
            )
        if key == "stablehlo.get_dimension_size":
            return [self._size(operation, operands[0])]
        if len(read) == len(set(operation.operands)):
            found = stacked_results(operation, operands, rows)
            if found is not None:
                self.stacked.add(operation)
                return [stacked(x, rows) for x in found]
        return self._each(operation, known, read, rows)

    def _called(self, symbol: str, operands: Sequence[PerDevice]) -> list[PerDevice]:
        """The results of a function."""
        if symbol in self._entered:
            raise UnsupportedOp("the function calls itself")
        (block,) = self._functions[symbol].regions[0]
        self._entered.append(symbol)
        results = self.block(block, dict(zip(block.arguments, operands, strict=True)))
        self._entered.remove(symbol)
        return results

    def _numbers(self, operation: ir.Operation) -> PerDevice:
        """The number of each device."""
        place = 1 if operation.name.endswith("partition_id") else 0
        numbers = [divmod(device, self._devices.partitions)[place] for device in self._running]
        found = sorted(set(numbers))
        values = constant(np.array(found), operation.results[0].type)
        return stacked(values, [found.index(number) for number in numbers])

    def _size(self, operation: ir.Operation, x: PerDevice) -> PerDevice:
        """The extent along an axis, which is the same on all devices."""
        axis = i64(to_python(operation.attributes["dimension"]) + x.is_stacked)
        kind = operation.results[0].type
        size = made("get_dimension_size", kind, x.tensors[0], dimension=axis)
        return same(size, len(self._running))

    def _each(
        self, operation: ir.Operation, known: Environment, read: Sequence[MlirValue], rows: Rows
    ) -> list[PerDevice]:
        """The results of an op that is made once for each row; once if nothing reads them, as of a
        call that prints."""
        if not any(map(is_used, operation.results)):
            rows = (0,) * len(rows)
        places = first_places(rows)
        self._count_copies(operation, len(places))
        found = [_copy(operation, {x: known[x].of(place) for x in read}) for place in places]
        return _by_result(operation, found, rows)

    def _count_copies(self, operation: ir.Operation, count: int) -> None:
        if count > max(1, self._limit):
            raise limitation_of(key_of(operation), always=True) or UnsupportedOp(
                f"the model would have it {count} times, for one device after another, and the"
                f" limit is {self._limit}",
                f"pass devices={count}, or lower the function for a smaller mesh",
            )
        self.copies[operation] = count

    # -- shards -----------------------------------------------------------------------------------

    def _manual(self, operation: ir.Operation, known: Environment) -> list[PerDevice]:
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
            inner[argument] = cut(known[x], shards)
        results = self.block(block, inner)
        return [whole(x, shards) for x, shards in zip(results, wanted, strict=True)]

    def _resharded(self, operation: ir.Operation, x: PerDevice) -> PerDevice:
        """The shards of a tensor, or the tensor of shards, in programs of GSPMD."""
        to_shard = key_of(operation) == TO_SHARD
        # The call says "manual" of the side with the shards. The other side has the sharding.
        source = defining_operation(operation.operands[0]) if to_shard else operation
        name = "mhlo.sharding"
        text = text_of(source, name) if source is not None and name in source.attributes else ""
        (shape,) = (shape_of(value.type) for value in operation.results)
        shards = self._devices.gspmd(text, len(shape))
        found = cut(x, shards) if to_shard else whole(x, shards)
        if shape_of(found.tensors[0].type)[found.is_stacked :] != shape:
            raise unsupported("shards", f"its sharding is {text or 'not known'}")
        return found

    # -- regions ----------------------------------------------------------------------------------

    def _apart(self, operation: ir.Operation, known: Environment) -> list[PerDevice]:
        """The results of a loop or branch whose condition differs: each device runs it alone."""
        if self.reaches(operation, EXCHANGES):
            raise unsupported("exchange")
        read = _read(operation, known)
        if not self.reaches(operation, NUMBERS):
            return self._each(operation, known, read, joint([known[x].rows for x in read]))
        self._count_copies(operation, len(self._running))
        found = []
        for place, device in enumerate(self._running):
            alone = copy(self)
            alone._running = [device]
            results = alone._results(operation, {x: same(known[x].of(place), 1) for x in read})
            found.append([x.tensors[0] for x in results])
        self._count_copies(operation, len(self._running))
        return _by_result(operation, found, tuple(range(len(self._running))))

    def _branches(self, operation: ir.Operation, known: Environment) -> list[PerDevice]:
        """case(index) { ... }, which all devices enter together."""
        index = known[operation.operands[0]]
        if index.count > 1:
            return self._apart(operation, known)
        name, count, given = operation.name, len(operation.regions), [index.tensors[0]]
        draft = ir.Operation.create(name, [], given, regions=count)
        blocks, returned = [], []
        for region, own in zip(operation.regions, draft.regions, strict=True):
            blocks.append(own.blocks.append())
            with ir.InsertionPoint(blocks[-1]):
                returned.append(self.block(region.blocks[0], dict(known)))
        rows = [joint([x.rows for x in values]) for values in zip(*returned, strict=True)]
        for block, values in zip(blocks, returned, strict=True):
            _return(block, values, rows)
        types = [x.type for x in returned_by(blocks[0])]
        new = ir.Operation.create(name, types, given, regions=count)
        for block, region in zip(blocks, new.regions, strict=True):
            block.append_to(region)
        draft.erase()
        return _from(new.results, rows)

    def _loop(self, operation: ir.Operation, known: Environment) -> list[PerDevice]:
        """while(states), which all devices run together. States on which devices agree in every
        trip are one state: they are found by trying."""
        starts = [known[x] for x in operation.operands]
        rows = [x.rows for x in starts]
        while True:
            given = [x.by(own) for x, own in zip(starts, rows, strict=True)]
            types = [value.type for value in given]
            new = ir.Operation.create(operation.name, types, given, regions=2)
            returned = []
            for region, own in zip(operation.regions, new.regions, strict=True):
                block, old = own.blocks.append(*types), region.blocks[0]
                states = _from(block.arguments, rows)
                with ir.InsertionPoint(block):
                    inner = known | dict(zip(old.arguments, states, strict=True))
                    returned.append(self.block(old, inner))
            [whether], states = returned
            found = [joint([own, x.rows]) for own, x in zip(rows, states, strict=True)]
            if whether.count == 1 and found == rows:
                condition, body = (region.blocks[0] for region in new.regions)
                _return(condition, [whether], [whether.rows])
                _return(body, states, rows)
                return _from(new.results, rows)
            new.erase()
            if whether.count > 1:
                return self._apart(operation, known)
            rows = found


def _read(operation: ir.Operation, known: Environment) -> list[MlirValue]:
    """The values of other ops that an op reads, also in its regions."""
    inner = operands_within(operation) if operation.regions else ()
    return list(dict.fromkeys([*operation.operands, *(x for x in inner if x in known)]))


def _from(values: Sequence[MlirValue], rows: Sequence[Rows]) -> list[PerDevice]:
    """Values that have a leading axis where devices differ."""
    pairs = zip(values, rows, strict=True)
    return [PerDevice(own, (x,), is_stacked=max(own) > 0) for x, own in pairs]


def _return(block: ir.Block, values: Sequence[PerDevice], rows: Sequence[Rows]) -> None:
    with ir.InsertionPoint(block):
        operands = [x.by(own) for x, own in zip(values, rows, strict=True)]
        ir.Operation.create("stablehlo.return", operands=operands)


def _copy(operation: ir.Operation, values: Mapping[MlirValue, MlirValue]) -> list[MlirValue]:
    """The results of a copy of an op that reads other values."""
    new = operation.clone().operation
    for item in operations_of(new):
        for place, value in enumerate(item.operands):
            item.operands[place] = values.get(value, value)
    return list(new.results)


def _by_result(
    operation: ir.Operation, found: Sequence[Sequence[MlirValue]], rows: Rows
) -> list[PerDevice]:
    """The values of each result, from the results in each row."""
    return [PerDevice(rows, tuple(x[i] for x in found)) for i in range(len(operation.results))]

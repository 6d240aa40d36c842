"""Rewrites a program for several devices to one for one device, from StableHLO to StableHLO.

All devices run in lockstep (`lockstep`). Collectives become slices, concatenations and sums
(`exchanges`). Which devices exchange data, and which shard is whose, is read from the mesh
(`meshes`), in programs of Shardy, of GSPMD and of `jax.pmap`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from hlo2onnx.errors import Refusal, TranslationError
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.devices.lockstep import (
    EXCHANGES,
    MANUAL,
    NUMBERS,
    TO_SHARD,
    Lockstep,
    key_of,
)
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.functions import function_type, functions_of
from hlo2onnx.frontend.mlir.locations import origin_of
from hlo2onnx.frontend.mlir.shardings import manual_axes
from hlo2onnx.frontend.mlir.values import operations_of
from hlo2onnx.limitations import unsupported

_SHOWN = 4
"""Count of the kinds of ops that a note names."""


_APART = EXCHANGES | NUMBERS
"""Ops that may compute different values on different devices."""


def devices_of(module: ir.Operation, symbol: str) -> Devices | None:
    """The devices that a function needs, if it is for several ones that are not alike; else None.

    A program that only carries shardings computes the same on any number of devices.
    """
    devices = Devices(module)
    if devices.count == 1 or not Lockstep(module, devices).calls(symbol, _APART):
        return None
    return devices if _kinds(module, devices) > 1 else None


def _kinds(module: ir.Operation, devices: Devices) -> int:
    """Count of the devices that may have different values: those along manual axes."""
    operations = operations_of(module)
    manual = [operation for operation in operations if operation.name == MANUAL]
    if not manual or any(key_of(operation) == TO_SHARD for operation in operations):
        return devices.count
    sizes = {axis: size for each in manual for axis, size in manual_axes(each).items()}
    return math.prod(sizes.values())


@dataclass(frozen=True)
class OneDevice:
    """A program for one device.

    Attributes:
        module: The module.
        note: For several devices before, what the user should know; "" if nothing changed.
    """

    module: ir.Operation
    note: str = ""


def on_one_device(module: ir.Operation, symbol: str, limit: int) -> OneDevice:
    """The program for one device that computes what all devices compute together.

    Args:
        module: The module. It does not change.
        symbol: The function to rewrite.
        limit: The largest count of devices.

    Raises:
        TranslationError: There are more devices, or an op cannot be rewritten.
    """
    devices = devices_of(module, symbol)
    if devices is None:
        return OneDevice(module)
    kinds = _kinds(module, devices)
    if kinds > limit:
        raise TranslationError([_too_many(module, functions_of(module)[symbol], kinds, limit)])
    copy = clone_module(module)
    old = functions_of(copy)[symbol]
    lockstep = Lockstep(copy, devices)
    with copy.context, ir.Location.unknown(), ir.InsertionPoint(old):
        new = func.FuncOp(symbol, function_type(old))
        for name in ("arg_attrs", "res_attrs", "sym_visibility"):
            if name in old.attributes:
                new.operation.attributes[name] = old.attributes[name]
        (before,) = old.regions[0].blocks
        after = new.add_entry_block([argument.location for argument in before.arguments])
        with ir.InsertionPoint(after):
            pairs = zip(before.arguments, after.arguments, strict=True)
            results = lockstep.block(before, {x: [y] * devices.count for x, y in pairs})
            if any(len(set(values)) > 1 for values in results):
                raise TranslationError([_apart(old, devices.count)])
            func.ReturnOp([values[0] for values in results])
        for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
            copy.attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
    note = _note(lockstep.copies, devices)
    for name, function in functions_of(copy).items():
        if function == old or (name != symbol and lockstep.calls(name, _APART)):
            function.erase()
    return OneDevice(copy, note)


def _note(copies: dict[ir.Operation, int], devices: Devices) -> str:
    apart = Counter(operation.name for operation, times in copies.items() if times > 1)
    each = [f"{name} {times}" for name, times in apart.most_common(_SHOWN)]
    more = ["..."] if len(apart) > _SHOWN else []
    text = (
        f"the program is for {devices.count} devices, and the model computes what all of them"
        f" compute: {len(copies) - apart.total()} ops once"
    )
    if apart:
        text += f", and {apart.total()} for several devices ({', '.join(each + more)})"
    same = "; all replicas get the same inputs" if devices.replicas > 1 else ""
    return text + same


def _too_many(module: ir.Operation, function: ir.Operation, count: int, limit: int) -> Refusal:
    why = (
        f"the program is for {count} devices, and the limit is {limit}: the model would have"
        f" up to {count * len(operations_of(module)):,} ops"
    )
    advice = f"pass devices={count}, or lower the function for a smaller mesh"
    return _refusal(function, why, advice)


def _apart(function: ir.Operation, count: int) -> Refusal:
    error = unsupported("results per device", f"{count} devices")
    return _refusal(function, error.why, error.next)


def _refusal(function: ir.Operation, why: str, advice: str) -> Refusal:
    where = str(origin_of(function.location))
    return Refusal("func.func", str(function_type(function)), where, why, advice)

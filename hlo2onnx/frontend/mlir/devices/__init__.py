"""Rewrites a program for several devices to one for one device, from StableHLO to StableHLO.

All devices run in lockstep (`lockstep`). Collectives become slices, concatenations and sums
(`exchanges`). Which devices exchange data, and which shard is whose, is read from the mesh
(`meshes`), in programs of Shardy, of GSPMD and of `jax.pmap`.
"""

from __future__ import annotations

import math
from collections import Counter

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.devices.lockstep import (
    APART,
    MANUAL,
    TO_SHARD,
    Lockstep,
    key_of,
    refusal_of,
)
from hlo2onnx.frontend.mlir.devices.meshes import Devices
from hlo2onnx.frontend.mlir.devices.per_device import same
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.values import operations_in, operations_of, return_from
from hlo2onnx.limitations import unsupported

_SHOWN = 4
"""Count of the kinds of ops that a note names."""


def devices_of(module: ir.Operation, symbol: str) -> Devices | None:
    """The devices that a function needs, if it is for several ones that are not alike; else None.

    A program that only carries shardings computes the same on any number of devices.
    """
    devices = Devices(module)
    if devices.count == 1 or not Lockstep(module, devices).calls(symbol, APART):
        return None
    return devices if _kinds(module, devices) > 1 else None


def _kinds(module: ir.Operation, devices: Devices) -> int:
    """Count of the devices that may have different values: those along manual axes."""
    operations = operations_of(module)
    manual = [operation for operation in operations if operation.name == MANUAL]
    if not manual or any(key_of(operation) == TO_SHARD for operation in operations):
        return devices.count
    axes = {axis for each in manual for axis in sdy.ManualAxesAttr(each.attributes["manual_axes"])}
    return math.prod(devices.axes[axis] for axis in axes)


def on_one_device(module: ir.Operation, symbol: str, limit: int) -> tuple[ir.Operation, str]:
    """The program for one device that computes what all devices compute together.

    Args:
        module: The module. It does not change.
        symbol: The function to rewrite.
        limit: How often an op may be made that has no form for several devices.

    Returns:
        The module, and what the user should know; "" if it is the given one.

    Raises:
        TranslationError: An op cannot be rewritten, or not within the limit.
    """
    devices = devices_of(module, symbol)
    if devices is None:
        return module, ""
    copy = clone_module(module)
    functions = functions_of(copy)
    lockstep = Lockstep(copy, devices, limit)
    unused = [name for name in functions if name != symbol and lockstep.calls(name, APART)]
    (block,) = functions[symbol].regions[0].blocks
    *body, last = operations_in(block)
    with copy.context, ir.InsertionPoint(last):
        results = lockstep.block(block, {x: same(x, devices.count) for x in block.arguments})
    if any(x.count > 1 for x in results):
        error = unsupported("results per device", f"{devices.count} devices")
        raise TranslationError([refusal_of(last, error)])
    return_from(block, [x.tensors[0] for x in results])
    note = _note(lockstep, devices)
    for operation in [*reversed(body), *map(functions.__getitem__, unused)]:
        operation.erase()
    for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
        if name in copy.attributes:
            del copy.attributes[name]
    return copy, note


def _note(lockstep: Lockstep, devices: Devices) -> str:
    copies = lockstep.copies
    apart = Counter(operation.name for operation, times in copies.items() if times > 1)
    each = ", ".join(f"{name} {times}" for name, times in apart.most_common(_SHOWN))
    more = ", ..." if len(apart) > _SHOWN else ""
    one_by_one = f", and {apart.total()} one device after another ({each}{more})" if apart else ""
    same = "; all replicas get the same inputs" if devices.replicas > 1 else ""
    return (
        f"the program is for {devices.count} devices, and the model computes what all of them"
        f" compute: {len(copies) - apart.total()} ops for all devices alike,"
        f" {len(lockstep.stacked)} with an axis of devices{one_by_one}{same}"
    )

"""Where a program says how it is spread over devices."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

SHARDINGS = frozenset({"mhlo.sharding", "sdy.sharding", "sdy.sharding_per_value"})
"""Attributes that place a value on devices and change nothing else."""


def boundary_attributes(function: Any) -> set[str]:
    """Names of the attributes on the arguments and results of a `func.func`."""
    present = _names(function.attributes)
    entries = [
        entry
        for where in ("arg_attrs", "res_attrs")
        if where in present
        for entry in function.attributes[where]
    ]
    return {name for entry in entries for name in _names(entry)}


def is_of_no_axes(operation: Any) -> bool:
    """Whether an op has a sharding, and that one names no mesh axis, so that it says nothing: JAX
    puts such a constraint on the words of typed PRNG keys."""
    if "sharding" not in _names(operation.attributes):
        return False
    sharding = sdy.TensorShardingAttr(operation.attributes["sharding"])
    axes = [sdy.DimensionShardingAttr(item).axes for item in sharding.dimension_shardings]
    return not any([*axes, sharding.replicated_axes, sharding.unreduced_axes])


def manual_axes(operation: Any) -> dict[str, int]:
    """Mesh axes that an `sdy.manual_computation` runs over by hand, with their sizes."""
    sizes = _mesh_axes(operation)
    return {
        axis: sizes[axis]
        for axis in sdy.ManualAxesAttr(operation.attributes["manual_axes"])
        if axis in sizes
    }


def _mesh_axes(operation: Any) -> dict[str, int]:
    """The axes of the one mesh that the op's operands and results are sharded over; empty when
    it has neither."""
    for where in ("in_shardings", "out_shardings"):
        for sharding in sdy.TensorShardingPerValueAttr(operation.attributes[where]).shardings:
            mesh = sdy.TensorShardingAttr(sharding).mesh_or_ref
            if isinstance(mesh, ir.FlatSymbolRefAttr):
                mesh = _symbol(operation, mesh.value).attributes["mesh"]
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)
            return {axis.name: axis.size for axis in axes}
    return {}


def _symbol(operation: Any, name: str) -> Any:
    """An op of the enclosing module by its symbol; the verifier has made sure that it is there."""
    return next(
        item.operation
        for item in _root(operation).regions[0].blocks[0].operations
        if "sym_name" in _names(item.operation.attributes)
        and item.operation.attributes["sym_name"].value == name
    )


def _names(attributes: Any) -> list[str]:
    return [item if isinstance(item, str) else item.name for item in attributes]


def device_count(operation: Any) -> int:
    """How many devices run the module that an operation stands in, each on data of its own."""
    module = _root(operation)
    present = _names(module.attributes)
    counts = (
        module.attributes[name].value
        for name in ("mhlo.num_replicas", "mhlo.num_partitions")
        if name in present
    )
    return math.prod(counts)


def largest_group(operation: Any) -> int:
    """The number of devices in the largest of a collective's `replica_groups`; all there are
    where it lists no groups."""
    groups = operation.attributes["replica_groups"]
    if isinstance(groups, ir.DenseElementsAttr):
        members = np.array(groups)
        sizes = (members >= 0).sum(-1) if members.ndim == 2 else np.zeros(0, int)
        return int(sizes.max()) if sizes.size else device_count(operation)
    return math.prod(_group_axes(operation, str(groups)))


_AXIS = re.compile(r'<name = "([^"]*)", size = (\d+)>')
_AXIS_REF = re.compile(r'axis_ref<name = "([^"]*)"(?:, sub_axis_info = \(\d+\)(\d+))?>')
_MESH_NAME = re.compile(r"mesh = @(\w+)")


def _group_axes(operation: Any, groups: str) -> list[int]:
    """Sizes of the mesh axes that span a group, from the text of a
    `#stablehlo.replica_group_mesh_axes`; the bindings crash on an axis without sub-axes."""
    if name := _MESH_NAME.search(groups):
        mesh = sdy.MeshAttr(_symbol(operation, name[1]).attributes["mesh"])
        sizes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
    else:
        sizes = {axis: int(size) for axis, size in _AXIS.findall(groups)}
    return [int(part or sizes[axis]) for axis, part in _AXIS_REF.findall(groups)]


def _root(operation: Any) -> Any:
    while operation.name != "builtin.module":
        operation = operation.parent.operation
    return operation

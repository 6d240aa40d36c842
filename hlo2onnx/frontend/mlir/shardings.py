"""Reads the shardings of a program: its distribution over devices."""

from __future__ import annotations

import math
import re

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.values import module_of

SHARDINGS = frozenset({"mhlo.sharding", "sdy.sharding", "sdy.sharding_per_value"})
"""Attributes that place a value on devices and change nothing else."""


def boundary_attributes(function: ir.Operation) -> set[str]:
    """Names of the attributes on the arguments and results of a `func.func`."""
    return {
        name
        for where in ("arg_attrs", "res_attrs")
        if where in function.attributes
        for entry in ir.ArrayAttr(function.attributes[where])
        for name in keys_of(ir.DictAttr(entry))
    }


def is_of_no_axes(operation: ir.Operation) -> bool:
    """Whether an op has a sharding without mesh axes. JAX puts one on the words of PRNG keys."""
    if "sharding" not in operation.attributes:
        return False
    sharding = sdy.TensorShardingAttr(operation.attributes["sharding"])
    axes = [sdy.DimensionShardingAttr(item).axes for item in sharding.dimension_shardings]
    return not any([*axes, sharding.replicated_axes, sharding.unreduced_axes])


def manual_axes(operation: ir.Operation) -> dict[str, int]:
    """The manual mesh axes of an `sdy.manual_computation`, with their sizes."""
    sizes = _mesh_axes(operation)
    return {
        axis: sizes[axis]
        for axis in sdy.ManualAxesAttr(operation.attributes["manual_axes"])
        if axis in sizes
    }


def _mesh_axes(operation: ir.Operation) -> dict[str, int]:
    """The axes of the mesh of the op's operands and results; empty if it has neither."""
    for where in ("in_shardings", "out_shardings"):
        for sharding in sdy.TensorShardingPerValueAttr(operation.attributes[where]).shardings:
            mesh = sdy.TensorShardingAttr(sharding).mesh_or_ref
            if isinstance(mesh, ir.FlatSymbolRefAttr):
                mesh = _symbol(operation, mesh.value).attributes["mesh"]
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)
            return {axis.name: axis.size for axis in axes}
    return {}


def _symbol(operation: ir.Operation, name: str) -> ir.OpView:
    """An op of the module by its symbol. The verifier has checked that it exists."""
    return ir.SymbolTable(module_of(operation))[name]


def device_count(operation: ir.Operation) -> int:
    """The count of devices that run the module of an operation."""
    attributes = module_of(operation).attributes
    return math.prod(
        int(to_python(attributes[name]))
        for name in ("mhlo.num_replicas", "mhlo.num_partitions")
        if name in attributes
    )


def largest_group(operation: ir.Operation) -> int:
    """The count of devices in the largest of a collective's `replica_groups`; all if none."""
    groups = operation.attributes["replica_groups"]
    if isinstance(groups, ir.DenseElementsAttr):
        members = np.array(groups)
        sizes = (members >= 0).sum(-1) if members.ndim == 2 else np.zeros(0, int)
        return int(sizes.max()) if sizes.size else device_count(operation)
    return math.prod(_group_axes(operation, str(groups)))


_AXIS = re.compile(r'<name = "([^"]*)", size = (\d+)>')
_AXIS_REF = re.compile(r'axis_ref<name = "([^"]*)"(?:, sub_axis_info = \(\d+\)(\d+))?>')
_MESH_NAME = re.compile(r"mesh = @(\w+)")


def _group_axes(operation: ir.Operation, groups: str) -> list[int]:
    """Sizes of the mesh axes of a group, from the text of a `#stablehlo.replica_group_mesh_axes`.

    The bindings crash on an axis without sub-axes.
    """
    if name := _MESH_NAME.search(groups):
        mesh = sdy.MeshAttr(_symbol(operation, name[1]).attributes["mesh"])
        sizes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
    else:
        sizes = {axis: int(size) for axis, size in _AXIS.findall(groups)}
    return [int(part or sizes[axis]) for axis, part in _AXIS_REF.findall(groups)]

"""Reads the shardings of a program: its distribution over devices."""

from __future__ import annotations

import math
import re

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.frontend.mlir.attributes import keys_of, to_python
from hlo2onnx.frontend.mlir.types import shape_of
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


def replicate(function: ir.Operation) -> None:
    """Lets each device have all arguments and results of a `func.func` whole, in place."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    operations = module_of(function).regions[0].blocks[0].operations
    meshes = [item.attributes["sym_name"].value for item in operations if item.name == "sdy.mesh"]
    with function.context:
        for where, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
            entries = []
            for each in types:
                free = ", ".join(["{}"] * len(shape_of(each)))
                sharding = f"#sdy.sharding<@{meshes[0]}, [{free}]>" if meshes else '"{replicated}"'
                name = "sdy.sharding" if meshes else "mhlo.sharding"
                entries.append(ir.DictAttr.get({name: ir.Attribute.parse(sharding)}))
            function.attributes[where] = ir.ArrayAttr.get(entries)


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
            return mesh_axes(mesh)
    return {}


def mesh_axes(mesh: ir.Attribute) -> dict[str, int]:
    """The sizes of the axes of an `#sdy.mesh`."""
    return {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)}


def _symbol(operation: ir.Operation, name: str) -> ir.OpView:
    """An op of the module by its symbol. The verifier has checked that it exists."""
    return ir.SymbolTable(module_of(operation))[name]


def device_count(operation: ir.Operation) -> int:
    """The count of devices that run the module of an operation."""
    module = module_of(operation)
    return count_of(module, "mhlo.num_replicas") * count_of(module, "mhlo.num_partitions")


def count_of(module: ir.Operation, name: str) -> int:
    """The integer in an attribute of a module; 1 without it."""
    return int(to_python(module.attributes[name])) if name in module.attributes else 1


def largest_group(operation: ir.Operation) -> int:
    """The count of devices in the largest of a collective's `replica_groups`; all if none."""
    groups = operation.attributes["replica_groups"]
    if isinstance(groups, ir.DenseElementsAttr):
        members = np.array(groups)
        sizes = (members >= 0).sum(-1) if members.ndim == 2 else np.zeros(0, int)
        return int(sizes.max()) if sizes.size else device_count(operation)
    return math.prod(_group_axes(operation, str(groups)))


AXIS_OF_MESH = re.compile(r'<name = "([^"]*)", size = (\d+)>')
AXIS_OF_GROUP = re.compile(r'axis_ref<name = "([^"]*)"(?:, sub_axis_info = \((\d+)\)(\d+))?>')
MESH_NAME = re.compile(r"mesh = @(\w+)")
"""The parts of a `#stablehlo.replica_group_mesh_axes`: a mesh, and axes or parts of axes."""


def _group_axes(operation: ir.Operation, groups: str) -> list[int]:
    """Sizes of the mesh axes of a group, from the text of a `#stablehlo.replica_group_mesh_axes`.

    The bindings crash on an axis without sub-axes.
    """
    if name := MESH_NAME.search(groups):
        sizes = mesh_axes(_symbol(operation, name[1]).attributes["mesh"])
    else:
        sizes = {axis: int(size) for axis, size in AXIS_OF_MESH.findall(groups)}
    return [int(part or sizes[axis]) for axis, _, part in AXIS_OF_GROUP.findall(groups)]

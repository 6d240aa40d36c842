"""Reads the shardings of a program: its distribution over devices."""

from __future__ import annotations

import re

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


def mesh_axes(mesh: ir.Attribute) -> dict[str, int]:
    """The sizes of the axes of an `#sdy.mesh`."""
    return {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh).axes)}


def count_of(module: ir.Operation, name: str) -> int:
    """The integer in an attribute of a module; 1 without it."""
    return int(to_python(module.attributes[name])) if name in module.attributes else 1


AXIS_OF_MESH = re.compile(r'<name = "([^"]*)", size = (\d+)>')
AXIS_OF_GROUP = re.compile(r'axis_ref<name = "([^"]*)"(?:, sub_axis_info = \((\d+)\)(\d+))?')
MESH_NAME = re.compile(r"mesh = @(\w+)")
CHANNEL = re.compile(r"handle = (\d+)")
"""Parts of attributes of collectives. The bindings crash on a mesh axis without sub-axes."""

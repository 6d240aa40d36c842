"""Where a program says how it is spread over devices."""

from __future__ import annotations

from typing import Any

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
    module = operation
    while module.name != "builtin.module":
        module = module.parent.operation
    return next(
        item.operation
        for item in module.regions[0].blocks[0].operations
        if "sym_name" in _names(item.operation.attributes)
        and item.operation.attributes["sym_name"].value == name
    )


def _names(attributes: Any) -> list[str]:
    return [item if isinstance(item, str) else item.name for item in attributes]

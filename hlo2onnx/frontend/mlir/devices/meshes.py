"""The devices of a program: how many, which exchange data, and which has which shard."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.shardings import (
    AXIS_OF_GROUP,
    AXIS_OF_MESH,
    MESH_NAME,
    count_of,
    mesh_axes,
)
from hlo2onnx.frontend.mlir.values import operations_in
from hlo2onnx.limitations import unsupported


@dataclass(frozen=True)
class Mesh:
    """A mesh of devices.

    Attributes:
        sizes: The sizes of its axes by their names.
        numbers: The numbers of its devices. The shape is that of the mesh.
    """

    sizes: Mapping[str, int]
    numbers: np.ndarray

    def places(self) -> dict[int, dict[str, int]]:
        """The coordinates of each device."""
        return {
            int(self.numbers[index]): dict(zip(self.sizes, index, strict=True))
            for index in np.ndindex(self.numbers.shape)
        }


class Shards(NamedTuple):
    """How a tensor is cut into the shards of devices.

    Attributes:
        counts: Count of the shards along each axis of the tensor.
        places: For each device, the index of its shard along each axis.
        families: For each device, its coordinates along mesh axes that are not manual here. Devices
            of one family have the shards of one tensor.
    """

    counts: Sequence[int]
    places: Sequence[tuple[int, ...]]
    families: Sequence[tuple[object, ...]]


class Devices:
    """The devices of a module. Their numbers are those of `use_global_device_ids`.

    Attributes:
        replicas, partitions: Their counts. Device `replica * partitions + partition` has both.
        count: Count of all devices.
    """

    def __init__(self, module: ir.Operation) -> None:
        self._meshes = {
            text_of(item, "sym_name"): _mesh(sdy.MeshAttr(item.attributes["mesh"]))
            for item in operations_in(module.regions[0].blocks[0])
            if item.name == "sdy.mesh"
        }
        self.replicas = count_of(module, "mhlo.num_replicas")
        self.partitions = count_of(module, "mhlo.num_partitions")
        if self.replicas * self.partitions == 1:  # of an abstract mesh
            sizes = [mesh.numbers.size for mesh in self._meshes.values()]
            self.partitions = max([1, *sizes])
        self.count = self.replicas * self.partitions

    # -- groups -----------------------------------------------------------------------------------

    def groups(self, operation: ir.Operation) -> list[list[int]]:
        """The devices that exchange data in a collective, in the order of their data."""
        attribute = operation.attributes["replica_groups"]
        if not isinstance(attribute, ir.DenseElementsAttr):
            return self._along_axes(str(attribute))
        table = np.array(attribute)
        rows = [[int(x) for x in row if x >= 0] for row in table] if table.size else []
        if "use_global_device_ids" in operation.attributes:
            return rows or [list(range(self.count))]
        if operation.name in _BETWEEN_PARTITIONS:
            return self._expanded(rows, _has_channel(operation))
        replicas = rows or [list(range(self.replicas))]
        if not _has_channel(operation):
            return self._expanded(replicas, False)
        every = range(self.partitions)
        return [[self._number(r, p) for p in every for r in row] for row in replicas]

    def pairs(self, operation: ir.Operation) -> list[tuple[int, int]]:
        """The sender and the receiver of each transfer of a `collective_permute`."""
        table = to_python(operation.attributes["source_target_pairs"]).reshape(-1, 2).tolist()
        expanded = self._expanded(table, _has_channel(operation)) if table else []
        return [(source, target) for source, target in expanded]

    def _number(self, replica: int, partition: int) -> int:
        return replica * self.partitions + partition

    def _expanded(self, rows: list[list[int]], are_partitions: bool) -> list[list[int]]:
        """Rows of partitions in each replica, or of replicas in each partition."""
        if are_partitions:
            rows = rows or [list(range(self.partitions))]
            return [[self._number(r, p) for p in row] for row in rows for r in range(self.replicas)]
        rows = rows or [list(range(self.replicas))]
        return [[self._number(r, p) for r in row] for row in rows for p in range(self.partitions)]

    def _along_axes(self, text: str) -> list[list[int]]:
        """The groups of a `#stablehlo.replica_group_mesh_axes`: each varies these axes alone."""
        named = MESH_NAME.search(text)
        if named:
            mesh = self._meshes[named[1]]
        else:
            sizes = {axis: int(size) for axis, size in AXIS_OF_MESH.findall(text)}
            mesh = Mesh(sizes, _in_order(list(sizes.values())))
        shape: list[int] = []
        labels: list[tuple[str, int]] = []
        axes = [(name, int(pre or 1), size) for name, pre, size in AXIS_OF_GROUP.findall(text)]
        for name, size in mesh.sizes.items():
            cuts = {1, size}
            for axis, pre, part in axes:
                if axis == name and part:
                    cuts |= {pre, pre * int(part)}
            for start, end in zip(sorted(cuts), sorted(cuts)[1:], strict=False):
                labels.append((name, start))
                shape.append(end // start)
        chosen = [
            place
            for name, pre, part in axes
            for place, (axis, start) in enumerate(labels)
            if axis == name and pre <= start and (not part or start < pre * int(part))
        ]
        rest = [place for place in range(len(shape)) if place not in chosen]
        size = math.prod(shape[place] for place in chosen)
        table = mesh.numbers.reshape(shape).transpose(rest + chosen).reshape(-1, size)
        return [[int(x) for x in row] for row in table]

    # -- shards -----------------------------------------------------------------------------------

    def shardy(self, sharding: ir.Attribute, manual: Sequence[str]) -> Shards:
        """The shards of an `sdy.manual_computation` along its manual axes."""
        given = sdy.TensorShardingAttr(sharding)
        mesh = self._mesh_of(given.mesh_or_ref)
        axes = [_names(dimension, manual) for dimension in given.dimension_shardings]
        sizes = mesh.sizes
        counts = [math.prod(sizes[name] for name in names) for names in axes]
        places, families = [], []
        coordinates = mesh.places()
        for device in range(self.count):
            at = coordinates[device]
            places.append(tuple(_ravelled(at, names, sizes) for names in axes))
            families.append(tuple(at[name] for name in sizes if name not in manual))
        return Shards(counts, places, families)

    def _mesh_of(self, mesh: ir.Attribute) -> Mesh:
        if isinstance(mesh, ir.FlatSymbolRefAttr):
            found = self._meshes[mesh.value]
        else:
            found = _mesh(sdy.MeshAttr(mesh))
        if found.numbers.size != self.count:
            what = f"a mesh of {found.numbers.size} in a program for {self.count} devices"
            raise unsupported("groups", what)
        return found

    def gspmd(self, text: str, rank: int) -> Shards:
        """The shards of a sharding of XLA, such as "{devices=[2,1,4]<=[8] last_tile_dims=...}"."""
        found = _TILES.search(text)
        if found is None:
            return Shards([1] * rank, [(0,) * rank] * self.count, [()] * self.count)
        tiles = _integers(found["tiles"])
        if found["list"]:
            numbers = np.array(_integers(found["list"]))
        else:
            numbers = _in_order(_integers(found["order"]))
            if found["axes"]:
                numbers = numbers.transpose(_integers(found["axes"]))
        if numbers.size != self.count:
            what = f"a sharding of {numbers.size} in a program for {self.count} devices"
            raise unsupported("groups", what)
        kinds = _LAST.search(text)
        last = [kind.strip() for kind in kinds[1].split(",")] if kinds else []
        manual = [len(tiles) - len(last) + i for i, kind in enumerate(last) if kind == "manual"]
        where = {int(x): index for index, x in np.ndenumerate(numbers.reshape(tiles))}
        places = [where[device][:rank] for device in range(self.count)]
        families = [tuple(where[device][axis] for axis in manual) for device in range(self.count)]
        return Shards(tiles[:rank], places, families)


_BETWEEN_PARTITIONS = frozenset({"stablehlo.all_to_all", "stablehlo.collective_broadcast"})
"""Collectives whose groups, with a channel, are of partitions. Those of others are of replicas."""
_TILES = re.compile(
    r"devices=\[(?P<tiles>[\d,]+)\]"
    r"(?:<=\[(?P<order>[\d,]+)\](?:T\((?P<axes>[\d,]+)\))?|(?P<list>[\d,]+))"
)
_LAST = re.compile(r"last_tile_dims=\{([^}]*)\}")
_CHANNEL = re.compile(r"handle = (\d+)")


def _integers(text: str) -> list[int]:
    return [int(item) for item in text.split(",")]


def _in_order(shape: Sequence[int]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _mesh(attribute: Any) -> Mesh:
    sizes = mesh_axes(attribute)
    numbers = _in_order(list(sizes.values()))
    if given := list(attribute.device_ids):
        numbers = np.array(given).reshape(numbers.shape)
    return Mesh(sizes, numbers)


def _has_channel(operation: ir.Operation) -> bool:
    if "channel_handle" not in operation.attributes:
        return False
    found = _CHANNEL.search(str(operation.attributes["channel_handle"]))
    return found is not None and int(found[1]) > 0


def _names(dimension: ir.Attribute, manual: Sequence[str]) -> list[str]:
    """The manual mesh axes that split an axis of a tensor, the outermost first."""
    axes = [sdy.AxisRefAttr(axis) for axis in sdy.DimensionShardingAttr(dimension).axes]
    found = [axis for axis in axes if axis.name in manual]
    if any(axis.sub_axis_info is not None for axis in found):
        raise UnsupportedOp("a manual mesh axis is split further")
    return [axis.name for axis in found]


def _ravelled(at: Mapping[str, int], names: Sequence[str], sizes: Mapping[str, int]) -> int:
    index = 0
    for name in names:
        index = index * sizes[name] + at[name]
    return index

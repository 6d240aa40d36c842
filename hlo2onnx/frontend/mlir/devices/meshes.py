"""The devices of a program: how many, which exchange data, and which has which shard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.shardings import (
    AXIS_OF_GROUP,
    AXIS_OF_MESH,
    CHANNEL,
    MESH_NAME,
    count_of,
    mesh_axes,
)
from hlo2onnx.frontend.mlir.values import operations_in
from hlo2onnx.limitations import unsupported


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
    families: Sequence[tuple[int, ...]]


class Devices:
    """The devices of a module. Their numbers are those of `use_global_device_ids`.

    Attributes:
        replicas, partitions: Their counts. Device `replica * partitions + partition` has both.
        count: Count of all devices.
        axes: The sizes of the axes of all meshes.
    """

    def __init__(self, module: ir.Operation) -> None:
        self._meshes = {
            text_of(item, "sym_name"): item.attributes["mesh"]
            for item in operations_in(module.regions[0].blocks[0])
            if item.name == "sdy.mesh"
        }
        self.axes = {k: n for mesh in self._meshes.values() for k, n in mesh_axes(mesh).items()}
        self.replicas = count_of(module, "mhlo.num_replicas")
        self.partitions = count_of(module, "mhlo.num_partitions")
        if self.replicas * self.partitions == 1:  # of an abstract mesh
            sizes = [_numbers(mesh).size for mesh in self._meshes.values()]
            self.partitions = max([1, *sizes])
        self.count = self.replicas * self.partitions

    # -- groups -----------------------------------------------------------------------------------

    def groups(self, operation: ir.Operation) -> list[list[int]]:
        """The devices that exchange data in a collective, in the order of their data."""
        attribute = operation.attributes["replica_groups"]
        if not isinstance(attribute, ir.DenseElementsAttr):
            return _within(self.count, self._along_axes(str(attribute)))
        table = np.array(attribute)
        rows = [[int(x) for x in row if x >= 0] for row in table] if table.size else []
        if "use_global_device_ids" in operation.attributes:
            return _within(self.count, rows or [list(range(self.count))])
        if operation.name in _BETWEEN_PARTITIONS or not _has_channel(operation):
            return self._expanded(operation, rows)
        numbers = np.arange(self.count).reshape(self.replicas, self.partitions)
        rows = _within(self.replicas, rows or [list(range(self.replicas))])
        return [numbers[row].T.ravel().tolist() for row in rows]

    def pairs(self, operation: ir.Operation) -> list[list[int]]:
        """The sender and the receiver of each transfer of a `collective_permute`."""
        table = to_python(operation.attributes["source_target_pairs"]).reshape(-1, 2).tolist()
        return self._expanded(operation, table) if table else []

    def _expanded(self, operation: ir.Operation, rows: list[list[int]]) -> list[list[int]]:
        """Rows of partitions in each replica, or of replicas in each partition; all by default."""
        numbers = np.arange(self.count).reshape(self.replicas, self.partitions)
        lines = numbers if _has_channel(operation) else numbers.T
        rows = _within(lines.shape[1], rows or [list(range(lines.shape[1]))])
        return [line[row].tolist() for row in rows for line in lines]

    def _along_axes(self, text: str) -> list[list[int]]:
        """The groups of a `#stablehlo.replica_group_mesh_axes`: each varies these axes alone."""
        named = MESH_NAME.search(text)
        if named:
            sizes, numbers = mesh_axes(self._meshes[named[1]]), _numbers(self._meshes[named[1]])
        else:
            sizes = {axis: int(size) for axis, size in AXIS_OF_MESH.findall(text)}
            numbers = _in_order(list(sizes.values()))
        # An axis of size n is "()n". Its part (p)s has p larger and n / p / s smaller steps around.
        parts = [
            (name, int(before or 1), int(before or 1) * int(size or sizes[name]))
            for name, before, size in AXIS_OF_GROUP.findall(text)
        ]
        cuts = {
            name: sorted({1, size}.union(*(x[1:] for x in parts if x[0] == name)))
            for name, size in sizes.items()
        }
        pieces = [(name, first, last) for name in sizes for first, last in pairwise(cuts[name])]
        axes = [
            place
            for name, first, last in parts
            for place, (own, begin, _) in enumerate(pieces)
            if own == name and first <= begin < last
        ]
        numbers = numbers.reshape([last // first for _, first, last in pieces])
        rest = [axis for axis in range(numbers.ndim) if axis not in axes]
        size = math.prod(numbers.shape[axis] for axis in axes)
        table: list[list[int]] = numbers.transpose(rest + axes).reshape(-1, size).tolist()
        return table

    # -- shards -----------------------------------------------------------------------------------

    def shardy(self, sharding: ir.Attribute, manual: Sequence[str]) -> Shards:
        """The shards of an `sdy.manual_computation` along its manual axes."""
        given = sdy.TensorShardingAttr(sharding)
        mesh = given.mesh_or_ref
        if isinstance(mesh, ir.FlatSymbolRefAttr):
            mesh = self._meshes[mesh.value]
        sizes, numbers = mesh_axes(mesh), self._fitting(_numbers(mesh))
        order = np.argsort(numbers, axis=None)
        grids = np.indices(numbers.shape).reshape(len(sizes), -1)
        at = {name: grid[order] for name, grid in zip(sizes, grids, strict=True)}
        counts, places = [], []
        for dimension in given.dimension_shardings:
            count, place = 1, np.zeros(self.count, int)
            for axis in map(sdy.AxisRefAttr, sdy.DimensionShardingAttr(dimension).axes):
                if axis.name not in manual:
                    continue
                before, size = _part_of(axis) or (1, sizes[axis.name])
                count *= size
                place = place * size + at[axis.name] * before * size // sizes[axis.name] % size
            counts.append(count)
            places.append(place)
        others = [at[name] for name in sizes if name not in manual]
        return Shards(counts, self._each(places), self._each(others))

    def gspmd(self, text: str, rank: int) -> Shards:
        """The shards of a sharding of XLA, such as "{devices=[2,1,4]<=[8] last_tile_dims=...}"."""
        sharding = xla_client.HloSharding.from_string(text or "{replicated}")
        if not sharding.is_tiled():
            return Shards([1] * rank, [(0,) * rank] * self.count, [()] * self.count)
        tiles = sharding.tile_assignment_dimensions()
        numbers = self._fitting(np.array(sharding.tile_assignment_devices()))
        grids = np.indices(tiles).reshape(len(tiles), -1)[:, np.argsort(numbers)]
        kinds = sharding.subgroup_types()
        manual = [
            grid
            for grid, kind in zip(grids[len(tiles) - len(kinds) :], kinds, strict=True)
            if kind == xla_client.OpSharding.Type.MANUAL
        ]
        return Shards(tiles[:rank], self._each(list(grids[:rank])), self._each(manual))

    def _each(self, columns: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
        """For each device, its integers in several arrays."""
        return [tuple(int(column[device]) for column in columns) for device in range(self.count)]

    def _fitting(self, numbers: np.ndarray) -> np.ndarray:
        if numbers.size != self.count:
            raise unsupported("groups", f"{numbers.size} devices in a program for {self.count}")
        return numbers


_BETWEEN_PARTITIONS = frozenset({"stablehlo.all_to_all", "stablehlo.collective_broadcast"})
"""Collectives whose groups, with a channel, are of partitions. Those of others are of replicas."""


def _within(count: int, groups: list[list[int]]) -> list[list[int]]:
    if (last := max(map(max, groups))) >= count:
        raise unsupported("groups", f"one has number {last}, and there are {count}")
    return groups


def _in_order(shape: Sequence[int]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _numbers(mesh: ir.Attribute) -> np.ndarray:
    """The numbers of the devices of a mesh, in its shape."""
    numbers = _in_order(list(mesh_axes(mesh).values()))
    given = list(sdy.MeshAttr(mesh).device_ids)
    return np.array(given).reshape(numbers.shape) if given else numbers


def _part_of(axis: sdy.AxisRefAttr) -> tuple[int, int] | None:
    """How large the larger steps are before the part of an axis, and the part; None if it is
    whole."""
    if axis.sub_axis_info is None:
        return None
    info = sdy.SubAxisInfoAttr(axis.sub_axis_info)
    return info.pre_size, info.size


def _has_channel(operation: ir.Operation) -> bool:
    if "channel_handle" not in operation.attributes:
        return False
    found = CHANNEL.search(str(operation.attributes["channel_handle"]))
    return found is not None and int(found[1]) > 0

"""The values that a tensor of the program has on its devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlo2onnx.frontend.mlir.devices.tensors import (
    broadcast,
    extents,
    in_place,
    joined,
    picked,
    pieces_of,
    rearranged,
    with_axis,
    with_zeros,
)
from hlo2onnx.frontend.mlir.values import MlirValue

Rows = tuple[int, ...]
"""For each device, the number of its value. Numbers begin at 0, and none is left out."""


@dataclass(frozen=True)
class PerDevice:
    """A value on each device.

    Attributes:
        rows: The number of each device's value.
        tensors: The values by number; or one tensor, that has them along a leading axis.
        is_stacked: Whether it is the latter. A value that all devices share is not.
    """

    rows: Rows
    tensors: tuple[MlirValue, ...]
    is_stacked: bool = False

    @property
    def count(self) -> int:
        """How many values there are."""
        return max(self.rows) + 1

    def of(self, place: int) -> MlirValue:
        """The value of one device."""
        if not self.is_stacked:
            return self.tensors[self.rows[place]]
        row = picked(self.tensors[0], [self.rows[place]])
        return stacked(row, [0]).tensors[0]

    def by(self, rows: Rows) -> MlirValue:
        """The values along a leading axis, in the order of other rows that tell as many or more
        devices apart; without that axis if it is one value."""
        if max(rows) == 0:
            return self.tensors[0]
        return self.of_all(first_places(rows))

    def of_all(self, places: Sequence[int | None]) -> MlirValue:
        """The values of some devices along a leading axis, with zeros for None."""
        rows = [self.count if place is None else self.rows[place] for place in places]
        if not self.is_stacked and self.count == 1 and None not in places:
            (x,) = self.tensors
            sizes = extents(x)
            return broadcast(x, [len(rows), *sizes], range(1, len(sizes) + 1))
        whole = self.tensors[0] if self.is_stacked else joined([*map(with_axis, self.tensors)], 0)
        return picked(with_zeros(whole) if None in places else whole, rows)


def same(x: MlirValue, count: int) -> PerDevice:
    """A value that so many devices share."""
    return PerDevice((0,) * count, (x,))


def stacked(x: MlirValue, rows: Sequence[int]) -> PerDevice:
    """A tensor with values along its leading axis, of which each device has that of its row."""
    found = joint([tuple(rows)])
    used = [rows[place] for place in first_places(found)]
    x = picked(x, used)
    if len(used) > 1:
        return PerDevice(found, (x,), is_stacked=True)
    pieces = pieces_of(x)[1:]
    return PerDevice(found, (rearranged(x, [[], *pieces], in_place(pieces)),))


def joint(every: Sequence[Rows]) -> Rows:
    """Rows that tell devices apart where any of these do: those of one of them if it does."""
    keys = list(zip(*every, strict=True))
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    for rows in every:
        if max(rows) + 1 == len(set(rows)) == len(numbers):
            return rows
    return tuple(numbers[key] for key in keys)


def first_places(rows: Rows) -> list[int]:
    """The first device of each row."""
    return [rows.index(row) for row in range(max(rows) + 1)]

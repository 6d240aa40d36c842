"""How what is computed of single rows can be computed of all of them at once.

Rows that are joined are lanes of one tensor. Lanes that do the same become one operator; a lane
that does less is given what it lacks as an operation that changes nothing: x - 0, x + -0, x * 1,
each of which is x for every float, NaN, infinities and zeros of both signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_of

MOST_PLANS = 2000
"""Groups of lanes looked at before the search is given up: a limit on its time, no cost."""

CONSTANT_ROW_COST = 0.1
"""What a further row adds to a plan's nodes: of two plans with as many, the narrower is taken, on
any runtime."""

RowOf = Callable[[oir.Value], tuple[oir.Value, int] | None]
"""The tensor that a value is a row of, and which one."""


@dataclass(frozen=True)
class Negated:
    """A row to be multiplied by -1."""

    row: oir.Value


Number = float
Lane = oir.Value | Negated | Number


@dataclass(frozen=True)
class Numbers:
    """Lanes of constants."""

    lanes: tuple[Number, ...]


@dataclass(frozen=True)
class Rows:
    """Lanes that are rows of one tensor, by their places, or constants."""

    source: oir.Value
    lanes: tuple[int | Number, ...]

    @property
    def numbers(self) -> list[Number]:
        """The constants among them."""
        return [lane for lane in self.lanes if isinstance(lane, float)]

    @property
    def places(self) -> list[int]:
        """The places among them."""
        return [lane for lane in self.lanes if isinstance(lane, int)]

    @property
    def is_whole(self) -> bool:
        """Whether it is the tensor as it is."""
        return self.places == list(range(len(self.lanes)))


@dataclass(frozen=True)
class Applied:
    """Lanes of one operator."""

    op_type: str
    left: Plan
    right: Plan

    @property
    def scales(self) -> bool:
        """Whether all it does is to multiply a tensor by constants."""
        halves = (self.left, self.right)
        return (
            self.op_type == "Mul"
            and any(isinstance(half, Numbers) for half in halves)
            and any(isinstance(half, Rows) and half.is_whole for half in halves)
        )


Plan = Numbers | Rows | Applied


class Planner:
    """Finds how to compute lanes with few operators.

    Args:
        row_of: Tells which values are rows of which tensor.
        is_lane: Whether the maker of a value may be taken into an operator of all lanes.
    """

    def __init__(self, row_of: RowOf, is_lane: Callable[[oir.Node], bool]) -> None:
        self._row_of = row_of
        self._is_lane = is_lane
        self._known: dict[tuple[object, ...], tuple[float, Plan] | None] = {}

    def plan(self, lanes: Sequence[Lane]) -> tuple[float, Plan] | None:
        """The cheapest way and its cost in nodes; None if there is none or the search is long."""
        lanes = tuple(map(_number, lanes))
        key = tuple(map(_key, lanes))
        if key not in self._known:
            if len(self._known) >= MOST_PLANS:
                return None
            self._known[key] = None
            found = self._leaf(lanes)
            ways = [found] if found is not None else list(self._ways(lanes))
            self._known[key] = min(ways, key=lambda way: way[0], default=None)
        return self._known[key]

    def _leaf(self, lanes: tuple[Lane, ...]) -> tuple[float, Plan] | None:
        """Lanes that nothing has to be computed for."""
        numbers = [lane for lane in lanes if isinstance(lane, float)]
        if len(numbers) == len(lanes):
            return 0.0, Numbers(tuple(numbers))
        places: list[int | Number] = []
        sources = set()
        for lane in lanes:
            row = self._row_of(lane) if isinstance(lane, oir.Value) else None
            if row is not None:
                sources.add(row[0])
            elif not isinstance(lane, float):
                return None
            places.append(row[1] if row is not None else lane)  # type: ignore[arg-type]
        if len(sources) != 1:
            return None
        distinct = len(set(map(_key, numbers)))
        return 1 + CONSTANT_ROW_COST * distinct, Rows(sources.pop(), tuple(places))

    def _ways(self, lanes: tuple[Lane, ...]) -> Iterator[tuple[float, Plan]]:
        for op_type, halves in _HALVES.items():
            pairs = [list(halves(lane, self._maker(lane))) for lane in lanes]
            if not any(pairs):
                continue
            idle = _IDLE[op_type]
            choices = [pair or [(lane, idle)] for pair, lane in zip(pairs, lanes, strict=True)]
            if op_type != "Sub":
                choices = [[*each, *((y, x) for x, y in each)] for each in choices]
                choices[0] = choices[0][
                    : len(choices[0]) // 2
                ]  # all the other way round is the same
            for chosen in product(*choices):
                left, right = (self.plan(half) for half in zip(*chosen, strict=True))
                if left is not None and right is not None:
                    applied = Applied(op_type, left[1], right[1])
                    yield left[0] + right[0] + (not applied.scales), applied

    def _maker(self, lane: Lane) -> oir.Node | None:
        node = lane.producer() if isinstance(lane, oir.Value) else None
        return node if node is not None and self._is_lane(node) else None


Halves = Iterator[tuple[Lane, Lane]]


def _differences(lane: Lane, maker: oir.Node | None) -> Halves:
    if maker is not None and maker.op_type == "Sub":
        yield _operands(maker)


def _sums(lane: Lane, maker: oir.Node | None) -> Halves:
    if maker is not None and maker.op_type == "Add":
        yield _operands(maker)
    elif maker is not None and maker.op_type == "Sub":
        left, right = _operands(maker)
        if isinstance(right, float):
            yield left, -right
        elif isinstance(left, float) and isinstance(right, oir.Value):
            yield Negated(right), left


def _products(lane: Lane, maker: oir.Node | None) -> Halves:
    if isinstance(lane, Negated):
        yield lane.row, -1.0
    elif maker is not None and maker.op_type == "Mul":
        yield _operands(maker)
    elif maker is not None and maker.op_type == "Neg":
        yield _number(maker.inputs[0]), -1.0


_HALVES: dict[str, Callable[[Lane, oir.Node | None], Halves]] = {
    "Add": _sums,
    "Mul": _products,
    "Sub": _differences,
}
_IDLE = {"Add": -0.0, "Mul": 1.0, "Sub": 0.0}
"""What changes nothing on the right of an operator."""


def _operands(node: oir.Node) -> tuple[Lane, Lane]:
    left, right = node.inputs
    return _number(left), _number(right)


def _number(lane: Lane | None) -> Lane:
    """A constant of one element as a number: every float of ours is one of f64."""
    assert lane is not None
    array = const_of(lane) if isinstance(lane, oir.Value) else None
    return float(array.item()) if array is not None and array.size == 1 else lane


def _key(lane: Lane) -> object:
    return np.float64(lane).tobytes() if isinstance(lane, float) else lane

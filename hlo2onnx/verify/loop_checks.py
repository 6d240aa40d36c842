"""Compares the values of a loop's body, trip by trip, wherever the model has them.

The model may have the loop. It may also have the trips one after the other, or a value of all trips
as one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hlo2onnx.ir.notes import ARGUMENTS, LATER_TRIPS, STACKED, Path
from hlo2onnx.verify.block_check import BlockCheck
from hlo2onnx.verify.model_graphs import ModelGraphs, Scope, trip_name
from hlo2onnx.verify.points import Point, points_in, scopes_of, trip_of
from hlo2onnx.verify.program_values import Arrays, BlockValues
from hlo2onnx.verify.runners import Start

MANY_TRIPS = 200
"""Up to this many trips of a loop, each one is compared. Of the later ones, those whose number is a
power of two."""


class LoopChecks:
    """The comparisons of one loop.

    Args:
        graphs: The graphs of the model.
        loop: The path of the loop.
        points: The points in its body and condition.
        around: The trips of the loops around it.
        start: Starts a session from a serialized model.
    """

    def __init__(
        self,
        graphs: ModelGraphs,
        loop: Path,
        points: Sequence[Point],
        around: Mapping[Path, int],
        start: Start,
    ) -> None:
        self._graphs = graphs
        self._body = (*loop, 1)
        self._start = start
        self._by_trip: dict[int | str, list[Point]] = {}
        for point in points:
            trip = trip_of(point, loop, around)
            if trip is not None:
                self._by_trip.setdefault(trip, []).append(point)
        self._bodies = self._checks(self._by_trip.get("any", []))
        self._stacks: dict[Path, list[Arrays]] = {}
        self.compared = 0

    def _checks(self, points: Sequence[Point]) -> list[BlockCheck]:
        # The condition of the first trip may be in front of the loop: then no body is beside it.
        of_body = [point for point in points if point.held.path[: len(self._body)] == self._body]
        return [
            BlockCheck(self._graphs, scope, self._body, here, self._start)
            for scope in scopes_of(of_body, self._graphs)
            if (here := points_in(points, self._graphs, scope))
        ]

    def of_trip(self, values: BlockValues) -> Iterator[BlockCheck]:
        """The comparisons of one trip."""
        trip = values.trip or 0
        self._keep(values)
        if trip < MANY_TRIPS or trip & (trip - 1) == 0:
            yield from self._each(self._bodies)
        yield from self._each(self._checks(self._by_trip.get(trip, [])))

    def _each(self, checks: Sequence[BlockCheck]) -> Iterator[BlockCheck]:
        for check in checks:
            yield check
            self.compared += len(check.compared)
            check.compared.clear()

    def _keep(self, values: BlockValues) -> None:
        """Keeps the values that the model has for all trips at once."""
        paths = {point.held.path for point in self._by_trip.get(STACKED, [])}
        for path in paths:
            is_argument = path[-1] == ARGUMENTS
            known = values.arguments if is_argument else values.results.get(path, [])
            self._stacks.setdefault(path, []).append(list(known))

    def stacked(self) -> BlockValues | None:
        """The values of all trips, stacked; None if the model has none."""
        if not self._stacks:
            return None
        arguments: Arrays = []
        results: dict[Path, Arrays] = {}
        for path, trips in self._stacks.items():
            joined: Arrays = [
                np.stack(column) if all(array is not None for array in column) else None
                for column in zip(*trips, strict=True)
            ]
            if path[-1] == ARGUMENTS:
                arguments = joined
            else:
                results[path] = joined
        return BlockValues(arguments, results)

    def of_stack(self, values: BlockValues) -> Iterator[BlockCheck]:
        """The comparisons of the values of all trips."""
        yield from self._each(self._checks(self._by_trip.get(STACKED, [])))


def numbers_of(scope: Scope, trip: int | None) -> dict[str, np.ndarray]:
    """The number of the trip, and for a Loop the condition: inputs of a body."""
    if trip is None or scope.owner is None or scope.owner.op_type not in ("Loop", "Scan"):
        return {}
    if scope.owner.op_type == "Scan":
        return {trip_name(scope.name): np.array(trip)}
    bodies = (item.g for item in scope.owner.attribute if item.name == "body")
    number = trip - any(body.doc_string == LATER_TRIPS for body in bodies)
    return {scope.inputs[0]: np.array(number), scope.inputs[1]: np.array(True)}

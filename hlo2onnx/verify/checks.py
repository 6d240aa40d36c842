"""Compares the values of one block, each computed by the model from XLA's values around it.

`LoopChecks` does it trip by trip, wherever the model has the values: in the loop, in trips one
after the other, or in one tensor of all trips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import onnx_ir as oir

from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.notes import ARGUMENTS, LATER_TRIPS, STACKED, Path
from hlo2onnx.runtime.calling import from_model
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.model_graphs import Extracted, ModelGraphs, Scope, trip_name
from hlo2onnx.verify.points import Point, array_of, points_in, scopes_of, trip_of
from hlo2onnx.verify.program_values import Arrays, BlockValues
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Runner, Session, Start


@dataclass(frozen=True)
class Suspect:
    """A value that the model computes differently from XLA's values of what it is computed from.

    Attributes:
        got: What the model computes.
        want: XLA's value.
    """

    point: Point
    comparison: Comparison
    got: np.ndarray
    want: np.ndarray


class OutputJudge:
    """Compares outputs of changed models, or of their parts, with XLA's for one set of inputs.

    Attributes:
        arrays: The inputs.
        expected: The outputs.

    Args:
        source: The program.
        reference: The program in XLA.
    """

    def __init__(self, source: Source, reference: Reference, arrays: Sequence[np.ndarray]) -> None:
        self._ports = source.signature.outputs
        self._reference = reference
        self.arrays = arrays
        self.expected = reference(arrays)

    @cached_property
    def _exact(self) -> Sequence[np.ndarray | None]:
        """The outputs in f64, where they are known."""
        return self._reference.at(self.arrays).in_f64(self.arrays, self.expected)

    def __call__(self, outputs: Mapping[int, np.ndarray]) -> dict[int, Comparison]:
        """Compares outputs of the model, by their index."""
        found = {}
        for index, array in outputs.items():
            port, want = self._ports[index], self.expected[index]
            (got,) = from_model([port], [array])
            found[index] = compare(port.name, got, want, step=port.step)
            if not found[index].ok:
                found[index] = compare(port.name, got, want, self._exact[index], port.step)
        return found


@dataclass
class BlockCheck:
    """The model's part for one block of the program, ready to be compared with XLA.

    Attributes:
        graphs: The graphs of the model.
        scope: The graph with the values of the block.
        block: The path of the block.
        points: The points in this graph and of this block, in order.
        start: Starts a session from a serialized model.
        compared: The values that were compared.
        errors: Their relative errors.
    """

    graphs: ModelGraphs
    scope: Scope
    block: Path
    points: Sequence[Point]
    start: Start
    compared: set[str] = field(default_factory=set)
    errors: dict[str, float] = field(default_factory=dict)
    _session: tuple[Extracted, Session] | None = None

    def known(self, values: BlockValues) -> dict[str, tuple[Point, np.ndarray]]:
        """XLA's value for each value of the model, with its first point."""
        found: dict[str, tuple[Point, np.ndarray]] = {}
        for point in self.points:
            array = array_of(point, values, self.block)
            if array is not None:
                found.setdefault(point.name, (point, array))
        return found

    def suspects(
        self, values: BlockValues, outer: Mapping[str, np.ndarray]
    ) -> tuple[list[Suspect], dict[str, np.ndarray]]:
        """The values that differ in one run of the block, and all values that the model was given.

        Args:
            outer: Values of the graphs around this one.
        """
        known = self.known(values)
        found: list[Suspect] = []
        got: dict[str, np.ndarray] = {}
        for name in known:
            if (tensor := self.graphs.constant(name)) is not None:
                got[name] = oir.serde.deserialize_tensor(tensor).numpy()
        fed = dict(outer)
        fed.update((name, array) for name, (_, array) in known.items() if name not in got)
        got.update(self._computed([name for name in known if name not in got], fed))
        self.compared.update(got)
        for name, mine in got.items():
            point, want = known[name]
            comparison = compare(name, mine, want)
            self.errors[name] = comparison.max_rel
            if not comparison.ok:
                found.append(Suspect(point, comparison, mine, want))
        found.sort(key=lambda suspect: suspect.point.order)
        return found, fed

    def _computed(
        self, targets: Sequence[str], fed: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        if self._session is None:
            part = self.graphs.extracted(self.scope, targets, fed)
            if part is None:
                return {}
            self._session = part, self.start(part.model.SerializeToString())
        part, session = self._session
        feeds = {name: fed[name.removesuffix("::fed")] for name in part.feeds}
        return dict(zip(part.targets, session(feeds), strict=True))


def starter(runner: Runner, optimize: bool) -> Start:
    """Starts sessions that treat denormal floats as XLA does, where that is possible."""
    denormals = "flush" if runner.can_flush else "keep"
    return partial(runner.session, optimize=optimize, denormals=denormals)


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
    """The trip number, and for a Loop the condition: inputs of a body."""
    if trip is None or scope.owner is None or scope.owner.op_type not in ("Loop", "Scan"):
        return {}
    if scope.owner.op_type == "Scan":
        return {trip_name(scope.name): np.array(trip)}
    bodies = (item.g for item in scope.owner.attribute if item.name == "body")
    number = trip - any(body.doc_string == LATER_TRIPS for body in bodies)
    return {scope.inputs[0]: np.array(number), scope.inputs[1]: np.array(True)}

"""Searches for the op that the model computes differently from XLA.

Each value that model and program share is computed by the model from XLA's values around it, so
that earlier errors do not count. Where an op with regions differs, its regions are searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.frontend.mlir.block_functions import BlockPaths, Wanted
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.notes import ARGUMENTS, CALLEE, Path
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.verify.checks import BlockCheck, LoopChecks, Suspect, numbers_of
from hlo2onnx.verify.compare import Comparison
from hlo2onnx.verify.decompositions import decomposition_of
from hlo2onnx.verify.model_graphs import ModelGraphs
from hlo2onnx.verify.outputs import ModelOutputs, OutputJudge
from hlo2onnx.verify.points import (
    Point,
    is_direct,
    op_around,
    points_in,
    scopes_of,
    trip_of,
    within_memory,
)
from hlo2onnx.verify.program_values import Arrays, BlockValues, ProgramValues
from hlo2onnx.verify.runners import Start


@dataclass
class Found:
    """An op that the model computes differently.

    Attributes:
        suspect: Its result; None if only an output of the model differs.
        output: Comparison of this output.
        trips: The trips of the loops around it, the outermost first.
        ops: Paths of the ops that the nodes compute together.
        nodes: The nodes of the model between this value and those before it.
        operands: XLA's operands of the op; None for unknown ones.
        others: Other values that differ, for other reasons.
        compared: Count of the values that were compared.
    """

    path: Path
    suspect: Suspect | None
    output: Comparison | None = None
    trips: tuple[int, ...] = ()
    ops: Sequence[Path] = ()
    nodes: Sequence[onnx.NodeProto] = ()
    operands: Sequence[np.ndarray | None] = ()
    others: Sequence[Suspect] = ()
    compared: int = 0
    notes: list[str] = field(default_factory=list)


class Search:
    """One search.

    Args:
        source: The program.
        module: Its normalized module.
        model: The model.
        points: The points of comparison.
        start: Starts a session from a serialized model.
        judge: Compares the outputs.
    """

    def __init__(
        self,
        source: Source,
        module: ir.Operation,
        model: onnx.ModelProto,
        points: Sequence[Point],
        start: Start,
        judge: OutputJudge,
    ) -> None:
        self.source = source
        self.graphs = ModelGraphs(model)
        self.paths = BlockPaths(module, source.function)
        self._program = ProgramValues(source, module)
        self._points = points
        self._start = start
        self._around: dict[Path, int] = {}
        self.compared = 0
        self.notes: list[str] = []
        self.errors: dict[str, float] = {}
        self._judge = judge
        self._outputs = ModelOutputs(self.graphs, judge, start)

    def run(self) -> Found | None:
        """The first op that differs; None if no value differs."""
        arrays = self._judge.arrays
        block: Path = ()
        stored = self.graphs.main.initializers
        names = [name for name in self.graphs.main.inputs if name not in stored]
        feeds = to_model(names, arrays, self.source.signature.inputs)
        points = points_in(self._points, self.graphs, self.graphs.main)
        points = [point for point in points if is_direct(point.held.path, block)]
        chosen: Sequence[Point] = within_memory(points)
        while True:
            values = self._program.main(arrays, self._wanted(block, chosen))
            check = BlockCheck(self.graphs, self.graphs.main, block, chosen, self._start)
            suspects, fed = check.suspects(values, feeds)
            self.compared += len(check.compared)
            self.errors.update(check.errors)
            suspects = self._unique(suspects, values)
            if len(suspects) > 1:
                suspects = _worst(self._outputs.needed(suspects, feeds))
            if not suspects:
                return self._output(fed, block, check)
            nearer = self._nearer(points, chosen, suspects[0], values, fed)
            if len(nearer) == 0:
                return self._found(suspects, values, fed, check)
            chosen = nearer

    def _nearer(
        self,
        points: Sequence[Point],
        chosen: Sequence[Point],
        suspect: Suspect,
        values: BlockValues,
        fed: Mapping[str, np.ndarray],
    ) -> Sequence[Point]:
        """The points within the ops of a suspect, if they were left out, and those around them."""
        ops = set(self._ops(suspect.point.held.path, values))
        known = set(chosen)
        inner = [point for point in points if point.held.path in ops and point not in known]
        if not inner:
            return ()
        nodes = self.graphs.between(self.graphs.main, suspect.point.name, set(fed))
        read = {name for node in nodes for name in node.input}
        around = [point for point in chosen if point.name in read or point == suspect.point]
        return sorted([*around, *within_memory(inner)], key=lambda point: point.order)

    # -- one block --------------------------------------------------------------------------------

    def _wanted(self, block: Path, points: Sequence[Point]) -> Wanted:
        """The values that a comparison of a block needs."""
        results = {
            point.held.path
            for point in points
            if is_direct(point.held.path, block) and point.held.path[-1] != ARGUMENTS
        }
        around = (op_around(point.held.path, block) for point in self._points)
        return Wanted(results, {path for path in around if path is not None})

    def _found(
        self,
        suspects: Sequence[Suspect],
        values: BlockValues,
        fed: Mapping[str, np.ndarray],
        check: BlockCheck,
    ) -> Found:
        first, *others = suspects
        path = first.point.held.path
        nodes = self.graphs.between(check.scope, first.point.name, set(fed))
        ops = self._ops(path, values)
        for inner in ops:
            found = self._inside(inner, values, fed)
            if found is not None:
                return found
        trips = tuple(self._around.values())
        operands = self._operands(path, values)
        return Found(path, first, None, trips, ops, nodes, operands, others, self.compared)

    def _unique(self, suspects: Sequence[Suspect], values: BlockValues) -> list[Suspect]:
        """The suspects whose ops have unique results, unlike eigenvectors."""
        found = []
        for suspect in suspects:
            ops = self._ops(suspect.point.held.path, values)
            if any(map(self._is_decomposition, ops)):
                self.notes.append(f"{suspect.point.name} was not compared: it is not unique")
            else:
                found.append(suspect)
        return found

    def _is_decomposition(self, path: Path) -> bool:
        if path[-1] == ARGUMENTS:
            return False
        operation = self.paths.operation(path)
        is_call = operation.name == "stablehlo.custom_call"
        return is_call and decomposition_of(CustomCall(operation)) is not None

    def _ops(self, path: Path, values: BlockValues) -> list[Path]:
        if path[-1] == ARGUMENTS:
            return [path]
        return self.paths.between(path, values.results.keys(), _opened(values))

    def _operands(self, path: Path, values: BlockValues) -> Sequence[np.ndarray | None]:
        if path in values.operands:
            return values.operands[path][: len(self.paths.operation(path).operands)]
        if path[-1] == ARGUMENTS:
            return ()
        found: list[np.ndarray | None] = []
        for place in self.paths.operands(path, _opened(values)):
            known: Sequence[np.ndarray | None] = ()
            if place is not None and place.path[-1] == ARGUMENTS:
                known = values.arguments
            elif place is not None:
                known = values.results.get(place.path, ())
            found.append(known[place.number] if place and place.number < len(known) else None)
        if any(each is None for each in found) and is_direct(path, ()):
            again = self._program.main(self._judge.arrays, Wanted((), {path}))
            return again.operands[path][: len(found)]
        return found

    # -- ops with regions -------------------------------------------------------------------------

    def _inside(
        self, path: Path, values: BlockValues, fed: Mapping[str, np.ndarray]
    ) -> Found | None:
        """The op within the regions of an op, or within a function of the model that it calls."""
        operands = values.operands.get(path)
        if operands is None:
            return None
        operation = self.paths.operation(path)
        try:
            if operation.name == "stablehlo.while":
                return self._in_loop(path, operands, fed)
            if operation.name in ("stablehlo.case", "stablehlo.if"):
                return self._in_branch(path, operation, operands, fed)
        except (UsageError, VerificationError) as error:
            self.notes.append(f"the regions of a {operation.name} were not compared: {error}")
        return None

    def _in_loop(self, path: Path, operands: Arrays, fed: Mapping[str, np.ndarray]) -> Found | None:
        body, condition = (*path, 1), (*path, 0)
        points = [
            point
            for point in self._points
            if is_direct(point.held.path, body) or _is_of(condition, point)
        ]
        wanted, other = self._wanted(body, points), self._wanted(condition, points)
        both = Wanted({*wanted.results, *other.results}, wanted.operands)
        checks = LoopChecks(self.graphs, path, points, self._around, self._start)
        try:
            for values in self._program.trips(path, operands, both):
                assert values.trip is not None
                self._around[path] = values.trip
                found = self._differing(checks.of_trip(values), values, fed, body)
                if found is not None:
                    return found
            del self._around[path]
            found, stacked = None, checks.stacked()
            if stacked is not None:
                found = self._differing(checks.of_stack(stacked), stacked, fed, body)
            return found or self._at_start(path, points, operands, fed)
        finally:
            self.compared += checks.compared
            self._around.pop(path, None)

    def _at_start(
        self,
        path: Path,
        points: Sequence[Point],
        operands: Arrays,
        fed: Mapping[str, np.ndarray],
    ) -> Found | None:
        """The op that differs in the condition before the first trip, where the model has it."""
        block = (*path, 0)
        bodies = scopes_of((p for p in points if is_direct(p.held.path, (*path, 1))), self.graphs)
        here = [p for p in points if is_direct(p.held.path, block) and _is_now(p, self._around)]
        scopes = [scope for scope in scopes_of(here, self.graphs) if scope not in bodies]
        if not scopes:
            return None
        values = self._program.condition(path, operands, self._wanted(block, here))
        checks = [
            BlockCheck(self.graphs, scope, block, points_in(here, self.graphs, scope), self._start)
            for scope in scopes
        ]
        return self._differing(iter(checks), values, fed, block)

    def _differing(
        self,
        checks: Iterator[BlockCheck],
        values: BlockValues,
        fed: Mapping[str, np.ndarray],
        block: Path,
    ) -> Found | None:
        """The first op of a block that differs in one of these graphs."""
        for check in checks:
            outer = {**fed, **numbers_of(check.scope, values.trip)}
            suspects, inner = check.suspects(values, outer)
            suspects = self._unique(suspects, values)
            if suspects:
                return self._found(_worst(suspects), values, inner, check)
        return None

    def _in_branch(
        self,
        path: Path,
        operation: ir.Operation,
        operands: Arrays,
        fed: Mapping[str, np.ndarray],
    ) -> Found | None:
        (index, *_) = operands
        assert index is not None
        count = len(operation.regions)
        number = int(index)
        if operation.name == "stablehlo.if":
            region = 0 if number else 1
        else:
            region = number if 0 <= number < count else count - 1
        block = (*path, region)
        points = [point for point in self._points if is_direct(point.held.path, block)]
        found = None
        for values in self._program.branch(path, region, operands, self._wanted(block, points)):
            for scope in scopes_of(points, self.graphs):
                here = points_in(points, self.graphs, scope)
                here = [point for point in here if _is_now(point, self._around)]
                check = BlockCheck(self.graphs, scope, block, here, self._start)
                found = found or self._differing(iter([check]), values, fed, block)
                self.compared += len(check.compared)
        return found

    # -- outputs of the model ---------------------------------------------------------------------

    def _output(
        self, fed: Mapping[str, np.ndarray], block: Path, check: BlockCheck
    ) -> Found | None:
        """An output that differs although all values before it agree."""
        names = [value.name for value in self.graphs.model.graph.output]
        for index, item in self._outputs.compared(fed).items():
            if item.ok:
                continue
            port = self.source.signature.outputs[index]
            place = self.paths.returned(block)[port.position]
            nodes = self.graphs.between(check.scope, names[index], set(fed))
            path = place.path if place is not None else (ARGUMENTS,)
            return Found(path, None, item, (), [path], nodes, (), (), self.compared)
        return None


def _opened(values: BlockValues) -> set[Path]:
    """The calls whose inner values are known."""
    return {
        path[:end]
        for path in values.results
        for end in range(1, len(path), 2)
        if path[end] == CALLEE
    }


def _is_of(block: Path, point: Point) -> bool:
    return is_direct(point.held.path, block) and point.held.path[-1] != ARGUMENTS


def _is_now(point: Point, around: Mapping[Path, int]) -> bool:
    """Whether a point holds its value in the current trips of the loops around it."""
    return trip_of(point, (), around) is not None


_SMALL = 1e-2
"""Errors of this size, relative to the largest one, count as rounding beside it."""


def _worst(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The suspects without those whose errors are much smaller than the largest one."""
    errors = [_size(suspect.comparison) for suspect in suspects]
    most = max(errors)
    return [s for s, error in zip(suspects, errors, strict=True) if error >= _SMALL * most]


def _size(comparison: Comparison) -> float:
    if comparison.nonfinite or comparison.tolerance is None:
        return 1.0
    return min(comparison.max_rel, 1.0)

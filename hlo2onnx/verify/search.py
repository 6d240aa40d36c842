"""Searches for the op that the model computes differently from XLA.

Each value that model and program share is computed by the model from XLA's values around it, so
that earlier errors do not count. Where an op with regions differs, its regions are searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.frontend.mlir.block_functions import BlockPaths, Wanted
from hlo2onnx.frontend.mlir.locations import origin_of
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.notes import ARGUMENTS, CALLEE, Path
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.verify.checks import BlockCheck, LoopChecks, OutputJudge, Suspect, numbers_of
from hlo2onnx.verify.compare import Comparison
from hlo2onnx.verify.decompositions import decomposition_of
from hlo2onnx.verify.divergence import Divergence, ModelNode, ProgramOp, Tensor
from hlo2onnx.verify.model_graphs import ModelGraphs
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
from hlo2onnx.verify.runners import IN_THIS_PROCESS, Runner, Start


@dataclass(frozen=True)
class Compared:
    """A program and a model to compare.

    Attributes:
        module: The normalized module of the program, which the points are for.
        points: The points of comparison.
        rewrites: The rewrites that led to nodes, by name.
        runner: What runs the model and its parts.
        weights_dtype: The type in which the model stores f32 weights.
    """

    source: Source
    module: ir.Operation
    model: onnx.ModelProto
    points: Sequence[Point]
    rewrites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runner: Runner = IN_THIS_PROCESS
    weights_dtype: str | None = None


class Search:
    """One search.

    Args:
        start: Starts a session from a serialized model.
        judge: Compares the outputs.
    """

    def __init__(self, pair: Compared, start: Start, judge: OutputJudge) -> None:
        self.source = pair.source
        self.graphs = ModelGraphs(pair.model)
        self.paths = BlockPaths(pair.module, pair.source.function)
        self._program = ProgramValues(pair.source, pair.module)
        self._points = pair.points
        self._rewrites = pair.rewrites
        self._start = start
        self._around: dict[Path, int] = {}
        self.compared = 0
        self.notes: list[str] = []
        self.errors: dict[str, float] = {}
        self._judge = judge

    def run(self) -> Divergence | None:
        """The first op that differs; None if no value differs."""
        arrays = self._judge.arrays
        block: Path = ()
        stored = self.graphs.main.initializers
        names = [name for name in self.graphs.main.inputs if name not in stored]
        feeds = to_model(names, arrays, self.source.signature.inputs)
        points = points_in(self._points, self.graphs, self.graphs.main)
        points = [point for point in points if is_direct(point.held.path, block)]
        points = within_memory(points)
        values = self._program.main(arrays, self._wanted(block, points))
        check = BlockCheck(self.graphs, self.graphs.main, block, points, self._start)
        suspects, fed = check.suspects(values, feeds)
        self.compared += len(check.compared)
        self.errors.update(check.errors)
        suspects = self._unique(suspects, values)
        if not suspects:
            return self._output(fed, block, check)
        return self._found(_worst(suspects), values, fed, check)

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
    ) -> Divergence:
        first, *others = suspects
        path = first.point.held.path
        nodes = self.graphs.between(check.scope, first.point.name, set(fed))
        ops = self._ops(path, values)
        for inner in ops:
            found = self._inside(inner, values, fed)
            if found is not None:
                return found
        operands = self._operands(path, values)
        return replace(
            self._divergence(path, first.comparison, nodes),
            trips=tuple(self._around.values()),
            operands=tuple(None if each is None else Tensor.of(each) for each in operands),
            expected=Tensor.of(first.want),
            actual=Tensor.of(first.got),
            fused=tuple(described(each, self.paths) for each in ops if each != path),
            others=tuple(described(each.point.held.path, self.paths) for each in others),
        )

    def _divergence(
        self, path: Path, error: Comparison, nodes: Sequence[onnx.NodeProto]
    ) -> Divergence:
        made = tuple(_node(node, self._rewrites) for node in nodes)
        rewrites = tuple(dict.fromkeys(name for node in made for name in node.rewrites))
        op = described(path, self.paths)
        return Divergence(op, error, nodes=made, rewrites=rewrites, compared=self.compared)

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
        return decomposition_of(self.paths.operation(path)) is not None

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
    ) -> Divergence | None:
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

    def _in_loop(
        self, path: Path, operands: Arrays, fed: Mapping[str, np.ndarray]
    ) -> Divergence | None:
        body, condition = (*path, 1), (*path, 0)
        points = [
            point
            for point in self._points
            if is_direct(point.held.path, body)
            or (is_direct(point.held.path, condition) and point.held.path[-1] != ARGUMENTS)
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
            return found
        finally:
            self.compared += checks.compared
            self._around.pop(path, None)

    def _differing(
        self,
        checks: Iterator[BlockCheck],
        values: BlockValues,
        fed: Mapping[str, np.ndarray],
        block: Path,
    ) -> Divergence | None:
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
    ) -> Divergence | None:
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
        values = self._program.branch(path, region, operands, self._wanted(block, points))
        for scope in scopes_of(points, self.graphs):
            here = points_in(points, self.graphs, scope)
            here = [point for point in here if trip_of(point, (), self._around) is not None]
            check = BlockCheck(self.graphs, scope, block, here, self._start)
            found = self._differing(iter([check]), values, fed, block)
            self.compared += len(check.compared)
            if found is not None:
                return found
        return None

    # -- outputs of the model ---------------------------------------------------------------------

    def _output(
        self, fed: Mapping[str, np.ndarray], block: Path, check: BlockCheck
    ) -> Divergence | None:
        """An output that differs although all values before it agree."""
        names = [value.name for value in self.graphs.model.graph.output]
        part = self.graphs.extracted(check.scope, names, fed)
        if part is None:
            return None
        session = self._start(part.model.SerializeToString())
        made = dict(zip(part.targets, session(part.feeds), strict=True))
        outputs = {index: made[name] for index, name in enumerate(names) if name in made}
        for index, item in self._judge(outputs).items():
            if item.ok:
                continue
            port = self.source.signature.outputs[index]
            place = self.paths.returned(block)[port.position]
            nodes = self.graphs.between(check.scope, names[index], set(fed))
            path = place.path if place is not None else (ARGUMENTS,)
            return self._divergence(path, item, nodes)
        return None


def _opened(values: BlockValues) -> set[Path]:
    """The calls whose inner values are known."""
    return {
        path[:end]
        for path in values.results
        for end in range(1, len(path), 2)
        if path[end] == CALLEE
    }


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


# -- what is said of it ----------------------------------------------------------------------------

_LARGE_ELEMENTS = 8
_LONG = 400


def _node(node: onnx.NodeProto, rewrites: Mapping[str, tuple[str, ...]]) -> ModelNode:
    metadata = {item.key: item.value for item in node.metadata_props}
    source = metadata.get("jax.source", "")
    return ModelNode(node.op_type, node.name, source, rewrites.get(node.name, ()))


def described(path: Path, paths: BlockPaths) -> ProgramOp:
    """The op at a path."""
    if path[-1] == ARGUMENTS:
        around = path[:-2]
        if not around:
            return ProgramOp("an argument of the program", "")
        inner = described(around, paths)
        return replace(inner, name=f"an argument of a region of {inner.name}")
    operation = paths.operation(path)
    origin = origin_of(operation.location)
    frames = origin.frames
    for call in paths.calls_around(path):
        frames += origin_of(call.location).frames
    origin = replace(origin, frames=frames)
    return ProgramOp(
        operation.name, _text(operation), origin.source, tuple(origin.stack), origin.scope
    )


def _text(operation: ir.Operation) -> str:
    """The op without the names of its results. Of an op with regions, the first line."""
    text = str(
        operation.get_asm(
            enable_debug_info=False, large_elements_limit=_LARGE_ELEMENTS, use_local_scope=True
        )
    )
    line, *more = text.splitlines()
    line = line.partition(" = ")[2] or line
    return line[:_LONG] + (" ..." if more or len(line) > _LONG else "")

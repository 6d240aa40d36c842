"""Finds where a model parts from its program, and describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.mlir.block_functions import BlockPaths
from hlo2onnx.frontend.mlir.locations import origin_of
from hlo2onnx.frontend.mlir.quantization import is_quantized
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.notes import ARGUMENTS, Path, rewrites_of
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.options import Options
from hlo2onnx.pipeline import lowered_module, run_stages
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.verify.checks import starter
from hlo2onnx.verify.divergence import Divergence, ModelNode, ProgramOp, Tensor
from hlo2onnx.verify.outputs import OutputJudge
from hlo2onnx.verify.points import Point, points_of
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.rounding import round_constants
from hlo2onnx.verify.rule_tests import RuleTests
from hlo2onnx.verify.runners import IN_THIS_PROCESS, Runner, Start
from hlo2onnx.verify.search import Found, Search

_LARGE_ELEMENTS = 8
_LONG = 400


def diagnosed(
    source: Source,
    options: Options,
    model: oir.Model,
    inputs: Sequence[Sequence[np.ndarray]],
    runner: Runner = IN_THIS_PROCESS,
) -> Divergence:
    """The first op of a program that its model computes differently.

    Args:
        source: The program.
        options: The options of its translation.
        model: The model, as it is in memory.
        inputs: Inputs to try, until one shows a difference.
        runner: What runs the model and its parts.

    Raises:
        VerificationError: XLA or the runtime cannot run the program.
    """
    points, rewrites = _points(source, options, model)
    module = lowered_module(source, options)
    if options.weights_dtype is not None:
        round_constants(module, options.weights_dtype)

    def tests(divergence: Divergence, judge: OutputJudge, start: Start) -> Divergence:
        made = RuleTests(source, options, judge, start).run(divergence.rewrites)
        notes = divergence.notes
        if made[0].agrees:
            notes = (*notes, "the model has changed since its translation")
        return replace(divergence, tests=tuple(made), notes=notes)

    return compared(
        Compared(
            source,
            module,
            to_proto(model),
            points,
            rewrites,
            runner,
            options.weights_dtype,
        ),
        inputs,
        tests,
    )


def _points(
    source: Source, options: Options, model: oir.Model
) -> tuple[list[Point], dict[str, tuple[str, ...]]]:
    """The points of a model, and the rewrites that led to its nodes."""
    points = points_of(model)
    if not points:  # it was loaded or pickled: the names are those of a new translation
        model, _ = run_stages(source, replace(options, dump=None))
        points = points_of(model)
    return points, _rewrites(model)


@dataclass(frozen=True)
class Compared:
    """A program and a model to compare.

    Attributes:
        module: The module that the points are for.
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


def compared(
    pair: Compared,
    inputs: Sequence[Sequence[np.ndarray]],
    tests: Callable[[Divergence, OutputJudge, Start], Divergence] | None = None,
) -> Divergence:
    """The first op that differs, on the first inputs for which one does.

    Args:
        tests: Adds tests of the finding.

    Raises:
        VerificationError: XLA or ONNX Runtime cannot run the program.
    """
    if is_quantized(pair.source.module.operation):
        raise VerificationError("values of quantized types cannot be compared one by one")
    reference, count, errors = Reference(pair.source, pair.weights_dtype), 0, dict[str, float]()
    for optimize in sorted(pair.runner.levels):
        start = starter(pair.runner, optimize)
        for arrays in inputs:
            judge = OutputJudge(pair.source, reference, arrays)
            search = Search(pair.source, pair.module, pair.model, pair.points, start, judge)
            found = search.run()
            count += search.compared
            errors = errors or search.errors
            if found is not None:
                notes = (_OPTIMIZED,) if optimize and len(pair.runner.levels) > 1 else ()
                divergence = described(found, search.paths, pair.rewrites)
                divergence = replace(
                    divergence, notes=(*notes, *search.notes), errors=search.errors
                )
                return tests(divergence, judge, start) if tests else divergence
    return Divergence(compared=count, errors=errors)


_OPTIMIZED = "the difference shows only with graph optimization of the runtime"


def _rewrites(model: oir.Model) -> dict[str, tuple[str, ...]]:
    """The rewrites that led to each node, by its name."""
    return {
        str(node.name): rewrites_of(node)
        for graph in each_graph(model)
        for node in all_nodes(graph)
    }


def described(
    found: Found, paths: BlockPaths, rewrites: Mapping[str, tuple[str, ...]]
) -> Divergence:
    """The description of an op that differs."""
    nodes = tuple(_node(node, rewrites) for node in found.nodes)
    suspect = found.suspect
    return Divergence(
        op=_op(found.path, paths),
        error=found.output if suspect is None else suspect.comparison,
        trips=found.trips,
        operands=tuple(None if each is None else Tensor.of(each) for each in found.operands),
        expected=None if suspect is None else Tensor.of(suspect.want),
        actual=None if suspect is None else Tensor.of(suspect.got),
        fused=tuple(_op(path, paths) for path in found.ops if path != found.path),
        nodes=nodes,
        rewrites=tuple(dict.fromkeys(name for node in nodes for name in node.rewrites)),
        others=tuple(_op(other.point.held.path, paths) for other in found.others),
        compared=found.compared,
    )


def _node(node: onnx.NodeProto, rewrites: Mapping[str, tuple[str, ...]]) -> ModelNode:
    metadata = {item.key: item.value for item in node.metadata_props}
    source = metadata.get("jax.source", "")
    return ModelNode(node.op_type, node.name, source, rewrites.get(node.name, ()))


def _op(path: Path, paths: BlockPaths) -> ProgramOp:
    if path[-1] == ARGUMENTS:
        around = path[:-2]
        if not around:
            return ProgramOp("an argument of the program", "")
        inner = _op(around, paths)
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

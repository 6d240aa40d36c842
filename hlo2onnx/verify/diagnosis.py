"""Finds where a model parts from its program, and describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.mlir.quantization import is_quantized
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.notes import rewrites_of
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.options import Options
from hlo2onnx.pipeline import lowered_module, run_stages
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.verify.checks import OutputJudge, starter
from hlo2onnx.verify.divergence import Divergence
from hlo2onnx.verify.points import Point, points_of
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.rounding import round_constants
from hlo2onnx.verify.rule_tests import RuleTests
from hlo2onnx.verify.runners import IN_THIS_PROCESS, Runner, Start
from hlo2onnx.verify.search import Compared, Search


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
            search = Search(pair, start, judge)
            found = search.run()
            count += search.compared
            errors = errors or search.errors
            if found is not None:
                notes = (_OPTIMIZED,) if optimize and len(pair.runner.levels) > 1 else ()
                found = replace(found, notes=(*notes, *search.notes), errors=search.errors)
                return tests(found, judge, start) if tests else found
    return Divergence(compared=count, errors=errors)


_OPTIMIZED = "the difference shows only with graph optimization of the runtime"


def _rewrites(model: oir.Model) -> dict[str, tuple[str, ...]]:
    """The rewrites that led to each node, by its name."""
    return {
        str(node.name): rewrites_of(node)
        for graph in each_graph(model)
        for node in all_nodes(graph)
    }

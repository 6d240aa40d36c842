"""Finds where a model parts from its program, and describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import Hlo2OnnxError, VerificationError
from hlo2onnx.frontend.mlir.quantization import is_quantized
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.notes import rewrites_of
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.options import Options
from hlo2onnx.pipeline import lowered_module, run_stages
from hlo2onnx.raising.half_in_f32 import REWRITE as IN_F32
from hlo2onnx.raising.rule_names import rules_named
from hlo2onnx.raising.rules.quantized.quantize_weights import QuantizeWeights
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.verify.budget import Budget
from hlo2onnx.verify.checks import OutputJudge, starter
from hlo2onnx.verify.divergence import Divergence, RuleTest
from hlo2onnx.verify.points import points_of
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.rounding import round_constants
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
    translated = replace(options, dump=None)
    known = model
    points = points_of(known)
    if not points:  # it was loaded or pickled: the names are those of a new translation
        known, _ = run_stages(source, translated)
        points = points_of(known)
    nodes = (node for graph in each_graph(known) for node in all_nodes(graph))
    rewrites = {str(node.name): rewrites_of(node) for node in nodes}
    module = lowered_module(source, options)
    dtype = options.half_weights
    if dtype is not None:
        round_constants(module, dtype)
    pair = Compared(source, module, to_proto(model), points, rewrites, runner, dtype)

    def confirmed(divergence: Divergence, judge: OutputJudge, start: Start) -> Divergence:
        made = _rule_tests(source, translated, divergence.rewrites, judge, start)
        notes = divergence.notes
        if made[0].agrees:
            notes = (*notes, "the model has changed since its translation")
        return replace(divergence, tests=tuple(made), notes=notes)

    return compared(pair, inputs, confirmed)


def compared(
    pair: Compared,
    inputs: Sequence[Sequence[np.ndarray]],
    confirmed: Callable[[Divergence, OutputJudge, Start], Divergence] | None = None,
) -> Divergence:
    """The first op that differs, on the first inputs for which one does.

    Args:
        confirmed: Adds tests of the finding.

    Raises:
        VerificationError: XLA or ONNX Runtime cannot run the program.
    """
    if is_quantized(pair.source.module.operation):
        raise VerificationError("values of quantized types cannot be compared one by one")
    count, errors = 0, dict[str, float]()
    with Budget() as budget:
        reference = Reference(pair.source, pair.weights_dtype, budget=budget)
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
                    return confirmed(found, judge, start) if confirmed else found
    return Divergence(compared=count, errors=errors)


_OPTIMIZED = "the difference shows only with graph optimization of the runtime"


# -- rules that may be the reason ------------------------------------------------------------------

MANY_RULES = 6
"""Up to this many rules are switched off one by one."""

LEGALIZATION = "legalize: "


def _rule_tests(
    source: Source,
    options: Options,
    rewrites: Sequence[str],
    judge: OutputJudge,
    start: Start,
) -> list[RuleTest]:
    """Translates with the same options, then without each rule, then without all of them.

    Stops as soon as the outputs agree.
    """
    # No option switches the last two off alone.
    kept = {*rules_named(options.without, retired=True), IN_F32, QuantizeWeights.name}
    rules = [name for name in rewrites if not name.startswith(LEGALIZATION) and name not in kept]
    each = [(), *((name,) for name in rules[:MANY_RULES])]
    found = []
    for without in (*each, tuple(rules)) if len(rules) > 1 else each:
        agrees, note = False, ""
        changed = replace(options, without=frozenset({*options.without, *without}))
        try:
            model, _ = run_stages(source, changed)
            session = start(to_proto(model).SerializeToString())
            names = [str(value.name) for value in model.graph.inputs]
            made = session(to_model(names, judge.arrays, source.signature.inputs))
            agrees = all(item.ok for item in judge(dict(enumerate(made))).values())
        except Hlo2OnnxError as error:
            note = f"it failed: {error}"
        found.append(RuleTest(without, agrees, note))
        if agrees:
            break
    return found

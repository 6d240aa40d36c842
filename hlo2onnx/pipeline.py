"""Runs the stages normalize, lower, raise and legalize. Times and dumps each."""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, TranslationError, UsageError
from hlo2onnx.frontend.mlir.callbacks import ASSERTION, assertions, drop_effects
from hlo2onnx.frontend.mlir.devices import on_one_device
from hlo2onnx.frontend.mlir.normalize import normalized
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, STORED_FLOATS
from hlo2onnx.frontend.source import Source
from hlo2onnx.interface.description import one_thread
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.functions import each_graph, finish_functions
from hlo2onnx.ir.names import name_layers
from hlo2onnx.ir.op_families import restore_names
from hlo2onnx.ir.traversal import all_nodes, freeing_removed_nodes
from hlo2onnx.ir.weight_storage import (
    STORAGE_TYPES,
    WeightLedger,
    has_large_f32,
    store_half_weights,
    store_weights,
)
from hlo2onnx.ir.weights import name_weights
from hlo2onnx.limitations import CALLBACK_TARGETS
from hlo2onnx.lowering.context import Diagnosis
from hlo2onnx.lowering.lower import lower
from hlo2onnx.options import Options, ir_version
from hlo2onnx.raising import inline_branches, raise_model
from hlo2onnx.raising.engine import Watch
from hlo2onnx.raising.explanation import Explainer, Explanation, RuleLog
from hlo2onnx.raising.half_in_f32 import compute_in_f32
from hlo2onnx.raising.rule_names import rules_named
from hlo2onnx.raising.rules import RULES
from hlo2onnx.report import Report, WeightSizes, begin_stage
from hlo2onnx.runtime.metadata import describe_model
from hlo2onnx.runtime.paths import output_folder, writing
from hlo2onnx.targets import Target, load_target
from hlo2onnx.targets.estimate import call_seconds
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.legalize.opsets import oldest_opset
from hlo2onnx.targets.placement import note_placement
from hlo2onnx.targets.threads import is_for_one_thread
from hlo2onnx.targets.workarounds.constants import conceal_conditions

WEIGHTS = "hlo2onnx.weights"
"""Metadata of a model, as JSON: for each initializer that is not one parameter under its own path,
the paths of the parameters that it is computed from."""

_LOG = logging.getLogger(__name__)


def run_stages(source: Source, options: Options) -> tuple[oir.Model, Report]:
    """Translates a loaded program.

    Raises:
        LoadError: The program nests regions or calls too deeply.
        TranslationError: The program holds ops that cannot be translated.
        UsageError: The target or opset does not exist.
    """
    run = _Translation(source, options)
    report, run.dump = run.report, _Dump(options.dump)
    with _without_collections(), run.dump.rule_log() as run.watch:
        model, ledger = run.raised()
        run.finish(model)
        report.weights = WeightSizes(*ledger.sizes(model))
        describe_model(model, source, report)
        advice = one_thread() if is_for_one_thread(model, run.target.costs) else {}
        model.metadata_props.update({**advice, **options.metadata})
        run.dump.model("legalize", model)
    report.call_seconds = call_seconds(model.graph, run.target.costs)
    for graph in each_graph(model):
        report.nodes.update(node.op_type for node in all_nodes(graph))
    _LOG.debug("translated %s: %s", source, report)
    return model, report


def explain_rule(source: Source, options: Options, name: str) -> Explanation:
    """Translates a program up to the rewrite rules, and logs one of them.

    Args:
        name: The current or a former name of the rule.

    Raises:
        UsageError: There is no such rule.
    """
    if not isinstance(name, str):
        raise UsageError(f"{name!r} is not a name of a rule, such as 'softmax'")
    (rule,) = rules_named([name]).values()
    run = _Translation(source, options)
    run.watch = explainer = Explainer(rule)
    if rule.name in rules_named(options.without, retired=True):
        return explainer.explanation("it is switched off by without=")
    if rule.drops_nan and options.nan == "xla":
        return explainer.explanation('it is switched off by nan="xla", as it does not keep NaN')
    with _without_collections():
        run.raised()
        return explainer.explanation()


def diagnose(source: Source, options: Options) -> tuple[oir.Model | None, Report, Diagnosis]:
    """Translates a loaded program as far as possible.

    Returns:
        The model, perhaps with values of no node and not fit for the target; None if its inputs or
        outputs are refused. All refusals are in the diagnosis.

    Raises:
        LoadError: The program nests regions or calls too deeply.
        UsageError: The target or opset does not exist.
    """
    run = _Translation(source, options)
    diagnosis = Diagnosis(_REPORTED_NODES)
    with _without_collections():
        try:
            model = run.lowered(diagnosis)
        except TranslationError as error:  # inputs or outputs
            diagnosis.refusals += error.refusals
            return None, run.report, diagnosis
        try:
            run.raise_(model)
            run.legalize(model)
        except TranslationError as error:
            diagnosis.refusals += error.refusals
        except Exception as error:
            if not diagnosis.refusals:
                raise
            kind = type(error).__name__
            run.report.note(f"the rest is not checked for the target: {kind}: {error}")
    return model, run.report, diagnosis


_REPORTED_NODES = 100
"""An op that becomes at least this many nodes is reported."""


class _Translation:
    """The stages of one translation.

    Attributes:
        target, report: Of this translation.
        dump: Receives the result of each stage.
        watch: Sees the rules.

    Raises:
        UsageError: The target or opset does not exist.
    """

    def __init__(self, source: Source, options: Options) -> None:
        self.source = source
        self.options = options
        self.target = _target(options)
        self.report = Report(source=source.description, target=self.target.name)
        self.dump = _Dump(None)
        self.watch: Watch | None = None

    def raised(self) -> tuple[oir.Model, WeightLedger]:
        """The model after normalize, lower and raise, and its weights before the last."""
        model = self.lowered()
        self.dump.model("lower", model)
        ledger = WeightLedger(model)
        self.raise_(model)
        self.dump.model("raise", model)
        return model, ledger

    def lowered(self, diagnosis: Diagnosis | None = None) -> oir.Model:
        """The model after the stages normalize and lower."""
        source, report = self.source, self.report
        for text in source.notes:
            report.note(text)
        self.dump.module("load", source.module.operation)
        with _timed(report, "normalize"):
            module = _lowered_module(source, self.options, self.target, report)
        self.dump.module("normalize", module)
        with _timed(report, "lower"), _depth_limited():
            name, signature = source.function, source.signature
            return lower(module, name, signature, self.options, self.target, report, diagnosis)

    def raise_(self, model: oir.Model) -> None:
        """Rewrites a model by the rules, in place."""
        options, target, report = self.options, self.target, self.report
        with _timed(report, "raise"), _depth_limited():
            for part in _parts(model):
                types = options.integer_weights if part.graph is model.graph else {}
                compute_in_f32(part, target, options.half, report)
                asked = (options.nan, self.watch, types, options.attention)
                raise_model(part, target, options.without, report, *asked)
        if options.opset is None:
            _choose_opset(model, target, report)

    def legalize(self, model: oir.Model) -> None:
        """Makes a model that the target runs, in place."""
        options, target, report = self.options, self.target, self.report
        with _timed(report, "legalize"), _depth_limited():
            for part in _parts(model):
                legalize(part, target, options.half, report, options.nan, options.placement)
                inline_branches(part, target, self.watch)
            note_placement(each_graph(model), target, report)

    def finish(self, model: oir.Model) -> None:
        """Makes a model that the target runs, and names its values and weights."""
        self.legalize(model)
        for graph in each_graph(model):
            restore_names(graph)
        if self.target.flags.inlines_branches:
            conceal_conditions(model)
        _store_half_weights(model, self.report)
        finish_functions(model)
        _store_weights(model, self.options.half_weights, self.report)
        if origins := name_weights(model.graph):
            model.metadata_props[WEIGHTS] = json.dumps(origins)
        name_layers(model.graph)
        for value in model.graph.outputs:
            if value.shape is not None:  # inner values share theirs, and a user may change these
                value.shape = value.shape.copy()


_IGNORE_NAN = frozenset({"GRU", "LSTM", "MaxPool", "QuantizeLinear", "RNN"})


def may_ignore_nan(model: oir.Model, options: Options, report: Report) -> bool:
    """Whether results of a model may differ from XLA's for NaN, because `nan=` permits it."""
    if options.nan != "default":
        return options.nan == "runtime"
    if load_target(options.target).flags.misorders_nan:
        return True
    if any(rule.drops_nan for rule in RULES if rule.name in report.rules):
        return True
    return any(
        node.op_type in _IGNORE_NAN for graph in each_graph(model) for node in all_nodes(graph)
    )


def _choose_opset(model: oir.Model, target: Target, report: Report) -> None:
    """Gives a model the oldest of the target's usual opsets that has all of its operators.

    A newer one, which the lowering asked for, stays unless what needs it became a constant.
    """
    graphs = list(each_graph(model))
    opset, needs = oldest_opset(graphs, target, report.opset)
    if opset == report.opset > target.newer_opset:
        return  # the lowering has said why
    report.notes[:] = [text for text in report.notes if not text.startswith("opset ")]
    if needs:
        report.note(f"opset {opset} instead of {target.default_opset}: the model has {needs}")
    for graph in graphs:
        graph.opset_imports[""] = opset
    model.ir_version, report.opset = ir_version(opset), opset


def lowered_module(source: Source, options: Options) -> ir.Operation:
    """The module that a translation lowers: that of the source, normalized.

    Raises:
        LoadError: MLIR cannot rewrite an op.
        UsageError: The target or opset does not exist.
    """
    report = Report(source=source.description)
    return _lowered_module(source, options, _target(options), report)


def _lowered_module(
    source: Source, options: Options, target: Target, report: Report
) -> ir.Operation:
    one, note = on_one_device(source.module.operation, source.function, options.devices)
    if note:
        report.note(note)
    module = normalized(one, _stored(target))
    for text in assertions(module):
        report.note(f"the model leaves out an assertion of the program: {text}")
    for call in drop_effects(module):
        if call == ASSERTION:
            continue
        is_python = call in CALLBACK_TARGETS
        calls = "calls of Python, such as jax.debug.print," if is_python else f"calls of @{call}"
        report.note(f"{calls} are left out: nothing reads their results")
    return module


def _parts(model: oir.Model) -> Iterator[oir.Model]:
    """Each function of the model as a model, and the model without them."""
    for graph in each_graph(model):
        yield oir.Model(graph, ir_version=model.ir_version)


def _store_weights(model: oir.Model, name: str | None, report: Report) -> None:
    if name is not None and (count := store_weights(_builder(model.graph), STORAGE_TYPES[name])):
        report.note(
            f"{count} constants of the program are stored in {name}: its results, and a"
            " verification, differ by their rounding"
        )


def _store_half_weights(model: oir.Model, report: Report) -> None:
    for graph in filter(has_large_f32, each_graph(model)):
        for dtype, count in store_half_weights(_builder(graph)).items():
            report.casts[f"weight {dtype.short_name()}"] += count


def _builder(graph: oir.Graph) -> GraphBuilder:
    builder = GraphBuilder(graph, graph.opset_imports[""])
    builder.adopt(graph)
    return builder


def _stored(target: Target) -> set[str]:
    """The float types that the target has no operators for."""
    return {
        element
        for element in STORED_FLOATS
        if element not in ELEMENT_TYPES
        or not target.supports_cast(
            ELEMENT_TYPES[element], oir.DataType.FLOAT, opset=target.max_opset
        )
    }


def _target(options: Options) -> Target:
    try:
        target = load_target(options.target)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if options.opset is not None and not target.min_opset <= options.opset <= target.max_opset:
        raise UsageError(
            f"opset {options.opset} is outside {target.min_opset} to {target.max_opset},"
            f" the range of target {target.name}"
        )
    return target


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pauses Python's collection of cyclic garbage.

    It visits the growing graph again and again, and takes a quarter of the time of large programs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with freeing_removed_nodes():
            yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _timed(report: Report, stage: str) -> Iterator[None]:
    begin_stage(stage)
    start = time.perf_counter()
    yield
    report.seconds[stage] = time.perf_counter() - start


@contextmanager
def _depth_limited() -> Iterator[None]:
    """Turns a RecursionError into a LoadError. Nested regions and calls are walked recursively."""
    try:
        yield
    except RecursionError:
        raise LoadError("the program nests regions or calls too deeply to be translated") from None


class _Dump:
    """Writes the result of each stage and a log of the rules, if there is a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._count = 0
        if folder is not None:
            with writing(output_folder(folder)):
                folder.mkdir(parents=True, exist_ok=True)

    def module(self, stage: str, operation: ir.Operation) -> None:
        if self._folder is not None:
            text = operation.get_asm(enable_debug_info=True, large_elements_limit=16)
            self._write(stage, "mlir", str(text))

    def model(self, stage: str, model: oir.Model) -> None:
        if self._folder is not None:
            self._write(stage, "txt", str(model))

    @contextmanager
    def rule_log(self) -> Iterator[RuleLog | None]:
        """Logs the rules within the block to `rules.txt`, even if the block fails."""
        if self._folder is None:
            yield None
            return
        log, path = RuleLog(), self._folder / "rules.txt"
        try:
            yield log
        finally:
            with writing(path):
                path.write_text(str(log), encoding="utf-8")

    def _write(self, stage: str, suffix: str, text: str) -> None:
        assert self._folder is not None
        path = self._folder / f"{self._count:02}_{stage}.{suffix}"
        self._count += 1
        with writing(path):
            path.write_text(text, encoding="utf-8")

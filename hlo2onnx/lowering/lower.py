"""The lowering stage: a normalized module in, an ONNX model out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.custom_calls import known_translations
from hlo2onnx.errors import LoadError, TranslationError
from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.frontend.mlir.functions import functions_of, inlined
from hlo2onnx.frontend.signature import Signature
from hlo2onnx.ir.dependence import Dependence
from hlo2onnx.lowering.diagnosis import Diagnosis
from hlo2onnx.lowering.emitter import Emitter, NeedsOpset
from hlo2onnx.lowering.functions import KeptFunctions, may_be_kept
from hlo2onnx.lowering.model_io import (
    bind_inputs,
    bind_outputs,
    boundary_refusals,
    reserve_names,
)
from hlo2onnx.lowering.registry import Registry, load_handlers
from hlo2onnx.lowering.user_calls import user_handler
from hlo2onnx.lowering.walker import Walker
from hlo2onnx.options import Options, ir_version
from hlo2onnx.report import FIXED_KEY, Report
from hlo2onnx.targets import Target


def lower(
    module_operation: ir.Operation,
    function: str,
    signature: Signature,
    options: Options,
    target: Target,
    report: Report,
    diagnosis: Diagnosis | None = None,
) -> oir.Model:
    """Translates one function of a module.

    The opset is the requested one, or the newest that the target has by default, raised if the
    program needs a newer one. With a diagnosis, values of no node take the place of the results of
    refused ops.

    Raises:
        LoadError: The function has no results, or inlining its calls makes too many ops.
        TranslationError: Ops that cannot be translated, all of them.
    """
    if not signature.outputs:
        raise LoadError("the program returns nothing; a model needs an output")
    calls = known_translations(options.custom_calls)
    functions = functions_of(module_operation)
    _check_size(functions, function, options)
    lowering = _Lowering(
        functions,
        function,
        signature,
        options,
        target,
        report,
        Constants(),
        load_handlers().with_own(user_handler(*item) for item in calls.items()),
        diagnosis,
    )
    opset = options.opset or target.newer_opset
    while True:
        try:
            return lowering.attempt(opset)
        except NeedsOpset as needed:
            report.ops.clear()
            if diagnosis is not None:
                diagnosis.expansions.clear()
            report.note(needed.note(target))
            opset = needed.opset


def _check_size(functions: Mapping[str, ir.Operation], root: str, options: Options) -> None:
    keeps = options.functions == "keep"
    found = inlined(functions, root, lambda symbol: keeps and may_be_kept(symbol))
    if found.is_too_large:
        advice = "" if keeps else '\n  next   keep them: functions="keep" (--functions keep)'
        raise LoadError(f"the program has too many calls to inline: {found}{advice}")


STATES = "hlo2onnx.states"
"""Metadata of a model: JSON that maps an output to the input that takes its value in the next
step."""


@dataclass(frozen=True)
class _Lowering:
    """The parameters that stay the same when the lowering starts again with a newer opset."""

    functions: Mapping[str, ir.Operation]
    function: str
    signature: Signature
    options: Options
    target: Target
    report: Report
    constants: Constants
    registry: Registry
    diagnosis: Diagnosis | None

    def attempt(self, opset: int) -> oir.Model:
        """The model in this opset.

        Raises:
            NeedsOpset: The program needs a newer one.
            TranslationError: Ops that cannot be translated.
        """
        graph = oir.Graph([], [], nodes=[], name=self.function, opset_imports={"": opset})
        em = Emitter(graph, opset, self.options, self.target, self.report, self.constants)
        kept = KeptFunctions() if self.options.functions == "keep" else None
        walker = Walker(em, self.functions, self.registry, kept, self.diagnosis)
        function, signature = self.functions[self.function], self.signature
        refusals = boundary_refusals(em, function, signature.inputs, "argument")
        refusals += boundary_refusals(em, function, signature.outputs, "result")
        if refusals:
            raise TranslationError(refusals)
        arguments = bind_inputs(em, function, signature)
        output_names = reserve_names(em, signature.outputs)
        results = walker.body(self.function, arguments)
        if walker.refusals:
            if self.diagnosis is None:
                raise TranslationError(walker.refusals) from walker.cause
            self.diagnosis.refusals += walker.refusals
        bind_outputs(em, results, signature.outputs, output_names)
        if em.draws and Dependence(graph).repeats(em.draws):
            self.report.note(FIXED_KEY)
        self.report.opset = em.opset
        aliases = {
            str(graph.outputs[place].name): str(graph.inputs[index].name)
            for index, place in signature.aliases.items()
        }
        model = oir.Model(
            graph,
            ir_version=ir_version(em.opset),
            producer_name="hlo2onnx",
            metadata_props={STATES: json.dumps(aliases)} if aliases else None,
            functions=kept.as_functions() if kept else (),
        )
        em.forget()
        return model

"""The lowering stage: a normalized module in, an ONNX model out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.errors import LoadError, TranslationError
from hlo2onnx.lowering.boundary import (
    bind_inputs,
    bind_outputs,
    boundary_refusals,
    reserve_names,
)
from hlo2onnx.lowering.emitter import Emitter, NeedsOpset
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.lowering.walker import Walker
from hlo2onnx.mlir.constants import Constants
from hlo2onnx.options import DEFAULT_OPSET, Options, ir_version
from hlo2onnx.report import Report
from hlo2onnx.sources.signature import Signature
from hlo2onnx.targets import Target


def lower(
    module_operation: Any,
    function: str,
    signature: Signature,
    options: Options,
    target: Target,
    report: Report,
) -> oir.Model:
    """Translates one function of a module.

    The opset is the wanted one, or the default raised to what the program turns out to need.

    Raises:
        LoadError: The function has no results.
        TranslationError: Ops that cannot be translated, all of them.
    """
    if not signature.outputs:
        raise LoadError("the program returns nothing, and no runtime loads a model without outputs")
    constants = Constants(module_operation)
    opset = options.opset or min(DEFAULT_OPSET, target.max_opset)
    try:
        return _lower(
            module_operation, function, signature, options, target, report, opset, constants
        )
    except NeedsOpset as needed:
        report.ops.clear()
        report.note(f"opset {needed.opset} instead of {opset}: the program needs BitCast")
        opset = needed.opset
    return _lower(module_operation, function, signature, options, target, report, opset, constants)


def _lower(
    module_operation: Any,
    function: str,
    signature: Signature,
    options: Options,
    target: Target,
    report: Report,
    opset: int,
    constants: Constants,
) -> oir.Model:
    graph = oir.Graph([], [], nodes=[], name=function, opset_imports={"": opset})
    em = Emitter(graph, opset, options, target, report, constants)
    functions = functions_of(module_operation)
    walker = Walker(em, functions, load_handlers())
    refusals = boundary_refusals(functions[function], signature.inputs, "argument")
    refusals += boundary_refusals(functions[function], signature.outputs, "result")
    if refusals:
        raise TranslationError(refusals)
    arguments = bind_inputs(em, functions[function], signature.inputs)
    output_names = reserve_names(em, signature.outputs)
    results = walker.call(function, arguments)
    if walker.refusals:
        raise TranslationError(walker.refusals)
    bind_outputs(em, results, signature.outputs, output_names)
    report.opset = opset
    return oir.Model(graph, ir_version=ir_version(opset), producer_name="hlo2onnx")


def functions_of(module_operation: Any) -> dict[str, Any]:
    """The functions of a module by symbol."""
    operations: Sequence[Any] = list(module_operation.regions[0].blocks[0].operations)
    return {
        op.operation.attributes["sym_name"].value: op.operation
        for op in operations
        if op.operation.name == "func.func"
    }

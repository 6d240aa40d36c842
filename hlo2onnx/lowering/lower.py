"""The lowering stage: a normalized module in, an ONNX model out.

At the boundary a complex tensor is one float tensor with a trailing axis of 2 (re, im): the
convention of ONNX's own DFT. Images may have their channels in axis 1. Tokens have no counterpart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.custom_calls import known_translations
from hlo2onnx.errors import LoadError, Refusal, TranslationError, UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.frontend.mlir.functions import functions_of, too_many_ops
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPE, STORED_FLOATS, parts_of
from hlo2onnx.frontend.ports import channels_to_last, channels_to_second
from hlo2onnx.frontend.signature import (
    Bound,
    Port,
    Signature,
)
from hlo2onnx.ir.dependence import Dependence
from hlo2onnx.ir.dims import is_static
from hlo2onnx.ir.values import dtype_of, rank_of
from hlo2onnx.lowering.context import Diagnosis, Parts
from hlo2onnx.lowering.emitter import Emitter, NeedsOpset
from hlo2onnx.lowering.functions import KeptFunctions, may_be_kept
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.lowering.shape_arithmetic import extent_contents, value_of
from hlo2onnx.lowering.user_calls import user_handler
from hlo2onnx.lowering.walker import Walker
from hlo2onnx.options import Options, ir_version
from hlo2onnx.report import FIXED_KEY, Report
from hlo2onnx.targets import Target


def boundary_refusals(
    em: Emitter, function: ir.Operation, ports: Sequence[Port], kind: str
) -> list[Refusal]:
    """Refusals of inputs or outputs whose element type ONNX, or the explicit opset, does not have.

    Args:
        kind: "argument" or "result".
    """
    function_type = to_python(function.attributes["function_type"])
    types = function_type.inputs if kind == "argument" else function_type.results
    refusals = []
    for port in ports:
        try:
            for part in parts_of(types[port.position]):
                em.require_type(part.dtype)
        except UnsupportedOp as error:
            where = f"{kind} {port.name}"
            refusals.append(
                Refusal("func.func", str(types[port.position]), where, error.why, error.next)
            )
    return refusals


def bind_inputs(em: Emitter, function: ir.Operation, signature: Signature) -> list[Parts]:
    """Creates the graph's inputs; returns the parts of each argument of the MLIR function."""
    arguments = function.regions[0].blocks[0].arguments
    parts: list[list[oir.Value]] = [[] for _ in arguments]
    for port in signature.inputs:
        values = parts[port.position]
        # The members of a tuple are separate ports.
        values += _input(em, port, parts_of(arguments[port.position].type)[len(values)].dtype)
    for item in signature.bound:
        position = item.port.position
        parts[position] += _weight(em, item, parts_of(arguments[position].type)[0].dtype)
    em.has_symbols = not all(is_static(port.shape) for port in signature.inputs)
    for position, dim in signature.dims.items():
        (part,) = parts_of(arguments[position].type)
        parts[position].append(value_of(em, extent_contents(dim), part.dtype))
    return [tuple(values) for values in parts]


def _input(em: Emitter, port: Port, dtype: oir.DataType) -> Parts:
    dims = port.shape
    is_complex = port.element.startswith("complex")
    given = [*dims, 2] if is_complex else list(dims)
    if port.channels_second:
        given = [dims[axis] for axis in channels_to_second(len(dims))]
    value = em.value(port.name, dtype, given)
    em.main_graph.inputs.append(value)
    _note_stored(em, port, value)
    parts: Parts = (value,)
    if port.channels_second:
        em.scope = f"{port.name}/channels_last"
        parts = (em.transpose(value, channels_to_last(len(dims))),)
    elif is_complex:
        em.scope = f"{port.name}/parts"
        parts = tuple(em.Gather(value, em.i64(index), axis=len(dims)) for index in (0, 1))
    em.scope = ""
    return parts


def _note_stored(em: Emitter, port: Port, value: oir.Value) -> None:
    """Notes that an input or output holds the bits of floats as integers."""
    if port.element in STORED_FLOATS and dtype_of(value) == oir.DataType.UINT8:
        value.metadata_props[ELEMENT_TYPE] = port.element
        em.report.note(f"{value.name} is uint8 and holds the bits of {port.element} numbers")


def _weight(em: Emitter, item: Bound, dtype: oir.DataType) -> Parts:
    """An initializer named after the argument it was, in the type that it is stored in."""
    name, array = item.port.name, item.array
    if item.port.element in STORED_FLOATS and dtype == oir.DataType.UINT8:
        return (em.parameter(array.view(np.uint8), name),)
    if not item.port.element.startswith("complex"):
        return (em.cast(em.parameter(array, name), dtype),)
    return em.parameter(array.real, f"{name}/re"), em.parameter(array.imag, f"{name}/im")


def bind_outputs(
    em: Emitter, results: Sequence[Parts], ports: Sequence[Port], names: Sequence[str]
) -> None:
    """Makes each result an output under its reserved name.

    A result that is an input, a constant or another output gets a further node, since an ONNX value
    has one name and one role.
    """
    parts = [list(values) for values in results]
    taken: set[oir.Value] = set(em.main_graph.inputs)
    for port, name in zip(ports, names, strict=True):
        em.scope, em.metadata = f"{name}/output", {}
        pieces = parts[port.position]
        if port.element.startswith("complex"):
            value = _joined(em, pieces.pop(0), pieces.pop(0))
        else:
            value = pieces.pop(0)
        if port.channels_second:
            value = em.transpose(value, channels_to_second(rank_of(value)))
        if value in taken or value.producer() is None:
            value = em.Identity(value)
        taken.add(value)
        value.name = name
        _note_stored(em, port, value)
        em.main_graph.outputs.append(value)


def _joined(em: Emitter, real: oir.Value, imaginary: oir.Value) -> oir.Value:
    axis = rank_of(real)
    assert dtype_of(real) == dtype_of(imaginary)
    return em.concat([em.unsqueeze(real, [axis]), em.unsqueeze(imaginary, [axis])], axis)


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
    registry = load_handlers().with_own(user_handler(*item) for item in calls.items())
    constants = Constants()
    opset = options.opset or target.newer_opset
    while True:
        graph = oir.Graph([], [], nodes=[], name=function, opset_imports={"": opset})
        em = Emitter(graph, opset, options, target, report, constants)
        kept = KeptFunctions() if options.functions == "keep" else None
        walker = Walker(em, functions, registry, kept, diagnosis)
        try:
            return _translated(walker, function, signature)
        except NeedsOpset as needed:
            report.ops.clear()
            if diagnosis is not None:
                diagnosis.expansions.clear()
            report.note(needed.note(target))
            opset = needed.opset


def _check_size(functions: Mapping[str, ir.Operation], root: str, options: Options) -> None:
    keeps = options.functions == "keep"
    found = too_many_ops(functions, root, lambda symbol: keeps and may_be_kept(symbol))
    if found:
        advice = "" if keeps else '\n  next   keep them: functions="keep" (--functions keep)'
        raise LoadError(f"the program has too many calls to inline: {found}{advice}")


STATES = "hlo2onnx.states"
"""Metadata of a model: JSON that maps an output to the input that takes its value in the next
step."""


def _translated(walker: Walker, name: str, signature: Signature) -> oir.Model:
    """The model of a function, in the opset of the walker's emitter.

    Raises:
        NeedsOpset: The program needs a newer one.
        TranslationError: Ops that cannot be translated.
    """
    em, kept = walker.em, walker.kept
    graph, function = em.main_graph, walker.context.functions[name]
    refusals = boundary_refusals(em, function, signature.inputs, "argument")
    refusals += boundary_refusals(em, function, signature.outputs, "result")
    if refusals:
        raise TranslationError(refusals)
    arguments = bind_inputs(em, function, signature)
    # Taken before any node can take them.
    output_names = [em.names.unique(port.name) for port in signature.outputs]
    results = walker.body(name, arguments)
    if walker.refusals:
        if walker.diagnosis is None:
            raise TranslationError(walker.refusals) from walker.cause
        walker.diagnosis.refusals += walker.refusals
    bind_outputs(em, results, signature.outputs, output_names)
    if em.draws and Dependence(graph).repeats(em.draws):
        em.report.note(FIXED_KEY)
    em.report.opset = em.opset
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

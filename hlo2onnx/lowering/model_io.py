"""The model's inputs and outputs.

At the boundary a complex tensor is one float tensor with a trailing axis of 2 (re, im): the
convention of ONNX's own DFT. Images may have their channels in axis 1. Tokens have no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import Refusal, UnsupportedOp
from hlo2onnx.frontend.layouts import channels_to_last, channels_to_second
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPE, STORED_FLOATS, parts_of
from hlo2onnx.frontend.signature import (
    Bound,
    Port,
    Signature,
)
from hlo2onnx.ir.dims import is_static
from hlo2onnx.ir.values import dtype_of, rank_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import extent_contents, value_of


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
    if port.channels_second:
        order = channels_to_second(len(dims))
        value = em.value(port.name, dtype, [dims[axis] for axis in order])
        em.main_graph.inputs.append(value)
        _note_stored(em, port, value)
        em.scope = f"{port.name}/channels_last"
        moved = em.transpose(value, channels_to_last(len(dims)))
        em.scope = ""
        return (moved,)
    if not port.element.startswith("complex"):
        value = em.value(port.name, dtype, dims)
        em.main_graph.inputs.append(value)
        _note_stored(em, port, value)
        return (value,)
    value = em.value(port.name, dtype, [*dims, 2])
    em.main_graph.inputs.append(value)
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


def reserve_names(em: Emitter, ports: Sequence[Port]) -> list[str]:
    """Takes the outputs' names before any node can."""
    return [em.names.unique(port.name) for port in ports]


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

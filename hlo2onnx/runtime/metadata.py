"""Writes what a model is into the model: its signature, its source, and its versions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import jaxlib
import onnx_ir as oir
from jaxlib.mlir import ir

import hlo2onnx
from hlo2onnx.frontend.source import Source
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.tensors import STORED_AS_BITS, Tensor
from hlo2onnx.ir.traversal import reads
from hlo2onnx.report import Report
from hlo2onnx.runtime.calling import describe

_IN_PLACE = frozenset({"ScatterElements", "ScatterND", "TensorScatter"})
"""Operators that ONNX Runtime runs without a copy if the output has the memory of `data`."""

_COPIES = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
"""Operators whose results never have the memory of the operand that they read."""


def describe_model(model: oir.Model, source: Source, report: Report) -> None:
    """Adds the signature to the metadata of a model, and a text to each input and output.

    The metadata are a `Description` as JSON. The hash of the source leaves out large constants.
    """
    graph = model.graph
    in_place = updated_in_place(graph, source.signature.aliases)
    found = describe(source.signature, sorted(in_place))
    found = replace(
        found,
        inputs=_named(found.inputs, graph.inputs),
        outputs=_named(found.outputs, graph.outputs),
        origin={
            "source": source.description,
            "sha256": source_hash(source),
            "target": report.target,
            "hlo2onnx": hlo2onnx.__version__,
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
        },
    )
    model.producer_version = hlo2onnx.__version__
    model.metadata_props.update(found.to_metadata())
    states = {graph.outputs[output]: port for port, output in _states(found).items()}
    for value, tensor in zip(graph.inputs, found.inputs, strict=True):
        value.doc_string = _text(tensor, value)
    for value, tensor in zip(graph.outputs, found.outputs, strict=True):
        state = states.get(value)
        next_ = f"; the next state of {found.inputs[state].name}" if state is not None else ""
        value.doc_string = _text(tensor, value) + next_


def _states(description: Description) -> Mapping[int, int]:
    return {int(place): output for place, output in description.states.items()}


def _named(tensors: tuple[Tensor, ...], values: Sequence[oir.Value]) -> tuple[Tensor, ...]:
    pairs = zip(tensors, values, strict=True)
    return tuple(replace(tensor, name=str(value.name)) for tensor, value in pairs)


def _text(tensor: Tensor, value: oir.Value) -> str:
    """What an input or output is, for the user of another runtime."""
    text = str(tensor)
    if tensor.jax_type.startswith("key"):
        text += f": the data of a PRNG key, {tensor.jax_type}"
    elif tensor.jax_type:
        text += f": stands for {tensor.jax_type}"
    if tensor.dtype.startswith("complex"):
        text += ", as pairs (re, im) in the last axis"
    elif tensor.dtype in STORED_AS_BITS and value.dtype == oir.DataType.UINT8:
        text += ", as the bits in uint8"
    if tensor.channels_second:
        text += "; the program has the channels last, the model has them second"
    return text


def source_hash(source: Source) -> str:
    """The SHA-256 hash of the text of a program, without locations and large constants."""
    operation: ir.Operation = source.module.operation
    text = operation.get_asm(enable_debug_info=False, large_elements_limit=16)
    return hashlib.sha256(f"{source.function}\n{text}".encode()).hexdigest()


def updated_in_place(graph: oir.Graph, aliases: Mapping[int, int]) -> frozenset[int]:
    """Outputs that can overwrite their state.

    The node that makes such an output updates some elements. Other nodes copy elements of the state
    before it runs, as it needs what they make.

    Args:
        aliases: Places of the outputs, by the places of their states among the inputs.
    """
    found = set()
    for place, output in aliases.items():
        maker = graph.outputs[output].producer()
        if maker is None or maker.op_type not in _IN_PLACE:
            continue
        state = graph.inputs[place]
        others = {use.node for use in state.uses() if (use.node, use.idx) != (maker, 0)}
        others = {node for node in others if node.op_type != "Shape"}
        copies = all(node.op_type in _COPIES for node in others)
        if maker.inputs[0] is state and copies and others <= _before(maker):
            found.add(output)
    return frozenset(found)


def _before(node: oir.Node) -> set[oir.Node]:
    """The nodes that a node waits for."""
    found: set[oir.Node] = set()
    left = [node]
    while left:
        makers = {maker for value in reads(left.pop()) if (maker := value.producer()) is not None}
        left += makers - found
        found |= makers
    return found

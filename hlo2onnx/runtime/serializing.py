"""Serialize models without a change to them and without copies of their weights.

Several threads may serialize one model. So nothing here sets a name or a value of the model:
`onnx_ir` sees a view of the graph with initializers of its own.

A model in memory has all constants in its main graph. Tools such as `onnx.compose` and
`onnx.utils.extract_model` look only at the inputs that a node names, and lose those that its bodies
read. So a serialized model has constants where they are read:

* Constants of fewer than `COPIED_BYTES` are in each body that reads them.
* Larger ones are in the body if it alone reads them. Others stay in the main graph, so that no
  weight is stored twice.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import UsageError
from hlo2onnx.interface.description import one_thread
from hlo2onnx.ir.names import Names
from hlo2onnx.options import RESERVED
from hlo2onnx.runtime.files import MODEL_BYTES

COPIED_BYTES = 4096
"""Smaller constants may be stored several times."""

MOVED_BYTES = 1 << 26
"""If the larger constants of bodies have more bytes in total, they stay in the main graph:
protobuf would copy them several times."""


@dataclass(frozen=True)
class BodyConstants:
    """The constants of a model that bodies will have.

    Attributes:
        bodies: For each body, by its `id`, the names of its constants: outer name -> own name.
        moved: The names of constants that the main graph does not have any more.
    """

    bodies: dict[int, dict[str, str]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)


def constants_of_bodies(
    graph: oir.Graph,
    references: Mapping[str, oir.TensorProtocol],
    apart: Collection[str] = (),
) -> BodyConstants:
    """Decides which body has which constants.

    Args:
        graph: The main graph.
        references: By name, the constants whose bytes are in another file.
        apart: Names of constants that stay in the main graph.
    """
    staying = {*apart, *(value.name for value in graph.inputs)}  # inputs have defaults
    readers = {
        name: _readers(value) for name, value in graph.initializers.items() if name not in staying
    }
    large = {
        name
        for name, value in graph.initializers.items()
        if name in readers
        and value.const_value is not None
        and value.const_value.nbytes >= COPIED_BYTES
    }
    movable = {name for name in large if len(readers[name]) == 1 and graph not in readers[name]}
    if sum(_bytes(graph, name) for name in movable - references.keys()) > MOVED_BYTES:
        movable &= references.keys()
    found, names = BodyConstants(), None
    for name, graphs in readers.items():
        bodies = [each for each in graphs if each is not graph]
        if not bodies or (name in large and name not in movable):
            continue
        names = names or Names.of(graph)
        if graph not in graphs:
            found.moved.add(name)
        for index, body in enumerate(bodies):
            keeps = name in found.moved and index == 0
            found.bodies.setdefault(id(body), {})[name] = name if keeps else names.unique(name)
    return found


def _readers(value: oir.Value) -> list[oir.Graph]:
    """The graphs whose nodes read a value, or that return it."""
    if value.is_graph_output():
        return []
    graphs = (node.graph for node, _ in value.uses())
    return list(dict.fromkeys(each for each in graphs if isinstance(each, oir.Graph)))


def _bytes(graph: oir.Graph, name: str) -> int:
    tensor = graph.initializers[name].const_value
    return 0 if tensor is None else tensor.nbytes


def add_to_bodies(
    nodes: Iterable[oir.Node],
    messages: Iterable[onnx.NodeProto],
    constants: BodyConstants,
    tensors: Mapping[str, onnx.TensorProto],
) -> None:
    """Adds the constants to the bodies in messages.

    Args:
        nodes: The nodes of a graph.
        messages: Their messages, in the same order.
        constants: What to add.
        tensors: The contents of the constants, by name.
    """
    for node, message in zip(nodes, messages, strict=True):
        for attribute in message.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            body = node.attributes[attribute.name].as_graph()
            renamed = constants.bodies.get(id(body), {})
            for outer, own in renamed.items():
                attribute.g.initializer.add().CopyFrom(tensors[outer])
                attribute.g.initializer[-1].name = own
            for inner in attribute.g.node if renamed else ():
                inner.input[:] = [renamed.get(name, name) for name in inner.input]
            add_to_bodies(body, attribute.g.node, constants, tensors)


Buffer: TypeAlias = bytes | bytearray | memoryview

SMALL_BYTES = 1024
"""Constants of fewer bytes stay in the model."""

_PIECE_BYTES = 1 << 24
"""Arrays that are not contiguous are copied piece by piece."""

_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


class Writable(Protocol):
    """A binary file, as far as it is needed here."""

    def write(self, content: Buffer, /) -> object:
        """Appends bytes."""


def to_proto(model: oir.Model) -> onnx.ModelProto:
    """The model as a protobuf message."""
    return _to_proto(model, {}, constants_of_bodies(model.graph, {}))


_NOTES = ("metadata_props", "doc_string")


def strip(message: Any) -> None:
    """Removes metadata and doc strings from a protobuf message and from all that is in it."""
    for descriptor, content in message.ListFields():
        if descriptor.name in _NOTES:
            message.ClearField(descriptor.name)
        elif descriptor.message_type is not None:
            for item in [content] if hasattr(content, "ListFields") else content:
                strip(item)


def _own_metadata(model: oir.Model) -> dict[str, str]:
    """The metadata of a model without those of hlo2onnx."""
    items, ours = model.metadata_props.items(), one_thread().items()
    return {
        key: text for key, text in items if not (key.startswith(RESERVED) or (key, text) in ours)
    }


def large_weights(model: oir.Model) -> dict[str, oir.TensorProtocol]:
    """The large constants of a model, by name."""
    tensors = ((name, value.const_value) for name, value in model.graph.initializers.items())
    return {
        name: tensor
        for name, tensor in tensors
        if tensor is not None and tensor.nbytes >= SMALL_BYTES
    }


def write_model(
    model: oir.Model,
    path: Path,
    file: Writable,
    references: Mapping[str, oir.TensorProtocol],
    without_metadata: bool = False,
    apart: Collection[str] = (),
) -> None:
    """Writes a model in the format of protobuf.

    Protobuf would copy the weights several times. Its fields can have any order, so the weights
    follow the fields that protobuf writes.

    Args:
        model: The model.
        path: The path to name in errors.
        file: Where to.
        references: By name, the weights that are in another file.
        without_metadata: Whether to leave out doc strings and our metadata.
        apart: Names of weights that the main graph has, and no body. Those that are not in
            `references` are inputs.

    Raises:
        UsageError: The model is too large for a protobuf. Nothing is written then.
    """
    constants = constants_of_bodies(model.graph, references, apart)
    inputs = [name for name in apart if name not in references]
    elsewhere = {*references, *constants.moved, *inputs}
    weights = {
        name: tensor
        for name, tensor in large_weights(model).items()
        if name not in elsewhere and _is_raw(tensor)
    }
    proto = _to_proto(model, references, constants, weights, inputs)
    if without_metadata:
        strip(proto)
        for key, text in _own_metadata(model).items():
            proto.metadata_props.add(key=key, value=text)
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    entries = [(_tensor_head(name, tensor), tensor) for name, tensor in weights.items()]
    size = len(graph) + sum(
        len(_field(_INITIALIZER, len(head) + tensor.nbytes)) + len(head) + tensor.nbytes
        for head, tensor in entries
    )
    start = proto.SerializeToString() + _field(_GRAPH, size)
    if len(start) + size > MODEL_BYTES:
        raise UsageError(f"{path} would be larger than the 2 GB of a protobuf: use external data")
    file.write(start + graph)
    for head, tensor in entries:
        file.write(_field(_INITIALIZER, len(head) + tensor.nbytes) + head)
        write_tensor(tensor, file)


def write_tensor(tensor: oir.TensorProtocol, file: Writable) -> None:
    """Writes the bytes of a tensor, as `raw_data` has them.

    `tensor.tofile` would hide why the system refuses to write.
    """
    array = tensor.numpy()
    if tensor.dtype.bitwidth < 8 or sys.byteorder == "big" or not array.ndim:
        file.write(tensor.tobytes())
        return
    if array.flags.c_contiguous:
        file.write(array.reshape(-1).view(np.uint8).data)
        return
    rows = max(1, len(array) * _PIECE_BYTES // array.nbytes)
    for start in range(0, len(array), rows):
        piece = np.ascontiguousarray(array[start : start + rows])
        file.write(piece.reshape(-1).view(np.uint8).data)


def _to_proto(
    model: oir.Model,
    references: Mapping[str, oir.TensorProtocol],
    constants: BodyConstants,
    without: Iterable[str] = (),
    inputs: Collection[str] = (),
) -> onnx.ModelProto:
    """A model as a message, some of its weights replaced, in bodies, inputs or left out."""
    graph, left_out = model.graph, constants.moved.union(without, inputs)
    view = copy.copy(model)
    view.graph = oir.GraphView(  # type: ignore[assignment]
        [*graph.inputs, *(graph.initializers[name] for name in inputs)],
        graph.outputs,
        nodes=graph,
        initializers=[
            _initializer(value, references.get(name, value.const_value))
            for name, value in graph.initializers.items()
            if name not in left_out
        ],
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    proto = oir.to_proto(view)
    if constants.bodies:
        wanted = set().union(*constants.bodies.values())
        tensors = {
            name: _tensor(references.get(name, graph.initializers[name].const_value))
            for name in wanted
        }
        add_to_bodies(graph, proto.graph.node, constants, tensors)
    return proto


def _tensor(tensor: oir.TensorProtocol | None) -> onnx.TensorProto:
    assert tensor is not None
    return oir.serde.serialize_tensor(tensor)


def _initializer(value: oir.Value, tensor: oir.TensorProtocol | None) -> oir.Value:
    """A value like another one, with a tensor of its own, since `onnx_ir` sets its name."""
    made = oir.Value(
        name=value.name,
        shape=value.shape,
        type=value.type,
        doc_string=value.doc_string,
        const_value=copy.copy(tensor),
        metadata_props=value.metadata_props,
    )
    made.meta.update(value.meta)
    return made


def _tensor_head(name: str, tensor: oir.TensorProtocol) -> bytes:
    """The bytes of a TensorProto before its content."""
    head = onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=tensor.shape.numpy())
    content: bytes = head.SerializeToString()
    return content + _field(_RAW_DATA, tensor.nbytes)


def _field(number: int, length: int) -> bytes:
    """The bytes of protobuf before a field of this length."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _is_raw(tensor: oir.TensorProtocol) -> bool:
    """Whether a tensor is nothing but its content."""
    return isinstance(tensor, oir.Tensor) and not (tensor.metadata_props or tensor.doc_string)

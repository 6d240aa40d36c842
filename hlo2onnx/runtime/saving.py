"""Writing models, their weights inside or in one file beside them.

Weights are written straight from the memory they are in, one after the other, and those in a file
of their own once where they are equal, also for several models that share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import UsageError
from hlo2onnx.runtime.output_paths import output_file, writing

EXTERNAL_DATA_BYTES = 1 << 30
"""Models with more weight bytes are saved with external data: a protobuf ends at 2 GB."""

MAX_MODEL_BYTES = (1 << 31) - 1
"""What protobuf reads at most."""

MAPPED_BYTES = 1 << 26
"""Models with more weight bytes are run from a file: the runtime maps it, and copies bytes."""

SMALL_BYTES = 1024
"""Constants of fewer bytes stay in the model."""

ALIGNMENT = 4096
"""Weights begin at multiples of a page, so that runtimes can map them."""


def weight_bytes(model: oir.Model) -> int:
    """Bytes of all constants of a model."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def save_models(models: Mapping[Path, oir.Model], data: Path | None) -> None:
    """Writes models.

    Args:
        models: By the path to write them to; their folders must exist.
        data: The file for their weights, in the same folder; None leaves weights in the models.

    Raises:
        UsageError: A path is no file, a folder does not exist, the weights would not lie beside a
            model, or they are too many to be in it.
        WriteError: A file cannot be written.
    """
    for path in models:
        output_file(path, "model.onnx")
        if data is not None and path.parent != data.parent:
            raise UsageError(f"the weights {data} must lie beside {path}")
    with ExitStack() as stack:
        if data is not None:
            stack.enter_context(writing(output_file(data, "weights.data")))
            writer = _Writer(stack.enter_context(data.open("wb")), data, len(models) > 1)
            for model in models.values():
                stack.enter_context(writer.outside(model))
        for path, model in models.items():
            with writing(path):
                _write_model(model, path)


def _write_model(model: oir.Model, path: Path) -> None:
    """Writes a model as protobuf would: fields may come in any order, so that the weights, of which
    protobuf makes several copies, can follow what it has written.

    Raises:
        UsageError: It is too large for a protobuf. Nothing is written then.
    """
    initializers = model.graph.initializers
    weights = {name: tensor for name, tensor in _weights(model) if _is_raw(tensor)}
    known = dict(initializers)
    try:
        for name in weights:
            del initializers[name]
        proto = oir.to_proto(model)
    finally:
        initializers.clear()
        initializers.update(known)
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    entries = [(_tensor_head(name, tensor), tensor) for name, tensor in weights.items()]
    size = len(graph) + sum(
        len(_field(_INITIALIZER, len(head) + tensor.nbytes)) + len(head) + tensor.nbytes
        for head, tensor in entries
    )
    start = proto.SerializeToString() + _field(_GRAPH, size)
    if len(start) + size > MAX_MODEL_BYTES:
        raise UsageError(f"{path} would be larger than the 2 GB of a protobuf: use external data")
    with path.open("wb") as file:
        file.write(start + graph)
        for head, tensor in entries:
            file.write(_field(_INITIALIZER, len(head) + tensor.nbytes) + head)
            tensor.tofile(file)  # type: ignore[attr-defined]


_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER


def _tensor_head(name: str, tensor: oir.TensorProtocol) -> bytes:
    """A TensorProto up to its content."""
    head = onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=tensor.shape.numpy())
    content: bytes = head.SerializeToString()
    return content + _field(_RAW_DATA, tensor.nbytes)


def _field(number: int, length: int) -> bytes:
    """How protobuf begins a field of this many bytes."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _weights(model: oir.Model) -> list[tuple[str, oir.TensorProtocol]]:
    """The large constants of a model, by name."""
    tensors = ((name, value.const_value) for name, value in model.graph.initializers.items())
    return [
        (name, tensor)
        for name, tensor in tensors
        if tensor is not None and tensor.nbytes >= SMALL_BYTES
    ]


def _is_raw(tensor: oir.TensorProtocol) -> bool:
    """Whether the content is all there is to a tensor."""
    return isinstance(tensor, oir.Tensor) and not (tensor.metadata_props or tensor.doc_string)


class _Writer:
    """Appends weights to a file, each once.

    Args:
        file: Where to.
        path: Of the file.
        by_content: Whether to look for equal contents, as several models have them; one model
            holds none twice.
    """

    def __init__(self, file: BinaryIO, path: Path, by_content: bool) -> None:
        self._file = file
        self._path = path
        self._by_content = by_content
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}

    @contextmanager
    def outside(self, model: oir.Model) -> Iterator[None]:
        """Writes a model's weights; within the block the model refers to the file."""
        values = [(model.graph.initializers[name], tensor) for name, tensor in _weights(model)]
        try:
            for value, tensor in values:
                value.const_value = self._written(tensor)
            yield
        finally:
            for value, tensor in values:
                value.const_value = tensor

    def _written(self, tensor: oir.TensorProtocol) -> oir.ExternalTensor:
        key = _content_key(tensor) if self._by_content else (id(tensor),)
        if key not in self._known:
            self._file.seek(-self._file.tell() % ALIGNMENT, 1)
            start = self._file.tell()
            tensor.tofile(self._file)  # type: ignore[attr-defined]
            self._known[key] = (start, self._file.tell() - start)
        offset, length = self._known[key]
        return oir.ExternalTensor(
            self._path.name,
            offset,
            length,
            tensor.dtype,
            shape=tensor.shape,  # type: ignore[arg-type]
            name=str(tensor.name),
            base_dir=self._path.parent,
        )


def _content_key(tensor: oir.TensorProtocol) -> tuple[object, ...]:
    array = np.ascontiguousarray(tensor.numpy())
    digest = hashlib.blake2b(array.view(np.uint8).data if array.size else b"").digest()
    return str(tensor.dtype), tuple(tensor.shape), digest

"""Writing models, their weights inside or in one file beside them.

Weights are written straight from the memory they are in, one after the other, and equal ones once,
also those of several models that share a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import UsageError

EXTERNAL_DATA_BYTES = 1 << 30
"""Models with more weight bytes are saved with external data: a protobuf ends at 2 GB."""

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
        UsageError: A folder does not exist, or the weights would not lie beside a model.
        OSError: A file cannot be written.
    """
    for path in models:
        if not path.parent.is_dir():
            raise UsageError(f"cannot save {path}: there is no folder {path.parent}")
        if data is not None and path.parent != data.parent:
            raise UsageError(f"the weights {data} must lie beside {path}")
    with ExitStack() as stack:
        if data is not None:
            writer = _Writer(stack.enter_context(data.open("wb")), data, len(models) > 1)
            for model in models.values():
                stack.enter_context(writer.outside(model))
        for path, model in models.items():
            path.write_bytes(oir.to_proto(model).SerializeToString())


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
        values = [
            (value, value.const_value)
            for value in model.graph.initializers.values()
            if value.const_value is not None and value.const_value.nbytes >= SMALL_BYTES
        ]
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

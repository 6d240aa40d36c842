"""Save models, with their weights inside or in one file beside them.

A path has the old model until it has the new one. Models that share a file of weights have equal
weights there once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import UsageError, WriteError
from hlo2onnx.runtime.data_files import (
    data_name,
    default_data,
    earlier_data,
    has_content,
    remove_unused,
)
from hlo2onnx.runtime.output_paths import output_file, writing
from hlo2onnx.runtime.replacing import NewFile, folder_lock, target_of
from hlo2onnx.runtime.serializing import Writable, large_weights, write_model, write_tensor

EXTERNAL_DATA_BYTES = 1 << 30
"""Models with more weight bytes are saved with external data: a protobuf ends at 2 GB."""

MAPPED_BYTES = 1 << 26
"""Models with more weight bytes are run from a file: the runtime maps it, and copies bytes."""

ALIGNMENT = 4096
"""Weights begin at multiples of a page, so that runtimes can map them."""


def weight_bytes(model: oir.Model) -> int:
    """Bytes of all constants of a model."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def save_models(models: Mapping[Path, oir.Model], data: Path | None) -> None:
    """Writes models, each of which replaces the old model of its path in one step.

    The file of weights has a hash of its content in its name, and is there before the models are.
    Weights of earlier saves are removed when no file in the folder mentions them.

    Args:
        models: The models by path, all in one folder, which must exist.
        data: The file for their weights in that folder, without the hash. None: the weights are
            in the models.

    Raises:
        UsageError: A path is no file, a folder does not exist, the weights would not lie beside a
            model, or they are too many to be in it.
        WriteError: A file cannot be written. The old models are still there, or some of several
            are replaced.
    """
    for path in models:
        output_file(path, "model.onnx")
        if data is not None and path.parent != data.parent:
            raise UsageError(f"the weights {data} must lie beside {path}")
    with ExitStack() as stack:
        weights = None
        if data is not None:
            with writing(data):
                like = next(filter(Path.is_file, models), None)
                file = stack.enter_context(NewFile(data.parent, like))
                weights = _Weights(data, file, models.values())
        finished: dict[Path, NewFile] = {}
        for path, model in models.items():
            references = weights.references(model) if weights else {}
            with writing(path):
                target = target_of(path)
                if target.exists() and not target.is_file():  # a device or a pipe
                    with target.open("wb") as device:
                        write_model(model, path, device, references)
                    continue
                finished[path] = stack.enter_context(NewFile(target.parent, target))
                write_model(model, path, finished[path].file, references)
                finished[path].finish()
        if models:
            _put(finished, weights, next(iter(models)).parent)


def write_for_runtime(model: oir.Model, folder: Path) -> Path:
    """Writes a model and a file of its weights in a temporary folder, from which it is run soon.

    Raises:
        WriteError: A file cannot be written.
    """
    path = folder / "model.onnx"
    with writing(path):
        with default_data(path).open("wb") as file:
            places = _append_weights([model], file)
        references = _references(model, places, default_data(path))
        with path.open("wb") as file:
            write_model(model, path, file, references)
    return path


class _Weights:
    """A finished file with the weights of models, not yet in its place.

    Args:
        data: The path of the file without the hash.
        file: The file.
        models: The models.

    Attributes:
        path: The path of the file.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, data: Path, file: NewFile, models: Collection[oir.Model]) -> None:
        hashed = _HashedFile(file.file)
        self._places = _append_weights(models, hashed)
        self._file = file
        file.finish()
        self._digest = hashed.digest.hexdigest()
        self.data = data
        self.path = data.with_name(data_name(data, self._digest))

    def references(self, model: oir.Model) -> dict[str, oir.TensorProtocol]:
        """References of a model to the file, by the names of the weights."""
        return _references(model, self._places, self.path)

    def put(self) -> bool:
        """Puts the file in its place, and returns whether it was not there.

        Raises:
            WriteError: The system does not allow it.
        """
        if not self._places or has_content(self.path, self._digest):
            return False
        with writing(self.path):
            self._file.put(self.path)
        return True


def _put(models: Mapping[Path, NewFile], weights: _Weights | None, folder: Path) -> None:
    """Puts finished files in their places, and removes weights that nothing needs any more.

    Raises:
        WriteError: The system does not allow it.
    """
    names = [default_data(path) for path in models]
    with folder_lock(folder) as is_locked:
        unused = earlier_data(folder, models, [*names, weights.data] if weights else names)
        is_new = weights.put() if weights else False
        if weights:
            unused.discard(weights.path)
        try:
            for path, file in models.items():
                with writing(path):
                    file.put(target_of(path))
        except WriteError:
            if weights and is_new:
                remove_unused({weights.path})  # unless one of several models is in its place
            raise
        if is_locked:
            remove_unused(unused)


class _HashedFile:
    """A file and the SHA-256 hash of what is written to it."""

    def __init__(self, file: Writable) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, content: Any, /) -> None:
        """Appends bytes."""
        self.digest.update(content)
        self._file.write(content)


_Places = dict[int, tuple[int, int]]
"""Offset and length of weights in a file, by the `id` of the tensor."""


def _append_weights(models: Collection[oir.Model], file: Writable) -> _Places:
    """Writes the large weights of models to an empty file, each once.

    Weights of several models are one if their contents are equal, those of one model if they are
    the same object.
    """
    places: _Places = {}
    by_content: dict[tuple[object, ...], tuple[int, int]] = {}
    end = 0
    for tensor in (tensor for model in models for tensor in large_weights(model).values()):
        if id(tensor) in places:
            continue
        key = _content_key(tensor) if len(models) > 1 else (id(tensor),)
        if key not in by_content:
            gap = -end % ALIGNMENT
            file.write(bytes(gap))
            by_content[key] = end + gap, tensor.nbytes
            write_tensor(tensor, file)
            end += gap + tensor.nbytes
        places[id(tensor)] = by_content[key]
    return places


def _references(model: oir.Model, places: _Places, data: Path) -> dict[str, oir.TensorProtocol]:
    """References to a file with the large weights of a model, by the names of the weights."""
    return {
        name: oir.ExternalTensor(
            data.name,
            *places[id(tensor)],
            tensor.dtype,
            shape=tensor.shape,  # type: ignore[arg-type]
            name=name,
            base_dir=data.parent,
        )
        for name, tensor in large_weights(model).items()
    }


def _content_key(tensor: oir.TensorProtocol) -> tuple[object, ...]:
    array = np.ascontiguousarray(tensor.numpy())
    digest = hashlib.blake2b(array.view(np.uint8).data if array.size else b"").digest()
    return str(tensor.dtype), tuple(tensor.shape), digest

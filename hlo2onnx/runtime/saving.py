"""Save models, with their weights inside, in one file beside them, or left out.

A path has the old model until it has the new one. Models that share a file of weights have equal
weights there once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import UsageError
from hlo2onnx.ir.weights import weight_of
from hlo2onnx.runtime.files import (
    NewFile,
    data_name,
    default_data,
    earlier_data,
    folder_lock,
    has_content,
    remove_unused,
    target_of,
)
from hlo2onnx.runtime.paths import output_file, writing
from hlo2onnx.runtime.serializing import (
    SMALL_BYTES,
    Buffer,
    Writable,
    large_weights,
    write_model,
    write_tensor,
)

EXTERNAL_DATA_BYTES = 1 << 30
"""Models with more weight bytes get external data. A protobuf has at most 2 GB."""

MAPPED_BYTES = 1 << 26
"""Models with more weight bytes run from a file. The runtime maps files, and copies bytes."""

ALIGNMENT = 4096
"""Weights start at multiples of a page, so that runtimes can map them."""


def weight_bytes(model: oir.Model) -> int:
    """Bytes of all constants of a model."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def save_models(
    models: Mapping[Path, oir.Model],
    data: Path | None,
    strip: bool = False,
    weights: bool | Literal["inputs"] = True,
    hashed: bool = True,
) -> None:
    """Writes models, each of which replaces the old model of its path in one step.

    The file of weights has a hash of its content in its name, and is there before the models are.
    Weights of earlier saves are removed when no file in the folder mentions them.

    Args:
        models: The models by path, all in one folder, which must exist.
        data: The file for their weights in that folder, without the hash. None: the weights are
            in the models.
        strip: Whether to leave out doc strings and our metadata.
        weights: False leaves out weights, which only have references then. "inputs" makes them
            inputs.
        hashed: Whether the name of the file gets the hash. Without it, the new file replaces that
            of an earlier save before the models are replaced.

    Raises:
        UsageError: A path is not a file, a folder does not exist, the weights are not in the folder
            of a model, or a model with its weights is too large.
        WriteError: A file cannot be written. The old models are still there, or some of several
            are replaced.
    """
    for path in models:
        output_file(path, "model.onnx")
        if data is not None and path.parent != data.parent:
            raise UsageError(f"the weights {data} must lie beside {path}")
    with ExitStack() as stack:
        file = None
        if data is not None:
            like = next(filter(Path.is_file, models), None)
            file = _Weights(data, _Layout(models.values()), like, stack, hashed)
        finished: dict[Path, NewFile] = {}
        for path, model in models.items():
            references = file.references(model) if file else {}
            apart = weight_names(model) if weights == "inputs" else []
            if not weights:
                references = {  # to a file that does not exist
                    name: _reference(name, tensor, default_data(path), 0)
                    for name, tensor in stored_apart(model).items()
                }
                apart = list(references)
            with writing(path):
                target = target_of(path)
                if target.exists() and not target.is_file():  # a device or a pipe
                    with target.open("wb") as device:
                        write_model(model, path, device, references, strip, apart)
                    continue
                finished[path] = stack.enter_context(NewFile(target.parent, target))
                write_model(model, path, finished[path].file, references, strip, apart)
                finished[path].finish()
        if models:
            _put(finished, file, next(iter(models)).parent)


def write_for_runtime(model: oir.Model, folder: Path) -> Path:
    """Writes a model and a file of its weights in a temporary folder, from which it is run soon.

    Raises:
        WriteError: A file cannot be written.
    """
    path = folder / "model.onnx"
    layout, data = _Layout([model]), default_data(path)
    with writing(path):
        with data.open("wb") as file:
            layout.write(file)
        with path.open("wb") as file:
            write_model(model, path, file, layout.references(model, data))
    return path


class _Weights:
    """A file with the weights of models. It is written, but not yet in its place.

    It is not written if it is there from an earlier save.

    Args:
        data: The path of the file without the hash.
        layout: The content of the file.
        like: A file whose permissions it gets.
        stack: Removes the file at the end, if it is not in its place.
        hashed: Whether its name gets the hash.

    Attributes:
        path: The path of the file.

    Raises:
        WriteError: The file cannot be written.
    """

    def __init__(
        self, data: Path, layout: _Layout, like: Path | None, stack: ExitStack, hashed: bool
    ) -> None:
        digest = layout.digest()
        self.data = data
        self.path = data.with_name(data_name(data, digest)) if hashed else data
        self._layout = layout
        self._like = like
        self._stack = stack
        self._file: NewFile | None = None
        if not layout.is_empty and not has_content(self.path, digest):
            self._write()

    def _write(self) -> None:
        with writing(self.path):
            self._file = self._stack.enter_context(NewFile(self.path.parent, self._like))
            self._layout.write(self._file.file)
            self._file.finish()

    def references(self, model: oir.Model) -> dict[str, oir.TensorProtocol]:
        """References of a model to the file, by the names of the weights."""
        return self._layout.references(model, self.path)

    def put(self) -> bool:
        """Puts the file in its place, and returns whether it was not there.

        Raises:
            WriteError: The system does not allow it.
        """
        is_new = not self.path.exists()
        if not self._layout.is_empty and (self._file is not None or is_new):
            if self._file is None:  # another save has removed it meanwhile
                self._write()
            assert self._file is not None
            with writing(self.path):
                self._file.put(self.path)
        return is_new


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
        except BaseException:
            if weights and is_new:
                remove_unused({weights.path})  # unless one of several models is in its place
            raise
        if is_locked:
            remove_unused(unused)


class _Layout:
    """The places of the large weights of models in a file.

    Weights of several models are there once if their contents are equal. Weights of one model are
    there once if they are the same object.
    """

    def __init__(self, models: Collection[oir.Model]) -> None:
        self._starts: dict[int, int] = {}
        """By the `id` of the tensor."""
        self._written: list[tuple[int, oir.TensorProtocol]] = []
        by_content: dict[tuple[object, ...], int] = {}
        end = 0
        for tensor in (tensor for model in models for tensor in large_weights(model).values()):
            if id(tensor) in self._starts:
                continue
            key = _content_key(tensor) if len(models) > 1 else (id(tensor),)
            if key not in by_content:
                by_content[key] = end + -end % ALIGNMENT
                end = by_content[key] + tensor.nbytes
                self._written.append((by_content[key], tensor))
            self._starts[id(tensor)] = by_content[key]

    @property
    def is_empty(self) -> bool:
        """Whether there are no large weights."""
        return not self._written

    def write(self, file: Writable) -> None:
        """Writes the weights to an empty file."""
        end = 0
        for start, tensor in self._written:
            file.write(bytes(start - end))
            write_tensor(tensor, file)
            end = start + tensor.nbytes

    def digest(self) -> str:
        """The SHA-256 hash of what `write` writes."""
        sink = _Hash()
        self.write(sink)
        return sink.hash.hexdigest()

    def references(self, model: oir.Model, data: Path) -> dict[str, oir.TensorProtocol]:
        """References of a model to the file, by the names of the weights."""
        return {
            name: _reference(name, tensor, data, self._starts[id(tensor)])
            for name, tensor in large_weights(model).items()
        }


class _Hash:
    """Hashes what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, content: Buffer, /) -> None:
        """Appends bytes."""
        self.hash.update(content)


def _content_key(tensor: oir.TensorProtocol) -> tuple[object, ...]:
    array = np.ascontiguousarray(tensor.numpy())
    digest = hashlib.blake2b(array.view(np.uint8).data if array.size else b"").digest()
    return str(tensor.dtype), tuple(tensor.shape), digest


def stored_apart(model: oir.Model) -> dict[str, oir.TensorProtocol]:
    """The weights of a model, and its other large constants, by name."""
    return {
        str(value.name): value.const_value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and (weight_of(value) is not None or value.const_value.nbytes >= SMALL_BYTES)
    }


def _reference(name: str, tensor: oir.TensorProtocol, data: Path, start: int) -> oir.ExternalTensor:
    """A reference to the bytes of a tensor at a place in a file."""
    return oir.ExternalTensor(
        data.name,
        start,
        tensor.nbytes,
        tensor.dtype,
        shape=oir.Shape(tensor.shape.numpy()),
        name=name,
        base_dir=data.parent,
    )


def weight_names(model: oir.Model) -> list[str]:
    """The names of the weights of a model."""
    values = model.graph.initializers.items()
    return [name for name, value in values if weight_of(value) is not None]

"""Runs saved models where numpy and ONNX Runtime are, without JAX and onnx."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.interface.caller import Caller, PlainTrees, check_types, trees_of
from hlo2onnx.interface.description import Description
from hlo2onnx.runtime.calls import CallableProgram
from hlo2onnx.runtime.paths import path_of
from hlo2onnx.runtime.sessions import OrtProgram, Providers


class Program(CallableProgram):
    """A saved model, called with the pytrees of its JAX function.

    Args:
        path: Path of the model.
        types: Classes of pytree nodes. Results are built of them. Nodes of other classes come back
            as named tuples, dicts, lists, and objects with the same attributes.
        providers: Execution providers of ONNX Runtime. Default: the CPU.
        threads: Count of intra-op threads; 0 for the one that the model asks for, or else ONNX
            Runtime's default.
        libraries: Paths of shared libraries with custom operators.
        denormals: "keep", or "flush" to treat denormal floats as zeros, as XLA does on the CPU.

    Raises:
        LoadError: There is no model at the path, or it has no signature of hlo2onnx.
        UsageError: This build of ONNX Runtime does not have a provider, or an argument is wrong.
        VerificationError: ONNX Runtime is not installed, or it does not load the model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        types: Iterable[type] = (),
        providers: Providers | None = None,
        threads: int = 0,
        libraries: Sequence[str] = (),
        denormals: str = "keep",
    ) -> None:
        if not path_of(path, "model.onnx").is_file():
            raise LoadError(f"there is no model {path}")
        if denormals not in ("keep", "flush"):
            raise UsageError(f"denormals={denormals!r} is not one of keep, flush")
        self._path = str(path)
        self._types = check_types(types)
        runtime = OrtProgram(
            self._path,
            providers=providers,
            threads=threads,
            libraries=libraries,
            denormals=denormals,
        )
        metadata = runtime.session.get_modelmeta().custom_metadata_map
        session = runtime.session
        inputs = {value.name: len(value.shape) for value in session.get_inputs()}
        outputs = {value.name: len(value.shape) for value in session.get_outputs()}
        description = described(metadata, inputs, outputs)
        caller = plain_caller(description, self._types)
        super().__init__(caller, libraries, denormals, providers, threads)
        self._lazy_runtime(lambda: runtime)
        self.input_names: Sequence[str] = tuple(runtime.input_names)
        self.output_names: Sequence[str] = tuple(runtime.output_names)

    @property
    def origin(self) -> Mapping[str, str]:
        """Name and hash of the source, the target, and the versions of hlo2onnx and JAX."""
        return self._caller.description.origin

    def _serialized(self) -> AbstractContextManager[str]:
        return nullcontext(self._path)

    def _in_place(self) -> Collection[int]:
        return self._caller.description.in_place

    def __reduce__(self) -> tuple[Any, ...]:
        """The path and the options. The copy makes a session of its own."""
        options: dict[str, Any] = {
            "types": self._types,
            "providers": self.providers,
            "threads": self._threads,
            "libraries": tuple(self.libraries),
            "denormals": self.denormals,
        }
        return functools.partial(type(self), self._path, **options), ()

    def __repr__(self) -> str:
        names = f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"
        return f"<Program of {self._path}: {names}>"


load = Program


def described(
    metadata: Mapping[str, str], inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> Description:
    """The signature in the metadata of a model.

    Another tool may have renamed the inputs and outputs. Their order tells them apart.

    Args:
        metadata: The metadata.
        inputs, outputs: The count of axes of each, by name, in the order of the model.

    Raises:
        LoadError: There is none, or the model has other inputs or outputs.
    """
    found = Description.from_metadata(metadata)
    for kind, axes, ports in (
        ("inputs", inputs, found.inputs),
        ("outputs", outputs, found.outputs),
    ):
        known = [port.name for port in ports]
        ranks = [len(port.shape) + port.dtype.startswith("complex") for port in ports]
        is_permuted = list(axes) != known and set(axes) == set(known)
        if is_permuted or list(axes.values()) != ranks:
            raise LoadError(
                f"the model has the {kind} {', '.join(axes)}, its signature has"
                f' {", ".join(known)}: save(weights="inputs") or another tool changed it'
            )
    return found


def plain_caller(description: Description, types: Iterable[type] = ()) -> Caller:
    """The compiled signature, without JAX."""
    trees = trees_of(description, types, PlainTrees)
    return Caller(description, trees, lambda: not description.x64)

"""What runs a model that is judged: ONNX Runtime in this process, or a runtime in another one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import VerificationError
from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of
from hlo2onnx.runtime.denormals import can_flush
from hlo2onnx.runtime.sessions import DEFAULT_PROVIDERS, OrtProgram, Providers, onnxruntime

Session: TypeAlias = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
"""A loaded model: gives its outputs for inputs by name."""

Start: TypeAlias = Callable[[bytes], Session]
"""Starts sessions from serialized models."""

_BYTES = 2**31 - 1
"""Most bytes of a serialized model."""


def no_limit() -> float:
    """The seconds of a run without limit."""
    return math.inf


class Runner(Protocol):
    """Runs models."""

    @property
    def title(self) -> str:
        """The name and version of the runtime."""

    @property
    def levels(self) -> Sequence[bool]:
        """Whether the runtime may optimize the graph, for each of the runs."""

    @property
    def can_flush(self) -> bool:
        """Whether it can flush denormals to zero, as XLA does."""

    def session(self, model: bytes | str, *, optimize: bool, denormals: str) -> Session:
        """A model, ready to run.

        Args:
            model: Serialized model, or the path of a model with external data.
            denormals: "keep" or "flush". Not all runners know the latter.

        Raises:
            VerificationError: The model does not load.
        """


@dataclass(frozen=True)
class OnnxRuntime:
    """Runs models in ONNX Runtime in this process.

    Attributes:
        libraries: Paths of shared libraries with custom operators.
        providers: Execution providers. Default: the CPU.
        limit: Gives the seconds that a run may take.
    """

    libraries: Sequence[str] = ()
    providers: Providers | None = None
    limit: Callable[[], float] = no_limit

    @property
    def title(self) -> str:
        """ "ONNX Runtime 1.32.0"; with execution providers other than the CPU, their names."""
        names = [item if isinstance(item, str) else item[0] for item in self.providers or ()]
        title = f"ONNX Runtime {onnxruntime().__version__}"
        return title if names in ([], [*DEFAULT_PROVIDERS]) else f"{title} ({', '.join(names)})"

    @property
    def levels(self) -> Sequence[bool]:
        """With graph optimization, and without."""
        return (True, False)

    @property
    def can_flush(self) -> bool:
        """Whether this platform has threads that flush denormals."""
        return can_flush()

    def session(self, model: bytes | str, *, optimize: bool, denormals: str) -> Session:
        """An inference session."""
        program = OrtProgram(
            model,
            optimize=optimize,
            libraries=self.libraries,
            denormals=denormals,
            providers=self.providers,
        )
        return lambda feeds: program(feeds, self.limit())


@dataclass(frozen=True)
class OtherRuntime:
    """Runs models in a process of another runtime.

    Attributes:
        process: The process.
        title: The name and version of the runtime.
        levels: Whether the runtime may optimize the graph, for each of the runs.
        hint: What to do if a model does not run.
    """

    process: Runtime
    title: str
    levels: Sequence[bool] = (True, False)
    hint: str = ""

    @property
    def can_flush(self) -> bool:
        """False: it keeps or flushes denormals as it does."""
        return False

    def session(self, model: bytes | str, *, optimize: bool, denormals: str = "keep") -> Session:
        """A session of the process, which loads the model at the first run."""
        if isinstance(model, str) and not self.process.reads_files:
            model = self._with_data(model)
        loaded = self.process.session(model, optimize=optimize)

        def run(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
            self._check(feeds)
            answer = loaded({name: tensor_of(np.asarray(x)) for name, x in feeds.items()})
            if isinstance(answer, str):
                raise VerificationError(
                    f"{self.title} does not run the model: {answer.strip()}{self.hint}"
                )
            return [array_of(output) for output in answer.outputs]

        return run

    def _check(self, feeds: Mapping[str, np.ndarray]) -> None:
        for name, array in feeds.items():
            if oir.DataType.from_numpy(array.dtype) not in self.process.takes:
                raise VerificationError(
                    f"{self.title} takes no {array.dtype} inputs, such as {name}"
                )

    def _with_data(self, path: str) -> bytes:
        """A model of a file with its external data.

        Raises:
            VerificationError: It is too large.
        """
        model = onnx.load(path)
        if model.ByteSize() > _BYTES:
            raise VerificationError(
                f"{self.title} takes models of less than 2 GB here, and this one has"
                f" {model.ByteSize() / 1e9:.1f} GB\n  next   runtime='ort-cpu' has no such limit"
            )
        content: bytes = model.SerializeToString()
        return content


IN_THIS_PROCESS = OnnxRuntime()
"""ONNX Runtime on the CPU."""

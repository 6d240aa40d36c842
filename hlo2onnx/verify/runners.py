"""What runs a model that is judged: ONNX Runtime in this process, or a runtime in another one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import NotInstalledError, UsageError, VerificationError
from hlo2onnx.runtime.adapters.installed import CPU, KINDS, is_module, is_version, named, started
from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of
from hlo2onnx.runtime.denormals import can_flush
from hlo2onnx.runtime.sessions import DEFAULT_PROVIDERS, OrtProgram, Providers, onnxruntime
from hlo2onnx.targets.table import SCHEMA_TARGET, known_targets

Session: TypeAlias = Callable[..., list[np.ndarray]]
"""A loaded model. It takes arrays by name, and perhaps a limit of the seconds; another process has
its own limit."""
Start: TypeAlias = Callable[[bytes], Session]
"""Starts sessions from serialized models."""

_BYTES = 2**31 - 1
"""Most bytes of a serialized model."""


@dataclass(frozen=True)
class OnnxRuntime:
    """Runs models in ONNX Runtime in this process.

    Attributes:
        libraries: Paths of shared libraries with custom operators.
        providers: Execution providers. Default: the CPU.
    """

    libraries: Sequence[str] = ()
    providers: Providers | None = None

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
        """A model, ready to run.

        Args:
            model: Serialized model, or the path of a model with external data.
            denormals: "keep" or "flush". Other runtimes do not know the latter.

        Raises:
            VerificationError: The model does not load.
        """
        return OrtProgram(
            model,
            optimize=optimize,
            libraries=self.libraries,
            denormals=denormals,
            providers=self.providers,
        )


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

        def run(feeds: Mapping[str, np.ndarray], _: float = math.inf) -> list[np.ndarray]:
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


Runner: TypeAlias = OnnxRuntime | OtherRuntime

IN_THIS_PROCESS = OnnxRuntime()
"""ONNX Runtime on the CPU."""


@dataclass(frozen=True)
class Candidate:
    """A model to judge.

    Attributes:
        model: The model, serialized or in a file.
        input_names: Names of its inputs, in the order of the program's.
        runner: What runs it.
        denormals: "keep" or "flush".
        ignores_nan: Whether operators of the model ignore NaN, as `nan=` permits.
    """

    model: bytes | str
    input_names: Sequence[str]
    runner: Runner = IN_THIS_PROCESS
    denormals: str = "keep"
    ignores_nan: bool = False


# -- the runtime that the user names, or that of the target ----------------------------------------


@contextmanager
def chosen_runner(
    runtime: str | None,
    target: str,
    model: oir.Model,
    libraries: Sequence[str],
    providers: Providers | None,
) -> Iterator[tuple[Runner, str]]:
    """The runner of a verification. Its process, if it has one, ends with the context.

    Args:
        runtime: The runtime that the user names; None for that of the target where it is installed,
            and ONNX Runtime elsewhere.
        target: The name of the target.
        model: The model that it will run.
        libraries: Paths of shared libraries with custom operators.
        providers: Execution providers of the program.

    Yields:
        The runner, and why it is not the runtime of the target; "" if it is, or if it was named.

    Raises:
        UsageError: There is no such runtime, or the program has execution providers.
        VerificationError: The runtime is not installed, or does not take the model's types.
    """
    if runtime is not None and providers is not None:
        raise UsageError(
            "runtime= has no meaning for a program with execution providers: set"
            " program.providers = None"
        )
    wanted, fallback = (runtime, "") if runtime is not None else _of_target(target, providers)
    own = OnnxRuntime(libraries, providers)
    if wanted is None:
        yield own, fallback
        return
    if (found := _in_this_process(wanted)) is not None:
        yield OnnxRuntime(libraries, found), ""
        return
    try:
        process = started(wanted)
    except NotInstalledError as error:
        if runtime is not None or not is_module("onnxruntime"):
            raise
        yield own, str(error).replace("\n  next   ", "; ")
        return
    with process:
        yield _checked(process, wanted, target, model, libraries), ""


def _of_target(target: str, providers: Providers | None) -> tuple[str | None, str]:
    """The runtime that verifies models for a target.

    Returns:
        Its name, or None for ONNX Runtime in this process; and a reason if the target names a
        runtime that cannot be used, else "".
    """
    if providers is not None or target in ("", SCHEMA_TARGET):
        return None, ""
    kind = KINDS.get(target.partition("@")[0])
    if kind is None:
        return None, f"hlo2onnx does not know how to run models in {target}"
    is_here = kind.provider and is_module(kind.module)
    if is_here and kind.provider not in onnxruntime().get_available_providers():
        return None, f"this build of ONNX Runtime has no {kind.provider}; install {kind.package}"
    return target, ""


def _in_this_process(text: str) -> Providers | None:
    """The execution providers for a runtime that is ONNX Runtime in this process.

    Args:
        text: A runtime, perhaps with a version and a place: "ort-cpu@1.32".

    Returns:
        None if another process must run it.
    """
    name, place = named(text)
    kind = KINDS[name.kind]
    if place or not kind.provider or not is_module(kind.module):
        return None
    if name.version and not is_version(onnxruntime().__version__, name.version):
        return None
    return [kind.provider]


def _checked(
    process: Runtime, text: str, target: str, model: oir.Model, libraries: Sequence[str]
) -> OtherRuntime:
    """The runner of a process.

    Raises:
        VerificationError: The runtime cannot take the inputs of the model, give its outputs, or
            load its custom operators.
    """
    name, _ = named(text)
    kind = KINDS[name.kind]
    title = f"{kind.title} {process.version}"
    if kind.is_npm or (name.kind != CPU and kind.provider):
        title += f" ({kind.provider or name.kind})"
    problems = []
    for verb, values, known in (
        ("takes no inputs", model.graph.inputs, process.takes),
        ("gives no outputs", model.graph.outputs, process.gives),
    ):
        for value in values:
            if value.dtype is not None and value.dtype not in known:
                kind_of = value.dtype.name.lower()
                problems.append(f"{title} {verb} of type {kind_of}, such as {value.name}")
    if libraries:
        problems.append(f"{title} does not load custom operators here")
    if problems:
        hint = f"runtime='{CPU}' verifies in ONNX Runtime in this process"
        raise VerificationError("; ".join(problems) + f"\n  next   {hint}")
    hint = ""
    if target != str(name) and str(name) in known_targets():
        hint = f"\n  next   the model is for {target}: translate with target='{name}'"
    return OtherRuntime(process, title, (True, False) if kind.has_levels else (True,), hint)

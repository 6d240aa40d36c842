"""Chooses the runtime of a verification: one that is named, or that of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as oir

from hlo2onnx.errors import NotInstalledError, UsageError, VerificationError
from hlo2onnx.runtime.adapters.installed import is_module, is_version, named, started
from hlo2onnx.runtime.adapters.kinds import CPU, KINDS
from hlo2onnx.runtime.adapters.process import Runtime
from hlo2onnx.runtime.sessions import Providers, onnxruntime
from hlo2onnx.targets.table import SCHEMA_TARGET, known_targets
from hlo2onnx.verify.runners import OnnxRuntime, OtherRuntime, Runner


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
    if target.partition("@")[0] not in KINDS:
        return None, f"hlo2onnx does not know how to run models in {target}"
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

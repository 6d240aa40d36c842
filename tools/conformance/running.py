"""Where the model of a case runs: in ONNX Runtime in this process, or in another runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from hlo2onnx.runtime.adapters.kinds import KINDS, Name
from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of
from hlo2onnx.runtime.sessions import OrtProgram
from tools.conformance.ports import carried_feeds, with_ports
from tools.probe.environments import start

Session = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
"""Runs a model on inputs by name."""

SECONDS = 30.0
"""How long another runtime may take for a model."""


class RuntimeFailure(Exception):  # noqa: N818  (a finding)
    """Another runtime does not load or does not run a model: its own text."""


@dataclass(frozen=True)
class Place:
    """A runtime, and what models for it are made for.

    Attributes:
        target: The target of the translation.
        runs: By the name of a run, whether the runtime may optimize the graph.
        load: Gives the session of a serialized model.
    """

    target: str
    runs: Mapping[str, bool]
    load: Callable[[bytes, bool], Session]


def _in_this_process(content: bytes, optimize: bool) -> Session:
    return OrtProgram(content, optimize=optimize, threads=2)


HERE = Place("ort-cpu", {"optimized": True, "plain": False}, _in_this_process)
"""ONNX Runtime in this process."""


def elsewhere(runtime: str, target: str, environments: str) -> Place:
    """A runtime of `tools.probe` in a process of its own, such as "ort-web@1.30".

    Raises:
        StartError: It does not start.
        ValueError: There is no such runtime.
    """
    name = Name.parsed(runtime)
    process = start(name, Path(environments), SECONDS)
    runs = HERE.runs if KINDS[name.kind].has_levels else {"run": True}
    return Place(target, runs, lambda content, optimize: _session(process, content, optimize))


def _session(process: Runtime, content: bytes, optimize: bool) -> Session:
    """The model in another process, which loads it when it runs."""
    fitting = with_ports(content, process.takes, process.gives)
    outputs = onnx.load_from_string(content).graph.output
    dtypes = [ir.DataType(item.type.tensor_type.elem_type).numpy() for item in outputs]

    def run(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        arrays = carried_feeds({key: np.asarray(x) for key, x in feeds.items()}, process.takes)
        given = {key: tensor_of(array) for key, array in arrays.items()}
        answer = process.run(fitting, given, optimize=optimize)
        if isinstance(answer, str):
            raise RuntimeFailure(answer)
        found = zip(answer.outputs, dtypes, strict=True)
        return [array_of(output).astype(dtype, copy=False) for output, dtype in found]

    return run


def place_of(options: Mapping[str, str]) -> Place:
    """The place that the options of a request name: `runtime`, `target` and `environments`."""
    if "runtime" not in options:
        return HERE
    return elsewhere(options["runtime"], options["target"], options["environments"])

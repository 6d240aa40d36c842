"""Translates, verifies and times one program in the environment that has its package.

As a command it does so: the arguments are its name, a path, and perhaps --target=NAME, --times and
--draw (its graph, into docs/images/zoo). The path is that of a JSON file. It is written before each
stage, so it names the stage that ended the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tools import result_of
from tools.bench.timing import THREADS, Call, medians
from tools.site.drawing import draw
from tools.zoo.program import load_all, lowered

SECONDS = 600
TARGET = "ort-cpu"
ERROR_LENGTH = 2_000

os.environ.setdefault("KERAS_BACKEND", "jax")


@dataclass
class Result:
    """What was found about a program.

    Attributes:
        name: Of the program.
        version: Of its package.
        jax: Version of jaxlib.
        stage: The last stage that was begun: "build", "translate", "verify", "times", or
            "done" if all ended well.
        ok: Whether the translation gives XLA's numbers.
        error: Why not.
        nodes: Nodes of the model.
        seconds: Of the translation.
        max_error: Largest error, relative to the scale of its output.
        ort: Seconds of a call in ONNX Runtime.
        xla: Seconds of a call in XLA.
        estimate: The report's estimate of a call's seconds in ONNX Runtime; 0 if it has none.
        slowness: Of the machine of the times, see `tools.zoo.machine`.
        fallback: The report's count of nodes that are not on the device of the target.
        copies: Copies between the device and the CPU, by the control flow around them.
    """

    name: str
    version: str = ""
    jax: str = ""
    stage: str = "build"
    ok: bool = False
    error: str = ""
    nodes: int = 0
    seconds: float = 0.0
    max_error: float = 0.0
    ort: float = 0.0
    xla: float = 0.0
    estimate: float = 0.0
    slowness: float = 1.0
    fallback: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)

    @property
    def expected(self) -> float:
        """The estimate for this machine."""
        return self.estimate * self.slowness


def run_one(
    python: Path, name: str, options: Sequence[str] = (), seconds: float = SECONDS
) -> Result:
    """Runs a program in the given interpreter; the options are those of the worker."""
    found = result_of("tools.zoo.worker", name, options, seconds=seconds, python=python)
    data, problem, log = found
    result = Result(**(data or {"name": name}))
    if problem or not (result.ok or result.error):
        result.ok, result.error = False, f"{problem}\n{log[-ERROR_LENGTH:]}".strip()
    return result


def run(result: Result, path: Path, options: Sequence[str]) -> None:
    """Fills in the result, stage by stage."""

    def begin(stage: str) -> None:
        result.stage = stage
        path.write_text(json.dumps(asdict(result)))

    begin("build")
    import jax

    item = load_all()[result.name]
    result.version, result.jax = version(item.package), version("jaxlib")
    source, args = lowered(result.name)
    begin("translate")
    import hlo2onnx
    from hlo2onnx.ir.functions import each_graph
    from hlo2onnx.targets import load_target
    from hlo2onnx.targets.placement import placed

    target = dict(x.split("=") for x in options if "=" in x).get("--target", TARGET)
    start = time.perf_counter()
    program = hlo2onnx.translate(source, target=target)
    result.seconds = time.perf_counter() - start
    result.nodes = program.report.nodes.total()
    result.estimate = program.report.call_seconds or 0.0
    result.fallback = dict(program.report.fallback)
    result.copies = dict(+placed(each_graph(program.model), load_target(target)).copies)
    if "--draw" in options:
        draw(result.name, program.model.graph)
    begin("verify")
    found = program.verify(*args)
    result.max_error = found.max_error
    result.ok = bool(found) or _within(found, item.tolerance)
    result.error = "" if result.ok else str(found)
    empty = _why_empty(jax.tree.leaves(program(*args)))
    if empty:
        result.ok, result.error = False, empty
    if not result.ok:
        return
    if "--times" in options:
        begin("times")
        result.ort, result.xla = _times(program, source, args)
    begin("done")


def _why_empty(results: Any) -> str:
    """Why equal results would say nothing about the translation; nothing where they do."""
    import jax

    # A typed PRNG key among them is no array of NumPy's.
    floats = [np.asarray(x) for x in results if jax.dtypes.issubdtype(x.dtype, np.inexact)]
    if any(np.isnan(x).any() for x in floats):
        return "the program gives NaN"
    if floats and len(floats) == len(results) and not any(x.any() for x in floats):
        return "the program gives zeros only"
    return ""


def _within(found: Any, tolerance: float) -> bool:
    """Whether every error is finite and no larger than the tolerance."""
    items = (*found.optimized, *found.plain)
    return all(item.ok or (item.max_rel <= tolerance and not item.nonfinite) for item in items)


def _times(program: Any, source: Any, args: Any) -> list[float]:
    """Median seconds of a call in ONNX Runtime and in XLA."""
    import jax

    compiled, placed = source.compile(), jax.device_put(args)
    return medians([ort_call(program, args), lambda: jax.block_until_ready(compiled(*placed))])


def ort_call(program: Any, args: Any) -> Call:
    """A call of a program with these arguments in ONNX Runtime."""
    from hlo2onnx.runtime.calling import to_model
    from hlo2onnx.runtime.sessions import OrtProgram

    model = program.model_proto.SerializeToString()
    session = OrtProgram(model, threads=THREADS, libraries=program.libraries)
    return partial(session, to_model(program.input_names, program.flatten(*args)))


def main() -> None:
    name, path = sys.argv[1], Path(sys.argv[2])
    result = Result(name)
    try:
        run(result, path, sys.argv[3:])
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        result.ok, result.error = False, f"{type(error).__name__}: {error}"
    path.write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()

"""Translates a program for a target, runs it in a runtime, and compares the outputs with XLA's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import hlo2onnx
from hlo2onnx.errors import Hlo2OnnxError, TranslationError, VerificationError
from hlo2onnx.program import OnnxProgram
from hlo2onnx.runtime.adapters.process import Runtime
from hlo2onnx.targets import load_target
from hlo2onnx.verify.compare import Verification
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate, OtherRuntime
from hlo2onnx.verify.settings import Settings
from tools import EXAMPLES, ROOT
from tools.conformance.outcome import one_line

RIGHT, INEXACT, WRONG, REFUSED = "right", "inexact", "wrong", "refused"
SMALL = 1e-3
"""Differences below it, relative to the largest element, are inexact and not wrong."""


@dataclass(frozen=True)
class Result:
    """What became of a program in a runtime.

    Attributes:
        verdict: "right", "inexact", "wrong" or "refused".
        why: The reason, where it is not right.
        opset: The opset of the model; 0 where there is none.
    """

    verdict: str
    why: str = ""
    opset: int = 0


@cache
def judge_of(name: str) -> Judge:
    """Two samples of the inputs of an example, and XLA's results."""
    program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
    return Judge(program._source, None, Settings(samples=2))


def tried(name: str, target: str, runtime: Runtime) -> Result:
    """Translate an example for a target, and run it in a runtime."""
    try:
        program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir", target=target)
    except TranslationError as error:
        return Result(REFUSED, _of_translation(error))
    opset = program.report.opset
    try:
        found = _verified(program, runtime, name)
    except VerificationError as error:
        return Result(REFUSED, _in_a_line(str(error)), opset)
    except Hlo2OnnxError as error:
        return Result(REFUSED, _in_a_line(f"{type(error).__name__}: {error}"), opset)
    return Result(_verdict(found), _differences(found), opset)


def _verified(program: OnnxProgram, runtime: Runtime, name: str) -> Verification:
    content = program.model_proto.SerializeToString()
    flags = load_target(program.report.target).flags
    runner = OtherRuntime(runtime, "the runtime")
    ignores_nan = flags.misorders_nan
    candidate = Candidate(content, program.input_names, runner, ignores_nan=ignores_nan)
    return judge_of(name)(candidate)


def _of_translation(error: TranslationError) -> str:
    """The operators and types that are refused, each once."""
    whats = dict.fromkeys(f"{item.op} {item.types}: {item.why}" for item in error.refusals)
    return _in_a_line("; ".join(whats))


def _verdict(found: Verification) -> str:
    if found.ok:
        return RIGHT
    rows = [item for item in (*found.optimized, *found.plain) if not item.ok]
    is_float = all(item.tolerance is not None for item in rows)
    near = all(item.max_rel < SMALL and not item.nonfinite for item in rows)
    return INEXACT if is_float and near else WRONG


def _differences(found: Verification) -> str:
    """The outputs that are off, and how far."""
    if found.ok:
        return ""
    rows = [item for item in (*found.optimized, *found.plain) if not item.ok]
    worst = max(rows, key=lambda item: (item.nonfinite, item.max_rel))
    if worst.unjudged:
        return f"{worst.name} cannot be judged: {worst.unjudged}"
    return f"{worst.name} {worst.dtype}{list(worst.shape)} is off by {worst.max_rel:.1e}"


def _in_a_line(text: str) -> str:
    return one_line(text.replace(str(ROOT), ""), 300)

"""Runs a program in XLA and in ONNX Runtime, and compares the results.

As a command it is the process that runs programs by their seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import hlo2onnx
from hlo2onnx.errors import TranslationError, VerificationError
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.verify.compare import compare
from hlo2onnx.verify.element_kinds import in_f64
from hlo2onnx.verify.f64_reference import widen, widened
from hlo2onnx.verify.tolerance import tolerance_of
from hlo2onnx.verify.xla import XlaProgram
from tools.conformance.outcome import Outcome, one_line
from tools.conformance.worker import serve_cases
from tools.fuzzing.elements import FLOATS
from tools.fuzzing.generate import generate
from tools.fuzzing.program import Program, Quality, Value
from tools.fuzzing.structure import known_conditions

_RELATIVE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
"""Of a rounded element by itself; XLA's own error is up to 25 units in the last place of f32."""


def run(name: str, program: Program) -> Outcome:
    """The outcome of a program; its reason begins with "op types" where one op is to blame."""
    try:
        expected = in_xla(program)
    except VerificationError as error:
        return Outcome(name, "skipped", one_line(str(error)))
    try:
        translated = hlo2onnx.translate(program.text(), nan="xla")
    except TranslationError as error:
        first = error.refusals[0]
        return Outcome(name, "refused", one_line(f"{first.op}: {first.why}"), str(error))
    try:
        check_model(translated.model_proto)
    except VerificationError as error:
        return Outcome(name, "invalid", one_line(str(error)))
    if known := known_conditions(translated.model_proto):
        return Outcome(name, "invalid", "the condition of an If is known", "\n".join(known))
    content = translated.model_proto.SerializeToString()
    feeds = to_model(translated.input_names, program.arrays)
    for optimize in (True, False):
        try:
            session = OrtProgram(content, optimize=optimize, threads=2)
        except VerificationError as error:
            return Outcome(name, "load-error", one_line(str(error)))
        try:
            actual = from_model(translated._source.signature.outputs, session(feeds))
        except VerificationError as error:
            return Outcome(name, "run-error", one_line(str(error)))
        bad = _mistakes(program, actual, expected)
        if bad:
            label = "optimized" if optimize else "plain"
            wrong = ", ".join(f"%v{index}" for index in bad)
            reason = f"{program.blame(next(iter(bad)))}: {label} {wrong}"
            return Outcome(name, "mismatch", reason, "\n".join(bad.values()))
    return Outcome(name, "pass")


def in_xla(program: Program) -> list[np.ndarray]:
    """The outputs, with constants as arguments: what XLA folds while it compiles is not what it
    computes (integer convolutions saturate, true + true is false).

    Raises:
        VerificationError: XLA does not take the program.
    """
    open_program = program.with_open_leaves()
    return XlaProgram(open_program.text().encode())(open_program.arrays)


def _mistakes(
    program: Program, actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> Mapping[int, str]:
    """What differs, by index of the value."""
    rows = zip(program.outputs, actual, expected, strict=True)
    return {
        index: f"%v{index} {want.dtype}{list(want.shape)}\n  ORT {got}\n  XLA {want}"
        for index, got, want in rows
        if differs(program, index, got, want)
    }


def differs(program: Program, index: int, got: np.ndarray, want: np.ndarray) -> bool:
    """Whether a value is not as close to XLA's as it should be."""
    value = program.values[index]
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return True
    if want.dtype.kind != "c" and value.type.element not in FLOATS:
        return not np.array_equal(got, want)
    one, two = in_f64(got), in_f64(want)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    if value.quality == Quality.BITS:
        same &= np.isnan(one) | (np.signbit(one) == np.signbit(two))
    if value.quality == Quality.CLOSE and not same.all():
        return _is_far(program, value, got, want)
    return not same.all()


def _is_far(program: Program, value: Value, got: np.ndarray, want: np.ndarray) -> bool:
    """Whether a rounded result is off by more than its tolerance, or twice XLA's own error."""
    tolerance = tolerance_of(want.dtype)
    assert tolerance is not None
    relative = _RELATIVE.get(value.type.element, tolerance.relative)
    scale = value.scale
    if want.dtype.kind == "c":  # both parts of a number count
        scale += float(np.abs(want).max(where=np.isfinite(want), initial=0))

    def is_close(exact: np.ndarray | None) -> bool:
        return compare("", got, want, exact, rtol=relative, atol=relative * scale).ok

    if is_close(None):
        return False
    part = program.restricted([value.index]).with_open_leaves()
    try:
        (truth,) = XlaProgram(widened(part.text()).encode())(list(map(widen, part.arrays)))
    except VerificationError:
        return True
    return not is_close(truth)


def run_seed(name: str, options: Mapping[str, Any]) -> Outcome:
    """Runs the program of a seed; of a failing one, the part of one output that fails alike.

    Args:
        name: Its family and seed (`generate.case_name`).
        options: "xla" to run it in XLA only.
    """
    program = generate(name)
    if options.get("xla"):
        in_xla(program)
        return Outcome(name, "pass")
    outcome = run(name, program)
    if not outcome.failed:
        return outcome
    for output in program.outputs:
        part = program.restricted([output])
        found = run(name, part)
        if found.status == outcome.status:
            program, outcome = part, found
            break
    return replace(outcome, detail=f"{outcome.detail}\n{shown(program)}")


def shown(program: Program) -> str:
    """Its text and arguments."""
    lines = [program.text()]
    for step in program.inputs:
        assert step.array is not None
        lines.append(f"%v{step.results[0]} = {step.array.dtype} {step.array.tolist()}")
    return "\n".join(lines)


if __name__ == "__main__":
    serve_cases(run_seed, dict)

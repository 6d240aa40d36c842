"""Runs a program in XLA and in ONNX Runtime, and compares the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np

import hlo2onnx
from hlo2onnx.errors import TranslationError, VerificationError
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.verify.f64_reference import widen, widened
from hlo2onnx.verify.tolerance import tolerance_of
from hlo2onnx.verify.xla import XlaProgram
from tools.conformance.outcome import Outcome, one_line
from tools.fuzzing.elements import FLOATS, NUMPY
from tools.fuzzing.program import Program, Quality, Value
from tools.fuzzing.structure import known_conditions

_RELATIVE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
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
    bad = {}
    for index, got, want in zip(program.outputs, actual, expected, strict=True):
        wrong = differs(program, index, got, want)
        if wrong.any():
            where = got.shape and got.shape == want.shape
            some = tuple(axis[:6] for axis in np.nonzero(wrong)) if where else ()
            bad[index] = (
                f"%v{index} {want.dtype}{list(want.shape)} at {[axis.tolist() for axis in some]}\n"
                f"  ORT {got[some] if some else got}\n  XLA {want[some] if some else want}"
            )
    return bad


def differs(program: Program, index: int, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where a value is not as close to XLA's as it should be."""
    value = program.values[index]
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return np.ones(1, bool)
    same = _parts(got) == _parts(want)
    nan = np.isnan(_parts(got)) & np.isnan(_parts(want)) if _is_inexact(want) else False
    if value.quality == Quality.BITS and _is_inexact(want):
        same &= np.signbit(_parts(got)) == np.signbit(_parts(want))
    wrong = ~(same | nan)
    if value.quality == Quality.CLOSE and _is_inexact(want) and wrong.any():
        wrong = _is_far(program, value, got, want)
    return np.asarray(wrong.any(-1) if want.dtype.kind == "c" else wrong)


def _is_far(program: Program, value: Value, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where a rounded result is off by more than its tolerance, or twice XLA's own error."""
    far = _beyond(value, got, want, want, 0.0)
    if not far.any():
        return far
    part = program.restricted([value.index]).with_open_leaves()
    try:
        (truth,) = XlaProgram(widened(part.text()).encode())(list(map(widen, part.arrays)))
    except VerificationError:
        return far
    with np.errstate(all="ignore"):
        own = np.abs(_parts(want) - _parts(truth))
    own = np.where(np.isfinite(own), own, 0)
    return np.asarray(far & _beyond(value, got, truth, want, 2 * own))


def _beyond(
    value: Value, got: np.ndarray, truth: np.ndarray, want: np.ndarray, own: np.ndarray | float
) -> np.ndarray:
    part = np.zeros(0, want.dtype).real.dtype if want.dtype.kind == "c" else want.dtype
    tolerance = tolerance_of(want.dtype)
    assert tolerance is not None
    relative = _RELATIVE.get(part.name, tolerance.relative)
    one, two = _parts(got), _parts(truth)
    info = ml_dtypes.finfo(part)
    with np.errstate(all="ignore"):
        size = np.abs(two)
        if want.dtype.kind == "c":
            size = np.hypot(size[..., 0], size[..., 1])[..., None]
        allowed = relative * (size + value.scale) + 1.01 * float(info.smallest_normal) + own
        near = np.abs(one - two) <= np.where(np.isfinite(allowed), allowed, 0)
        # What overflows in one way of rounding is the largest number in another.
        limit = float(info.max)
        beyond = (np.abs(one) >= limit) & (np.abs(two) >= limit * (1 - relative))
        near |= beyond & (np.sign(one) == np.sign(two))
    return np.asarray(~(near | (one == two) | (np.isnan(one) & np.isnan(two))))


def _is_inexact(array: np.ndarray) -> bool:
    return array.dtype.kind == "c" or any(array.dtype == NUMPY[name] for name in FLOATS)


def _parts(array: np.ndarray) -> np.ndarray:
    """Numbers that compare as they are: floats as f64 (complex as pairs), integers as such."""
    if array.dtype.kind == "c":
        part = np.float32 if array.dtype.itemsize == 8 else np.float64
        pairs = np.ascontiguousarray(array).view(part).reshape(*array.shape, 2)
        return pairs.astype(np.float64)
    return array.astype(np.float64) if _is_inexact(array) else array

"""Compares the outputs of a model with XLA's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np

from hlo2onnx.verify.element_kinds import in_f64
from hlo2onnx.verify.f64_reference import is_evaluation_of
from hlo2onnx.verify.page import fragment, page, save_page
from hlo2onnx.verify.sensitivity import Slack
from hlo2onnx.verify.tolerance import Tolerance, tolerance_of


@dataclass(frozen=True)
class Element:
    """One element of an output.

    Attributes:
        index: Its place.
        actual: The result of the model as text.
        expected: XLA's result as text.
        error: The difference relative to the largest finite magnitude of XLA's output; infinite if
            one of the two is not finite.
    """

    index: tuple[int, ...]
    actual: str
    expected: str
    error: float


WORST = 8
"""Elements that a comparison lists."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of one output of one run with the reference.

    Attributes:
        name: Name of the output.
        max_abs: Largest absolute difference of elements that are finite on both sides.
        max_rel: The same divided by the reference's scale (its largest finite magnitude).
        max_ulp: Largest distance in units in the last place; 0 for integers and bool.
        nonfinite: Count of elements that are NaN or infinite on one side, and not equal.
        tolerance: The tolerance; None if elements must be equal.
        ok: Whether every element is within the tolerance.
        unjudged: The choice that may be the reason for a difference. Then it is unknown whether the
            output is right.
        remark: The judgement, if it does not use the elements of XLA's result.
        worst: The elements with the largest errors, the worst first.
        says_little: Why the comparison says little, although it is ok. See
            `hlo2onnx.verify.tolerance`.
        sample: The inputs of the comparison, if there were several.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    max_ulp: float
    nonfinite: int
    tolerance: Tolerance | None
    ok: bool
    unjudged: str = ""
    remark: str = ""
    worst: tuple[Element, ...] = ()
    says_little: str = ""
    sample: str = ""

    @property
    def verdict(self) -> str:
        """The judgement in words."""
        text = "ok" if self.ok else "DIFFERS"
        if self.says_little and self.ok:
            text = f"says little: {self.says_little}"
        if self.sample and not self.ok:
            text += f" in {self.sample}"
        if self.remark and self.ok:
            text += f" ({self.remark})"
        if self.unjudged:
            text = f"cannot be judged: it depends on the choice of {self.unjudged}"
        return text + (f", {self.nonfinite} NaN/inf disagree" if self.nonfinite else "")


def compare(
    name: str,
    actual: np.ndarray,
    expected: np.ndarray,
    exact: np.ndarray | None = None,
    step: float = 0.0,
    rtol: float | None = None,
    atol: float | None = None,
    slack: Slack | None = None,
    is_fast: bool = False,
) -> Comparison:
    """Compares one output with XLA's.

    Args:
        actual: The output of the model.
        expected: The output of XLA.
        exact: The output in f64, if known. An element is also right if its error from this is
            within the tolerance, or, if the evaluation is credible, up to twice XLA's own (see
            `_allowed`): XLA rounds, contracts to FMA and flushes denormals. An integer may also
            have the value that it has there.
        step: Additional tolerance of each element (see `Port.step`).
        rtol, atol: The user's tolerances of floats, instead of those of the type.
        slack: More differences that are accepted.
        is_fast: Whether the model leaves out roundings to half types. Then the output is right if
            its errors from the evaluation are at most XLA's own.
    """
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return Comparison(
            name, str(actual.dtype), actual.shape, np.inf, np.inf, np.inf, actual.size, None, False
        )
    tolerance = tolerance_of(expected.dtype)
    if tolerance is not None:
        tolerance = tolerance.with_given(rtol, atol)
    got, want = _parts(actual), _parts(expected)
    finite = np.isfinite(got) & np.isfinite(want)
    same = finite | (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        difference = np.where(finite, np.abs(got - want), 0)
    scale = float(np.max(np.abs(want), where=np.isfinite(want), initial=0))
    limit = _limit(expected.dtype, tolerance, want, scale) + step
    good = same & (difference <= limit)
    if exact is not None:
        good |= _is_exact(got, want, expected, exact, tolerance, scale)
        if is_fast and tolerance is not None:
            good |= _is_as_exact(got, want, _parts(exact))
    if slack is not None:
        good = slack.accepts(good, np.where(same, difference, np.nan))
    largest = float(difference.max(initial=0))
    errors = np.where(same, difference, np.inf) / (scale or 1)
    return Comparison(
        name,
        str(actual.dtype),
        actual.shape,
        largest,
        largest / scale if scale else largest,
        _max_ulp(actual, expected, finite) if tolerance else 0.0,
        int((~same).sum()),
        tolerance,
        bool(good.all()),
        worst=_worst(actual, expected, errors),
    )


def _worst(actual: np.ndarray, expected: np.ndarray, errors: np.ndarray) -> tuple[Element, ...]:
    """The elements with the largest errors. A complex number has two errors."""
    if not actual.size:
        return ()
    flat = errors.reshape(actual.size, -1).max(1).astype(np.float64)
    count = min(WORST, int(np.count_nonzero(flat)))
    places = np.argpartition(-flat, count - 1)[:count] if count else np.zeros(0, np.int64)
    found = []
    for place in places[np.argsort(-flat[places], kind="stable")]:
        index = tuple(map(int, np.unravel_index(place, actual.shape)))
        element = Element(index, str(actual[index]), str(expected[index]), float(flat[place]))
        found.append(element)
    return tuple(found)


def _is_exact(
    got: np.ndarray,
    want: np.ndarray,
    expected: np.ndarray,
    exact: np.ndarray,
    tolerance: Tolerance | None,
    scale: float,
) -> np.ndarray:
    """Which elements are right by the evaluation in f64.

    Args:
        got, want: The parts of both results.
        expected, exact: XLA's result and the evaluation.
    """
    truth = _parts(exact)
    if tolerance is None:
        return np.asarray(got == truth)
    with np.errstate(all="ignore"):
        limit = _limit(expected.dtype, tolerance, truth, scale)
        if is_evaluation_of(exact, expected):
            limit = np.maximum(limit, _allowed(want, truth, tolerance.absolute * scale))
        near = (np.abs(got - truth) <= limit) & np.isfinite(truth)
    # XLA's fused kernels may lose a NaN.
    return np.asarray(near | (np.isnan(got) & np.isnan(truth)))


def _is_as_exact(got: np.ndarray, want: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which elements are as near to the evaluation as XLA's worst one, if all together are as near
    as XLA's."""
    finite = np.isfinite(got) & np.isfinite(want) & np.isfinite(truth)
    with np.errstate(all="ignore"):
        ours, own = (np.where(finite, np.abs(x - truth), 0) for x in (got, want))
    if np.linalg.norm(ours) > np.linalg.norm(own):
        return np.zeros(got.shape, bool)
    return np.asarray(finite & (ours <= own.max(initial=0)))


_TYPICAL = 0.98
"""The quantile of XLA's errors that counts as nearly the worst."""
_MOST = 4.0
"""Limit of twice that error, in absolute tolerances. Another order of a sum can change its rounding
error by such a factor."""


def _allowed(want: np.ndarray, truth: np.ndarray, absolute: float) -> np.ndarray:
    """Twice XLA's own error: that of each element, or nearly the worst.

    At some elements, XLA's rounding errors cancel by chance. The worst error counts only up to some
    tolerances: a large error of XLA in some elements does not excuse errors in others.
    """
    # An overflow in XLA is no measure of rounding.
    own = np.where(np.isfinite(want) & np.isfinite(truth), np.abs(want - truth), 0)
    if not own.size:
        return own
    typical = float(np.quantile(own, _TYPICAL, method="lower"))
    return 2 * np.maximum(own, min(typical, _MOST / 2 * absolute))


def _limit(
    dtype: np.dtype, tolerance: Tolerance | None, want: np.ndarray, scale: float
) -> np.ndarray:
    if tolerance is None:
        return np.zeros(want.shape)
    # XLA flushes denormals to zero, so numbers below the smallest normal one count as zero.
    floor = float(ml_dtypes.finfo(dtype).smallest_normal)
    magnitude = np.where(np.isfinite(want), np.abs(want), 0)
    return tolerance.absolute * scale + tolerance.relative * magnitude + floor + tolerance.fixed


def _parts(array: np.ndarray) -> np.ndarray:
    """The elements in f64, as by `in_f64`; 64-bit integers in longdouble, which holds them."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype(np.longdouble)
    return in_f64(array)


def _max_ulp(actual: np.ndarray, expected: np.ndarray, finite: np.ndarray) -> float:
    if actual.dtype.kind == "c":
        part = np.finfo(actual.dtype).dtype
        actual = np.stack([actual.real, actual.imag], -1).astype(part)
        expected = np.stack([expected.real, expected.imag], -1).astype(part)
    kind = np.dtype(f"i{actual.dtype.itemsize}")
    keys = [_ordered(np.ascontiguousarray(side).view(kind)) for side in (actual, expected)]
    distance = np.abs(keys[0].astype(np.float64) - keys[1].astype(np.float64))
    return float(np.max(distance.reshape(finite.shape), where=finite, initial=0))


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Bit patterns as integers in the order of the floats they encode."""
    lowest = np.iinfo(bits.dtype).min
    return np.where(bits < 0, lowest - bits, bits)


SHOWN = 6
"""Limit of the sides in the text."""


@dataclass(frozen=True)
class Coverage:
    """The sides of guards that some inputs have reached.

    A guard is an op that treats some values in another way: a branch, a clamp, an index out of
    range, a division by 0. Each of its sides counts.

    Attributes:
        reached: Count of the sides that were reached.
        total: Count of all sides.
        missed: The others: op, side and source line.
        unobserved: Count of guards that cannot be observed, such as those in the comparator of a
            sort.
    """

    reached: int
    total: int
    missed: tuple[str, ...] = ()
    unobserved: int = 0

    def __str__(self) -> str:
        text = f"guards reached {self.reached} of {self.total}"
        if self.missed:
            more = len(self.missed) - SHOWN
            rest = [f"{more} more"] if more > 0 else []
            text += f". No sample reaches {'; '.join([*self.missed[:SHOWN], *rest])}"
        if self.unobserved:
            text += f" ({self.unobserved} in regions are not observed)"
        return text


@dataclass(frozen=True)
class Verification:
    """The outcome of `OnnxProgram.verify`.

    Attributes:
        optimized: One comparison per output, with the runtime's graph optimization.
        plain: The same without it; empty if the runtime has no switch for it.
        notes: Notes for the user (the two runs disagree, inputs were random, ...).
        coverage: The guards that the inputs have reached; None if that is unknown.
        samples: Count of inputs. Each comparison is that of the worst one.
        divergence: The op from which on the numbers differ, if `intermediates` is true: a
            `hlo2onnx.verify.divergence.Divergence`.
        runtime: The runtime that ran the model, and its version: "OpenVINO 2026.4.1".
        left_out: What there was no time for, such as "the program in f64". With more of it, the
            verdict might be another.
        fallback: Why this is not the runtime of the target; "" if it is, or if it was named.
    """

    optimized: Sequence[Comparison]
    plain: Sequence[Comparison]
    notes: list[str] = field(default_factory=list)
    coverage: Coverage | None = None
    samples: int = 1
    divergence: object = None
    runtime: str = ""
    fallback: str = ""
    left_out: Sequence[str] = ()

    @property
    def runs(self) -> list[tuple[str, Sequence[Comparison]]]:
        """The comparisons of each run, with its name."""
        if not self.plain:
            return [("", self.optimized)]
        return [("optimized", self.optimized), ("plain", self.plain)]

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons of all runs."""
        return [*self.optimized, *self.plain]

    @property
    def says_little(self) -> list[Comparison]:
        """The outputs that agree, but vary too little to prove much."""
        return [item for item in self.comparisons if item.ok and item.says_little]

    @property
    def ok(self) -> bool:
        """Whether every output agrees in both runs. False if one cannot be judged."""
        return all(item.ok for item in self.comparisons)

    @property
    def differing(self) -> list[Comparison]:
        """The outputs that are wrong, without those that cannot be judged."""
        return [item for item in self.comparisons if not item.ok and not item.unjudged]

    @property
    def max_error(self) -> float:
        """Largest error relative to the scale of its output."""
        return max((item.max_rel for item in self.comparisons), default=0.0)

    def __bool__(self) -> bool:
        return self.ok

    def save_html(self, path: str | Path) -> None:
        """Writes the table and the worst elements of each output as a page.

        `OnnxProgram.save_report` writes them with the graph.

        Raises:
            UsageError: The path is not a file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        from hlo2onnx.verify.program_page import verification_section

        save_page(path, page("Verification", "<h1>Verification</h1>", verification_section(self)))

    def _repr_html_(self) -> str:
        from hlo2onnx.verify.program_page import verification_section

        return fragment(verification_section(self))

    def __str__(self) -> str:
        lines = [f"{'output':<28} {'run':<9} {'max abs':>9} {'max rel':>9} {'ULP':>9}  verdict"]
        for label, items in self.runs:
            lines += [_row(item, label) for item in items]
        if self.runtime:
            lines.append(f"runtime  {self.runtime}")
        if self.fallback:
            lines.append(f"         not that of the target: {self.fallback}")
        if self.coverage is not None:
            lines.append(f"coverage {self.coverage}")
        if self.left_out:
            lines.append(f"no time  for {', '.join(self.left_out)}: see seconds=")
        lines += ["note     " + note.replace("\n", "\n" + 9 * " ") for note in self.notes]
        lines += [] if self.divergence is None else [f"\n{self.divergence}"]
        return "\n".join(lines)


def _row(item: Comparison, label: str) -> str:
    dims = "x".join(map(str, item.shape))
    what = f"{item.name} {item.dtype}[{dims}]"
    errors = f"{item.max_abs:9.2e} {item.max_rel:9.2e} {item.max_ulp:9.3g}"
    return f"{what:<28} {label:<9} {errors}  {item.verdict}"

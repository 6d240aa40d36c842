"""Judges the results of a case and describes differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hlo2onnx.verify.compare import Comparison, compare
from tools.conformance.sets import EXACT

Place = tuple[str, int]
"""Run of ONNX Runtime ("optimized", "plain") and index of the result."""
Arrays = Sequence[np.ndarray]


def mistakes(
    group: str,
    actual: Mapping[str, Arrays],
    expected: Arrays,
    exact: Sequence[np.ndarray | None],
) -> dict[Place, Comparison]:
    """The wrong results.

    Args:
        group: Of the harness; some compute nothing, and must agree exactly.
        actual: The results of each run of ONNX Runtime.
        expected: XLA's.
        exact: Their f64 evaluations, where there are any.
    """
    bad = {}
    for label, run in actual.items():
        for index, triple in enumerate(zip(run, expected, exact, strict=True)):
            found = compare(f"result {index}", *triple)
            if not found.ok or (group in EXACT and found.max_abs > 0):
                bad[label, index] = found
    return bad


def describe(
    bad: Mapping[Place, Comparison],
    actual: Mapping[str, Arrays],
    expected: Arrays,
    exact: Sequence[np.ndarray | None],
) -> str:
    """One line about the first mistake, then the values of all of them."""
    lines = [_head(bad, expected)]
    for label, index in bad:
        lines += [f"{label} result {index}", f"  ORT   {_shown(actual[label][index])}"]
        lines.append(f"  XLA   {_shown(expected[index])}")
        truth = exact[index]
        if truth is not None:
            lines.append(f"  exact {_shown(truth)}")
    return "\n".join(lines)


def _head(bad: Mapping[Place, Comparison], expected: Arrays) -> str:
    (label, index), first = next(iter(bad.items()))
    want = expected[index]
    head = f"{first.name} {first.dtype}{list(first.shape)}"
    if first.dtype != str(want.dtype) or first.shape != want.shape:
        return f"{head} should be {want.dtype}{list(want.shape)}"
    if len({run for run, _ in bad}) == 1:
        head += f", {label} only"
    head += f": relative error {first.max_rel:.1e}"
    return head + (f", {first.nonfinite} NaN/inf disagree" if first.nonfinite else "")


def _shown(array: np.ndarray) -> str:
    return np.array2string(array, threshold=64, prefix="  exact ")

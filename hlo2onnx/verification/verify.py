"""Verifies a model: runs XLA once, and ORT with and without graph optimization.

If a float output is outside its tolerance, the program also runs in f64. An error of up to twice
XLA's own is XLA's rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.denormals import can_flush
from hlo2onnx.runtime.sessions import OrtProgram, Providers, check_model
from hlo2onnx.sources.signature import Port
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.compare import Comparison, Verification, compare
from hlo2onnx.verification.inputs import is_float, random_array
from hlo2onnx.verification.nonunique_outputs import Choices
from hlo2onnx.verification.reference import Reference


def verify(
    source: Source,
    model: bytes | str,
    input_names: Sequence[str],
    arrays: Sequence[np.ndarray] | None,
    seed: int,
    libraries: Sequence[str] = (),
    denormals: str = "keep",
    providers: Providers | None = None,
) -> Verification:
    """Compares a model, serialized or in a file, with its program. See `OnnxProgram.verify`."""
    check_model(model)
    runner = _Runner(source, model, input_names, libraries, providers)
    policy = denormals if can_flush() else "keep"
    outputs = source.signature.outputs
    notes: list[str] = []
    if arrays is not None:
        expected, results = runner.reference(arrays), runner(arrays, policy)
    else:
        for arrays, kind in _random_inputs(source, seed):
            expected, results = runner.reference(arrays), runner(arrays, policy)
            notes = [kind]
            if not any(_nan_count(array) for array in (*expected, *results[0])):
                break
    assert arrays is not None
    notes += _nan_notes(outputs, expected)
    optimized, plain = _judged(runner, arrays, expected, results)
    if policy == "keep" and not _all_ok(optimized, plain):
        # XLA flushes denormals to zero. Differences for this reason only are right.
        if can_flush():
            flushed = _judged(runner, arrays, expected, runner(arrays, "flush"))
            optimized, plain = map(_better, (optimized, plain), flushed)
        else:
            notes.append("XLA flushes denormals to zero; ORT keeps them on this platform")
    for one, two in zip(optimized, plain, strict=True):
        if one.ok != two.ok:
            which = "with" if two.ok else "without"
            notes.append(f"{one.name} differs only {which} ORT's graph optimisation")
    return Verification(optimized, plain, notes)


class _Runner:
    """XLA and ORT, ready to run one program."""

    def __init__(
        self,
        source: Source,
        model: bytes | str,
        input_names: Sequence[str],
        libraries: Sequence[str],
        providers: Providers | None,
    ) -> None:
        self._inputs = source.signature.inputs
        self.outputs = source.signature.outputs
        self._names = input_names
        self._model = model
        self._libraries = libraries
        self._providers = providers
        self.reference = Reference(source)

    def __call__(self, arrays: Sequence[np.ndarray], denormals: str) -> list[list[np.ndarray]]:
        """ORT's results with and without graph optimisation."""
        feeds = to_model(self._names, arrays, self._inputs)
        # One session at a time: each may have a copy of all weights.
        start = partial(
            OrtProgram,
            self._model,
            libraries=self._libraries,
            denormals=denormals,
            providers=self._providers,
        )
        return [from_model(self.outputs, start(optimize=on)(feeds)) for on in (True, False)]


def _random_inputs(source: Source, seed: int) -> list[tuple[Sequence[np.ndarray], str]]:
    """Random inputs and their descriptions, to try in turn until no result has NaN.

    First normal ones; then their absolute values, because variances must not be negative.
    """
    rng = np.random.default_rng(seed)
    arrays = [random_array(port, rng) for port in source.signature.inputs]
    positive = [np.abs(array) if is_float(array) else array for array in arrays]
    kind = f"random inputs, seed {seed}"
    return [(arrays, kind), (positive, f"{kind}, floats made positive")]


def _judged(
    runner: _Runner,
    arrays: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    results: Sequence[Sequence[np.ndarray]],
) -> list[list[Comparison]]:
    """Compares the outputs of runs with XLA's.

    If some differ, it uses an evaluation in f64, and then other choices of decompositions.
    """
    outputs = runner.outputs
    unknown: list[np.ndarray | None] = [None] * len(outputs)
    runs = [_compared(outputs, actual, expected, unknown) for actual in results]
    if not _all_ok(*runs):
        exact = runner.reference.in_f64(arrays, expected)
        runs = [_compared(outputs, actual, expected, exact) for actual in results]
    if not _all_ok(*runs):
        choices = Choices.of(runner.reference, arrays, outputs, expected)
        if choices is not None:
            runs = [choices.judged(*pair) for pair in zip(runs, results, strict=True)]
    return runs


def _all_ok(*runs: Sequence[Comparison]) -> bool:
    return all(item.ok for run in runs for item in run)


def _better(kept: Sequence[Comparison], flushed: Sequence[Comparison]) -> list[Comparison]:
    """Accepts outputs that agree only where ORT flushes denormals, too."""
    remark = "where ORT flushes denormals, too"
    return [
        replace(other, remark=remark) if other.ok and not item.ok else item
        for item, other in zip(kept, flushed, strict=True)
    ]


def _compared(
    outputs: Sequence[Port],
    actual: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    exact: Sequence[np.ndarray | None],
) -> list[Comparison]:
    rows = zip(outputs, actual, expected, exact, strict=True)
    return [compare(port.name, got, want, truth, port.step) for port, got, want, truth in rows]


def _nan_notes(outputs: Sequence[Port], expected: Sequence[np.ndarray]) -> list[str]:
    """Notes on outputs with NaN in XLA's own result."""
    notes = []
    for port, want in zip(outputs, expected, strict=True):
        nans = _nan_count(want)
        if nans:
            notes.append(f"{port.name}: {nans} of {want.size} elements are NaN in XLA itself")
    return notes


def _nan_count(array: np.ndarray) -> int:
    return int((array != array).sum())

"""One verification: XLA once, ORT with and without graph optimisation.

Where a float output is outside its tolerance, the program is evaluated in f64 as well: an error of
up to twice XLA's own is XLA's rounding, not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hlo2onnx.calling import from_model, to_model
from hlo2onnx.sources.signature import Port
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.choices import Choices
from hlo2onnx.verification.compare import Comparison, Verification, compare
from hlo2onnx.verification.denormals import can_flush
from hlo2onnx.verification.inputs import is_float, random_array
from hlo2onnx.verification.ort import OrtProgram, check_model
from hlo2onnx.verification.reference import Reference


def verify(
    source: Source,
    model: bytes | str,
    input_names: Sequence[str],
    arrays: Sequence[np.ndarray] | None,
    seed: int,
    libraries: Sequence[str] = (),
) -> Verification:
    """Compares a model, serialized or in a file, with the program it was made from; see
    `OnnxProgram.verify`."""
    check_model(model)
    runner = _Runner(source, model, input_names, libraries)
    outputs = source.signature.outputs
    notes: list[str] = []
    if arrays is not None:
        expected, results = runner(arrays)
    else:
        for arrays, kind in _random_inputs(source, seed):
            expected, results = runner(arrays)
            notes = [kind]
            if not any(_nan_count(array) for array in (*expected, *results[0])):
                break
    assert arrays is not None
    notes += _nan_notes(outputs, expected)
    if not can_flush():
        notes.append("XLA flushes denormals to zero; ORT keeps them on this platform")
    unknown: list[np.ndarray | None] = [None] * len(outputs)
    optimized, plain = (_compared(outputs, actual, expected, unknown) for actual in results)
    if not all(item.ok for item in (*optimized, *plain)):
        exact = runner.reference.in_f64(arrays, expected)
        optimized, plain = (_compared(outputs, actual, expected, exact) for actual in results)
    if not all(item.ok for item in (*optimized, *plain)):
        choices = Choices.of(runner.reference, arrays, outputs, expected)
        if choices is not None:
            optimized, plain = map(choices.judged, (optimized, plain), results)
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
    ) -> None:
        self._inputs = source.signature.inputs
        self._outputs = source.signature.outputs
        self._names = input_names
        self._model = model
        self._libraries = libraries
        self.reference = Reference(source)

    def __call__(
        self, arrays: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
        """XLA's results, and ORT's with and without graph optimisation."""
        feeds = to_model(self._names, arrays, self._inputs)
        # One session at a time: each may hold all weights once more.
        results = [from_model(self._outputs, self._run(feeds, flag)) for flag in (True, False)]
        return self.reference(arrays), results

    def _run(self, feeds: Mapping[str, np.ndarray], optimize: bool) -> list[np.ndarray]:
        denormals = "flush" if can_flush() else "keep"
        program = OrtProgram(
            self._model, optimize=optimize, libraries=self._libraries, denormals=denormals
        )
        return program(feeds)


def _random_inputs(source: Source, seed: int) -> list[tuple[Sequence[np.ndarray], str]]:
    """Random inputs to try in turn until no result holds NaN, and what to call them.

    Normal ones first; then their absolute values, since variances and the like must not be
    negative, and what becomes of NaN in a network tells nothing.
    """
    rng = np.random.default_rng(seed)
    arrays = [random_array(port, rng) for port in source.signature.inputs]
    positive = [np.abs(array) if is_float(array) else array for array in arrays]
    kind = f"random inputs, seed {seed}"
    return [(arrays, kind), (positive, f"{kind}, floats made positive")]


def _compared(
    outputs: Sequence[Port],
    actual: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    exact: Sequence[np.ndarray | None],
) -> list[Comparison]:
    rows = zip(outputs, actual, expected, exact, strict=True)
    return [compare(port.name, got, want, truth, port.step) for port, got, want, truth in rows]


def _nan_notes(outputs: Sequence[Port], expected: Sequence[np.ndarray]) -> list[str]:
    """Says where XLA's own result is not worth comparing with."""
    notes = []
    for port, want in zip(outputs, expected, strict=True):
        nans = _nan_count(want)
        if nans:
            notes.append(f"{port.name}: {nans} of {want.size} elements are NaN in XLA itself")
    return notes


def _nan_count(array: np.ndarray) -> int:
    return int((array != array).sum())

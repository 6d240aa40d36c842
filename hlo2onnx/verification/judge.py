"""Judges models by XLA's results, which are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlo2onnx.runtime.denormals import can_flush
from hlo2onnx.runtime.sessions import check_model
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.candidate import Candidate
from hlo2onnx.verification.compare import Comparison, Verification, compare
from hlo2onnx.verification.nonunique_outputs import Choices
from hlo2onnx.verification.reference import Reference
from hlo2onnx.verification.trial import Inputs, Trial

Runs = list[list[Comparison]]
"""The comparisons of the outputs, in both runs: with graph optimization, and without."""


class Judge:
    """The trials of a program. It can judge many models.

    Args:
        source: The program.
        inputs: Inputs to run it on.

    Raises:
        VerificationError: XLA does not compile or run the program.
    """

    def __init__(self, source: Source, inputs: Sequence[Inputs]) -> None:
        self.signature = source.signature
        self.reference = Reference(source)
        self.trials = [Trial(item, self.reference(item.arrays)) for item in inputs]

    def __call__(self, candidate: Candidate) -> Verification:
        """Compares a model with XLA's results, in all trials.

        Raises:
            VerificationError: The model is not valid, or it does not run.
        """
        check_model(candidate.model)
        policy = candidate.denormals if can_flush() else "keep"
        notes = [*self._kinds(), *self._nan_notes()]
        found = self._judged(candidate, self.trials, policy)
        bad = [index for index, runs in enumerate(found) if not _all_ok(*runs)]
        if policy == "keep" and bad:
            # XLA flushes denormals to zero. Differences for this reason only are right.
            if can_flush():
                flushed = self._judged(candidate, [self.trials[index] for index in bad], "flush")
                for index, runs in zip(bad, flushed, strict=True):
                    found[index] = [_better(*pair) for pair in zip(found[index], runs, strict=True)]
            else:
                notes.append("XLA flushes denormals to zero; ORT keeps them on this platform")
        optimized, plain = (_worst([runs[run] for runs in found]) for run in (0, 1))
        for one, two in zip(optimized, plain, strict=True):
            if one.ok != two.ok:
                which = "with" if two.ok else "without"
                notes.append(f"{one.name} differs only {which} ORT's graph optimisation")
        return Verification(optimized, plain, notes)

    def _judged(self, candidate: Candidate, trials: Sequence[Trial], denormals: str) -> list[Runs]:
        """The comparisons of each trial."""
        arrays = [trial.arrays for trial in trials]
        # One session at a time: each may have a copy of all weights.
        optimized, plain = (
            candidate.runs(self.signature, arrays, on, denormals) for on in (True, False)
        )
        rows = zip(trials, optimized, plain, strict=True)
        return [self._judged_one(trial, [one, two]) for trial, one, two in rows]

    def _judged_one(self, trial: Trial, results: Sequence[Sequence[np.ndarray]]) -> Runs:
        """Compares the outputs of both runs with XLA's.

        If some differ, it uses an evaluation in f64, and then other choices of decompositions.
        """
        unknown: list[np.ndarray | None] = [None] * len(trial.expected)
        runs = [self._compared(trial, actual, unknown) for actual in results]
        if not _all_ok(*runs):
            exact = self.reference.in_f64(trial.arrays, trial.expected)
            runs = [self._compared(trial, actual, exact) for actual in results]
        if not _all_ok(*runs):
            outputs = self.signature.outputs
            choices = Choices.of(self.reference, trial.arrays, outputs, trial.expected)
            if choices is not None:
                runs = [choices.judged(*pair) for pair in zip(runs, results, strict=True)]
        return runs

    def _compared(
        self,
        trial: Trial,
        actual: Sequence[np.ndarray],
        exact: Sequence[np.ndarray | None],
    ) -> list[Comparison]:
        rows = zip(self.signature.outputs, actual, trial.expected, exact, strict=True)
        return [compare(port.name, got, want, truth, port.step) for port, got, want, truth in rows]

    def _kinds(self) -> list[str]:
        return [trial.inputs.kind for trial in self.trials if trial.inputs.kind]

    def _nan_notes(self) -> list[str]:
        """Notes on outputs with NaN in XLA's own result."""
        notes = []
        for trial in self.trials:
            for port, want in zip(self.signature.outputs, trial.expected, strict=True):
                nans = int((want != want).sum())
                if nans and trial.inputs.is_ordinary:
                    of = f"{nans} of {want.size} elements are NaN in XLA itself"
                    notes.append(f"{port.name}: {of}")
        return notes


def _all_ok(*runs: Sequence[Comparison]) -> bool:
    return all(item.ok for run in runs for item in run)


def _better(kept: Sequence[Comparison], flushed: Sequence[Comparison]) -> list[Comparison]:
    """Accepts outputs that agree only where ORT flushes denormals, too."""
    remark = "where ORT flushes denormals, too"
    return [
        replace(other, remark=remark) if other.ok and not item.ok else item
        for item, other in zip(kept, flushed, strict=True)
    ]


def _worst(trials: Sequence[Sequence[Comparison]]) -> list[Comparison]:
    """The comparison of each output to show: one that differs, or that of the largest error."""
    return [max(items, key=_badness) for items in zip(*trials, strict=True)]


def _badness(item: Comparison) -> tuple[bool, bool, float]:
    return (not item.ok and not item.unjudged, not item.ok, item.max_rel)

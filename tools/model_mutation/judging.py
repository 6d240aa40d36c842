"""Verifies a changed model against the program."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

import hlo2onnx
from hlo2onnx.errors import VerificationError
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate, OnnxRuntime
from hlo2onnx.verify.settings import Settings
from hlo2onnx.verify.trial import Trial


class ProgramJudge:
    """Says of models whether `verify` catches them. XLA runs once for all of them.

    Args:
        program: The translated program.
        seed: Seed of the verification.
    """

    def __init__(self, program: hlo2onnx.OnnxProgram, seed: int) -> None:
        self._program = program
        source = program._source
        given: list[tuple[list[np.ndarray], str]] | None = [([], "")]
        if source.signature.inputs:
            given = None
        self._judge = Judge(source, given, Settings(seed=seed))
        self._one = Judge(source, [])
        self._one.reference = self._judge.reference

    @property
    def arrays(self) -> Sequence[np.ndarray]:
        """The inputs of the first trial."""
        return self._judge.trials[0].arrays

    def finds(self, model: bytes) -> bool:
        """Whether `verify()` says that the model differs, or does not run."""
        # Most changes show in the first trial. The others would cost time only.
        return any(self._finds_in(trial, model) for trial in self._judge.trials)

    def finds_on(self, model: bytes, arrays: Sequence[np.ndarray]) -> bool:
        """Whether `verify(*arrays)` says so."""
        trial = Trial(arrays, self._judge.reference(arrays))
        return self._differs(self._one, trial, model)

    def _finds_in(self, trial: Trial, model: bytes) -> bool:
        return self._differs(self._judge, trial, model)

    def _differs(self, judge: Judge, trial: Trial, model: bytes) -> bool:
        judge = copy(judge)
        judge.trials = [trial]
        program = self._program
        runner = OnnxRuntime(program.libraries, program.providers)
        candidate = Candidate(model, program.input_names, runner, program.denormals)
        try:
            return bool(judge(candidate).differing)
        except VerificationError:
            return True

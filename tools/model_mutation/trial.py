"""One mutant of a program: is it caught, and if not, does it differ at all?"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np

import hlo2onnx
from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate, OnnxRuntime
from hlo2onnx.verify.settings import Settings
from hlo2onnx.verify.trial import Trial
from tools.model_mutation.inputs import Draw
from tools.model_mutation.mutant import Mutant, ordered
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.results import Result
from tools.model_mutation.search import COUNT, Search

CONFIRMED = 6
"""How many inputs may confirm a difference."""
END = 8.0
"""Seconds after which a run is believed not to end."""
SHOWN = 12
"""Arrays of at most this size are shown."""


class Trials:
    """A program and its mutants, in the order of the sample. XLA runs once for all of them.

    Args:
        count: Draws of the search.
    """

    def __init__(
        self, name: str, program: hlo2onnx.OnnxProgram, seed: int, count: int = COUNT
    ) -> None:
        self._count = count
        self._name = name
        self._program = program
        self._seed = seed
        self._model = program.model_proto
        source = program._source
        given: list[tuple[list[np.ndarray], str]] | None = None
        if not source.signature.inputs:
            given = [([], "")]
        self._judge = Judge(source, given, Settings(seed=0))
        self._one = Judge(source, [])
        self._one.reference = self._judge.reference
        self.mutants = ordered(mutants_of(self._model), seed)

    @cached_property
    def _search(self) -> Search:
        return Search(self._program, self._seed, self._count)

    def describe(self, mutant: Mutant, status: str) -> Result:
        """A result without a search."""
        path = "/".join(f"{place}.{name}" for place, name in mutant.path)
        fields = (mutant.operator, status, path, mutant.node, mutant.op, mutant.source)
        return Result(self._name, *fields, mutant.detail)

    def run(self, place: int) -> Result:
        """The result of a mutant."""
        mutant = self.mutants[place]
        result = self.describe(mutant, "")
        try:
            content = self._content(mutant)
        except (VerificationError, ValueError, KeyError):
            result.status = "invalid"
            return result
        # Most changes show in the first trial. The others would cost time only.
        if any(self._differs(self._judge, trial, content) for trial in self._judge.trials):
            result.status = "caught"
            return result
        self._find_difference(content, result)
        return result

    def _content(self, mutant: Mutant) -> bytes:
        """The changed model.

        Raises:
            VerificationError: It is no valid model, or a run does not end.
        """
        content: bytes = mutant.apply(self._model).SerializeToString()
        check_model(content)
        libraries = self._program.libraries
        session = OrtProgram(content, optimize=False, threads=1, libraries=libraries)
        ports = self._program._source.signature.inputs
        arrays = self._judge.trials[0].arrays
        try:
            session(to_model(self._program.input_names, arrays, ports), END)
        except OverBudgetError:
            raise
        except VerificationError:
            pass  # the verification says so
        return content

    def _differs(self, judge: Judge, trial: Trial, model: bytes) -> bool:
        """Whether a verification says that a model differs, or does not run."""
        judge = copy(judge)
        judge.trials = [trial]
        program = self._program
        runner = OnnxRuntime(program.libraries, program.providers)
        candidate = Candidate(model, program.input_names, runner, program.denormals)
        try:
            return bool(judge(candidate).differing)
        except VerificationError:
            return True

    def _differs_on(self, model: bytes, arrays: Sequence[np.ndarray]) -> bool:
        """Whether `verify(*arrays)` says so."""
        trial = Trial(arrays, self._judge.reference(arrays))
        return self._differs(self._one, trial, model)

    def _find_difference(self, content: bytes, result: Result) -> None:
        found = self._search.differences(content)
        result.excess = max(found.values(), default=0.0)
        result.status = "alike"
        largest = sorted(found, key=lambda place: -found[place])
        chosen = [*list(found)[: CONFIRMED // 2], *largest[: CONFIRMED // 2]]
        own = self._model.SerializeToString()
        for place in dict.fromkeys(chosen):
            draw = self._search.draws[place]
            if self._differs_on(content, draw.arrays) and not self._differs_on(own, draw.arrays):
                result.status = "survived"
                result.inputs = self._shown(draw)
                break

    def _shown(self, draw: Draw) -> dict[str, str]:
        rows = zip(self._program.input_names, draw.kinds, draw.arrays, strict=True)
        return {name: f"{kind}{_numbers(array)}" for name, kind, array in rows}


def _numbers(array: np.ndarray) -> str:
    if array.size > SHOWN:
        return f" ({array.dtype}{list(array.shape)})"
    with np.printoptions(precision=4):
        return f": {array.tolist()}"

"""One mutant of a program: is it caught, and if not, does it differ at all?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx

import hlo2onnx
from hlo2onnx.errors import VerificationError
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import check_model
from tools.model_mutation.constants import SMALLEST
from tools.model_mutation.inputs import Draw
from tools.model_mutation.judging import ProgramJudge
from tools.model_mutation.mutant import Mutant, ordered
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.search import COUNT, Search
from tools.model_mutation.sessions import LimitedSession

CONFIRMED = 6
"""How many inputs may confirm a difference."""
MORE = 10.0
"""A difference of as many tolerances is no rounding of one constant."""
END = 8.0
"""Seconds after which a run is believed not to end."""
SHOWN = 12
"""Arrays of at most this size are shown."""


@dataclass
class Result:
    """What was found about a mutant.

    Attributes:
        status: "caught" by `verify`. "survived": it passes, and another input shows the difference.
            "rounding": differences are beyond the tolerance, and `verify` calls them right, as
            rounding. "within tolerance"; "equivalent": results are identical. "invalid": ONNX
            Runtime does not load the model, or a run does not end.
        inputs: The input that shows the difference: kind of numbers, and small arrays.
        disputed: An input on which `verify` says of the unchanged model that it differs.
        excess: The largest difference beyond the tolerance, relative to the output's scale.
    """

    model: str
    operator: str
    status: str
    graph: str = ""
    node: str = ""
    op: str = ""
    source: str = ""
    detail: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    disputed: dict[str, str] = field(default_factory=dict)
    excess: float = 0.0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The result as a line of the log."""
        return asdict(self)


class Trials:
    """A program and its mutants, in the order of the sample.

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
        self._judge = ProgramJudge(program, seed=0)
        self._search: Search | None = None
        self.mutants = ordered(mutants_of(self._model), seed)

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
        if self._judge.finds(content):
            result.status = "caught"
            return result
        self._find_difference(content, result)
        return result

    def _content(self, mutant: Mutant) -> bytes:
        """The changed model.

        Raises:
            VerificationError: It is no valid model, or a run does not end.
        """
        changed: onnx.ModelProto = mutant.apply(self._model)
        content: bytes = changed.SerializeToString()
        check_model(content)
        session = LimitedSession(content, self._program.libraries, END)
        source = self._program._source
        session(to_model(self._program.input_names, self._judge.arrays, source.signature.inputs))
        if session.was_stopped:
            raise VerificationError("a run does not end")
        return content

    def _find_difference(self, content: bytes, result: Result) -> None:
        if self._search is None:
            self._search = Search(self._program, self._seed, self._count)
        identical, found = self._search.differences(content)
        if identical:
            result.status = "equivalent"
            return
        if result.operator.endswith(SMALLEST):
            # Elsewhere, rounding alone gives other results.
            found = [item for item in found if item.times > MORE]
            found = [item for item in found if item.draw in self._search.stable]
        if not found:
            result.status = "within tolerance"
            return
        result.excess = max(item.excess for item in found)
        result.status = "rounding"
        largest = sorted(found, key=lambda item: -item.excess)
        chosen = [*found[: CONFIRMED // 2], *largest[: CONFIRMED // 2]]
        for place in dict.fromkeys(item.draw for item in chosen):
            draw = self._search.draws[place]
            if not self._judge.finds_on(content, draw.arrays):
                continue
            if self._is_right_on(draw):
                result.status = "survived"
                result.inputs = self._shown(draw)
                break
            result.disputed = self._shown(draw)

    def _is_right_on(self, draw: Draw) -> bool:
        """Whether the model itself passes on an input."""
        return not self._judge.finds_on(self._model.SerializeToString(), draw.arrays)

    def _shown(self, draw: Draw) -> dict[str, str]:
        rows = zip(self._program.input_names, draw.kinds, draw.arrays, strict=True)
        return {name: f"{kind}{_numbers(array)}" for name, kind, array in rows}


def _numbers(array: np.ndarray) -> str:
    if array.size > SHOWN:
        return f" ({array.dtype}{list(array.shape)})"
    with np.printoptions(precision=4):
        return f": {array.tolist()}"

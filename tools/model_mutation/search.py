"""A search for an input on which a mutant gives other results than the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

import hlo2onnx
from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.ports import tensor_of
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.verify.compare import compare
from tools.model_mutation.graphs import own_constants, scopes_of
from tools.model_mutation.inputs import Draw, draws_of

COUNT = 240
"""Draws of the search."""
SECONDS = 3.0
"""Limit of a run."""
TOTAL = 20.0
"""Limit of all runs of a model. Slow models have fewer draws."""

SMALL = 64
"""Size of constants whose numbers are tried as inputs."""
LARGEST = 1e6
"""The largest of these numbers."""

Outputs = list[np.ndarray] | None
"""The outputs of a run; None if it failed."""


@dataclass(frozen=True)
class Difference:
    """An input on which a mutant differs.

    Attributes:
        draw: Place of the input among the draws.
        excess: The largest difference, relative to the scale of the output; 1 for a run that
            fails, and for NaN.
    """

    draw: int
    excess: float


class Search:
    """The draws of a program, and its results on them."""

    def __init__(self, program: hlo2onnx.OnnxProgram, seed: int, count: int = COUNT) -> None:
        source = program._source
        self._outputs = source.signature.outputs
        self._inputs = source.signature.inputs
        self._names = program.input_names
        self._libraries = program.libraries
        model = program.model_proto
        values = numbers_of(model)
        ports = [tensor_of(port) for port in source.signature.inputs]
        shaped = [(tuple(map(int, port.shape)), port.numpy) for port in ports]
        self.draws = draws_of(shaped, values, count, seed)
        self._kept = list(range(len(self.draws)))
        self._expected = self._run(model.SerializeToString(), self.draws)
        failed = {place for place, found in self._expected.items() if found is None}
        self._kept = [place for place in self._expected if place not in failed]

    def differences(self, model: bytes) -> tuple[bool, list[Difference]]:
        """Whether results are identical everywhere, and the inputs where they are beyond tolerance.

        Raises:
            VerificationError: ONNX Runtime does not load the model.
        """
        found, identical = [], True
        for place, actual in self._run(model, self.draws).items():
            expected = self._expected[place]
            assert expected is not None
            if actual is None:
                found.append(Difference(place, 1.0))
                identical = False
                continue
            identical = identical and all(map(_same, actual, expected))
            difference = self._difference(place, actual, expected)
            if difference is not None:
                found.append(difference)
        return identical, found

    def _difference(
        self, place: int, actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]
    ) -> Difference | None:
        """The largest difference beyond the tolerance."""
        found = []
        for port, got, want in zip(self._outputs, actual, expected, strict=True):
            if _same(got, want):
                continue
            item = compare(port.name, got, want, None, port.step)
            if not item.ok:
                excess = max(min(item.max_rel, 1e30), float(item.nonfinite > 0))
                found.append(Difference(place, excess))
        return max(found, key=lambda item: item.excess, default=None)

    def _run(self, model: bytes, draws: Sequence[Draw]) -> dict[int, Outputs]:
        session = OrtProgram(model, optimize=False, threads=1, libraries=self._libraries)
        found: dict[int, Outputs] = {}
        end = time.monotonic() + TOTAL
        for place in self._kept:
            if time.monotonic() > end:
                break
            try:
                results = session(to_model(self._names, draws[place].arrays, self._inputs), SECONDS)
                found[place] = from_model(self._outputs, results)
            except VerificationError:
                found[place] = None
        return found


def numbers_of(model: onnx.ModelProto) -> np.ndarray:
    """The numbers in small constants of a model."""
    found = {0.0, 1.0}
    for scope in scopes_of(model):
        for tensor in own_constants(scope.graph).values():
            array = numpy_helper.to_array(tensor)
            if array.size <= SMALL and array.dtype.kind in "fiu":
                found |= set(array.astype(np.float64).ravel().tolist())
    return np.array(sorted(number for number in found if abs(number) < LARGEST))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()

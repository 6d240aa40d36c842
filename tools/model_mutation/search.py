"""A search for an input on which a mutant gives other results than the model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

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
from tools.model_mutation.inputs import draws_of

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

Arrays = list[np.ndarray]


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
        found = self._run(model.SerializeToString(), range(len(self.draws)))
        self._expected = {place: outputs for place, outputs in found.items() if outputs is not None}

    def differences(self, model: bytes) -> dict[int, float]:
        """The draws on which results are beyond the tolerance, by their places, and the largest
        difference, relative to the scale of the output; 1 for a run that fails, and for NaN.

        Raises:
            VerificationError: ONNX Runtime does not load the model.
        """
        found = {}
        for place, actual in self._run(model, self._expected).items():
            expected = self._expected[place]
            excess = [1.0] if actual is None else list(self._excess(actual, expected))
            if excess:
                found[place] = max(excess)
        return found

    def _excess(self, actual: Arrays, expected: Arrays) -> Iterator[float]:
        """The difference of each output that is beyond the tolerance."""
        for port, got, want in zip(self._outputs, actual, expected, strict=True):
            item = compare(port.name, got, want, None, port.step)
            if not item.ok:
                yield max(min(item.max_rel, 1e30), float(item.nonfinite > 0))

    def _run(self, model: bytes, places: Iterable[int]) -> dict[int, Arrays | None]:
        """The outputs for these draws, None where a run fails."""
        session = OrtProgram(model, optimize=False, threads=1, libraries=self._libraries)
        found: dict[int, Arrays | None] = {}
        end = time.monotonic() + TOTAL
        for place in places:
            if time.monotonic() > end:
                break
            try:
                results = session(
                    to_model(self._names, self.draws[place].arrays, self._inputs), SECONDS
                )
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

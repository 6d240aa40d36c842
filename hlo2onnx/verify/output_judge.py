"""Compares the outputs of changed models with XLA's, as a verification does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from hlo2onnx.frontend.source import Source
from hlo2onnx.runtime.calling import from_model
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.reference import Reference


class OutputJudge:
    """XLA's outputs for one set of inputs.

    Attributes:
        arrays: The inputs.
        expected: The outputs.

    Args:
        source: The program.
        reference: The program in XLA.
    """

    def __init__(self, source: Source, reference: Reference, arrays: Sequence[np.ndarray]) -> None:
        self._ports = source.signature.outputs
        self._reference = reference
        self.arrays = arrays
        self.expected = reference(arrays)

    @cached_property
    def _exact(self) -> Sequence[np.ndarray | None]:
        """The outputs in f64, where they are known."""
        return self._reference.in_f64(self.arrays, self.expected)

    def __call__(self, outputs: Mapping[int, np.ndarray]) -> dict[int, Comparison]:
        """Compares outputs of the model, by their index."""
        made = {
            index: from_model([self._ports[index]], [array])[0] for index, array in outputs.items()
        }
        found = {index: self._compared(index, array, None) for index, array in made.items()}
        for index, item in found.items():
            if not item.ok:
                found[index] = self._compared(index, made[index], self._exact[index])
        return found

    def _compared(self, index: int, got: np.ndarray, exact: np.ndarray | None) -> Comparison:
        port = self._ports[index]
        return compare(port.name, got, self.expected[index], exact, port.step)

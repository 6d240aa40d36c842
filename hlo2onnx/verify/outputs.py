"""Compares the outputs of changed models, or of those that get some of XLA's values, with XLA's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from hlo2onnx.frontend.source import Source
from hlo2onnx.runtime.calling import from_model
from hlo2onnx.verify.checks import Suspect
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.model_graphs import ModelGraphs
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Start


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


MANY_SUSPECTS = 6
"""Up to this many suspects, each one is tried without the others."""


class ModelOutputs:
    """The outputs of a model.

    Args:
        graphs: The graphs of the model.
        judge: Compares its outputs.
        start: Starts a session from a serialized model.
    """

    def __init__(self, graphs: ModelGraphs, judge: OutputJudge, start: Start) -> None:
        self._graphs = graphs
        self._judge = judge
        self._start = start

    def needed(
        self, suspects: Sequence[Suspect], feeds: Mapping[str, np.ndarray]
    ) -> Sequence[Suspect]:
        """The suspects without which the outputs still differ.

        If the outputs agree where some suspects have XLA's values, the others are not the reason.
        """
        if len(suspects) > MANY_SUSPECTS or not self._agree(suspects, feeds):
            return suspects
        needed = list(suspects)
        for suspect in reversed(suspects):
            rest = [each for each in needed if each is not suspect]
            if rest and self._agree(rest, feeds):
                needed = rest
        return needed

    def _agree(self, given: Sequence[Suspect], feeds: Mapping[str, np.ndarray]) -> bool:
        """Whether the outputs agree if the model gets XLA's values instead of some of its own."""
        fed = {**feeds, **{suspect.point.name: suspect.want for suspect in given}}
        return all(item.ok for item in self.compared(fed).values())

    def compared(self, fed: Mapping[str, np.ndarray]) -> dict[int, Comparison]:
        """Compares the outputs that the model computes from some values."""
        names = [value.name for value in self._graphs.model.graph.output]
        part = self._graphs.extracted(self._graphs.main, names, fed)
        made: dict[str, np.ndarray] = {}
        if part is not None:
            session = self._start(part.model.SerializeToString())
            made = dict(zip(part.targets, session(part.feeds), strict=True))
        return self._judge({i: made[name] for i, name in enumerate(names) if name in made})

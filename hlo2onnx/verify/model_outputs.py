"""The outputs of a model that gets some of XLA's values instead of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hlo2onnx.verify.block_check import Suspect
from hlo2onnx.verify.compare import Comparison
from hlo2onnx.verify.model_graphs import ModelGraphs
from hlo2onnx.verify.output_judge import OutputJudge
from hlo2onnx.verify.runners import Start

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

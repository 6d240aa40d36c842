"""Compares the values of one block, each computed by the model from XLA's values around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.notes import Path
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.model_graphs import Extracted, ModelGraphs, Scope
from hlo2onnx.verify.points import Point, array_of
from hlo2onnx.verify.program_values import BlockValues
from hlo2onnx.verify.runners import Runner, Session, Start


@dataclass(frozen=True)
class Suspect:
    """A value that the model computes differently from XLA's values of what it is computed from.

    Attributes:
        got: What the model computes.
        want: XLA's value.
    """

    point: Point
    comparison: Comparison
    got: np.ndarray
    want: np.ndarray


class BlockCheck:
    """The model's part for one block of the program, ready to be compared with XLA.

    Args:
        graphs: The graphs of the model.
        scope: The graph with the values of the block.
        block: The path of the block.
        points: The points in this graph and of this block, in order.
        start: Starts a session from a serialized model.
    """

    def __init__(
        self,
        graphs: ModelGraphs,
        scope: Scope,
        block: Path,
        points: Sequence[Point],
        start: Start,
    ) -> None:
        self.graphs = graphs
        self.scope = scope
        self.block = block
        self._points = points
        self._start = start
        self._session: tuple[Extracted, Session] | None = None
        self.compared: set[str] = set()
        self.errors: dict[str, float] = {}

    def known(self, values: BlockValues) -> dict[str, tuple[Point, np.ndarray]]:
        """XLA's value for each value of the model, with its first point."""
        found: dict[str, tuple[Point, np.ndarray]] = {}
        for point in self._points:
            array = array_of(point, values, self.block)
            if array is not None:
                found.setdefault(point.name, (point, array))
        return found

    def suspects(
        self, values: BlockValues, outer: Mapping[str, np.ndarray]
    ) -> tuple[list[Suspect], dict[str, np.ndarray]]:
        """The values that differ in one run of the block, and all values that the model was given.

        Args:
            outer: Values of the graphs around this one.
        """
        known = self.known(values)
        constants = {name for name in known if self.graphs.constant(name) is not None}
        fed = dict(outer)
        fed.update((name, array) for name, (_, array) in known.items() if name not in constants)
        found = self._constants(known, constants)
        computed = self._computed([name for name in known if name not in constants], fed)
        self.compared |= {*computed, *constants}
        for name, got in computed.items():
            point, want = known[name]
            comparison = compare(name, got, want)
            self.errors[name] = comparison.max_rel
            if not comparison.ok:
                found.append(Suspect(point, comparison, got, want))
        found.sort(key=lambda suspect: suspect.point.order)
        return found, fed

    def _constants(
        self, known: Mapping[str, tuple[Point, np.ndarray]], names: set[str]
    ) -> list[Suspect]:
        found = []
        for name in names:
            point, want = known[name]
            tensor = self.graphs.constant(name)
            assert tensor is not None
            got = oir.serde.deserialize_tensor(tensor).numpy()
            comparison = compare(name, got, want)
            if not comparison.ok:
                found.append(Suspect(point, comparison, got, want))
        return found

    def _computed(
        self, targets: Sequence[str], fed: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        if self._session is None:
            part = self.graphs.extracted(self.scope, targets, fed)
            if part is None:
                return {}
            self._session = part, self._start(part.model.SerializeToString())
        part, session = self._session
        feeds = {name: fed[name.removesuffix("::fed")] for name in part.feeds}
        return dict(zip(part.targets, session(feeds), strict=True))


def starter(runner: Runner, optimize: bool) -> Start:
    """Starts sessions that treat denormal floats as XLA does, where that is possible."""
    denormals = "flush" if runner.can_flush else "keep"
    return partial(runner.session, optimize=optimize, denormals=denormals)

"""Which values differ from run to run: those that depend on what the model is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.replace import state_count
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import present

_OF_SHAPES = frozenset({"Shape", "Size"})
"""Operators whose result depends on shapes only."""


@dataclass(frozen=True)
class Draw:
    """One use of a generator of random bits.

    Attributes:
        keys: Its key.
        counters: Its other operands.
        results: The random bits, and the next key.
    """

    keys: Sequence[oir.Value]
    counters: Sequence[oir.Value]
    results: Sequence[oir.Value]


class Dependence:
    """Dependences of the values of a finished graph and its subgraphs.

    Args:
        graph: The main graph.
    """

    def __init__(self, graph: oir.Graph) -> None:
        self._results = list(graph.outputs)
        self._given = set(graph.inputs)
        self._owners = {
            value: (node, index)
            for node in all_nodes(graph)
            for body in subgraphs(node)
            for index, value in enumerate(body.inputs)
        }
        self._fixed: set[oir.Value] = set()

    def is_fixed(self, values: Iterable[oir.Value]) -> bool:
        """Whether the values are the same in every run with inputs of the same shapes: they depend
        on no input of the model and on no random operator."""
        seen, pending = set(), list(values)
        while pending:
            value = pending.pop()
            if value in seen or value in self._fixed:
                continue
            node = value.producer()
            if value in self._given or (node is not None and not is_repeatable(node)):
                return False
            seen.add(value)
            pending += self._sources(value)
        self._fixed |= seen
        return True

    def repeats(self, draws: Sequence[Draw]) -> bool:
        """Whether results of the model depend on random bits that are the same in every run.

        Bits that only make keys do not count. The bits drawn with these keys do.
        """
        keys = {key for draw in draws for key in draw.keys}
        fixed = [draw for draw in draws if self.is_fixed((*draw.keys, *draw.counters))]
        used = self._used(keys) if fixed else set()
        return any(not used.isdisjoint(draw.results) for draw in fixed)

    def _used(self, without: AbstractSet[oir.Value]) -> set[oir.Value]:
        """The values that results of the model depend on by paths without these values."""
        seen: set[oir.Value] = set()
        pending = [value for value in self._results if value not in without]
        while pending:
            value = pending.pop()
            if value not in seen:
                seen.add(value)
                pending += [source for source in self._sources(value) if source not in without]
        return seen

    def _sources(self, value: oir.Value) -> list[oir.Value]:
        """The values that a value is computed from directly."""
        node, index = value.producer(), value.index()
        if node is None:
            owner, index = self._owners.get(value, (None, 0))
            return [] if owner is None else _of_body_input(owner, index)
        if node.op_type in _OF_SHAPES:
            return []
        bodies = subgraphs(node)
        if not bodies:
            return present(node.inputs)
        assert index is not None
        if node.op_type == "If":
            return [*present(node.inputs), *(branch.outputs[index] for branch in bodies)]
        return _of_loop_output(node, index)


def _of_loop_output(node: oir.Node, index: int) -> list[oir.Value]:
    """The sources of an output of a Loop or Scan: the body's result, the initial state and the
    values that determine the trip count."""
    controls, states, results = _layout(node)
    body = node.attributes["body"].as_graph()
    start = node.inputs[controls + index] if index < states else None
    return present(
        [*node.inputs[:controls], start, *body.outputs[:results], body.outputs[results + index]]
    )


def _of_body_input(node: oir.Node, index: int) -> list[oir.Value]:
    """The sources of an input of the body of a Loop or Scan; none for the iteration number."""
    controls, states, results = _layout(node)
    state = index - controls
    if state < 0:
        return []
    body = node.attributes["body"].as_graph()
    again = body.outputs[results + state] if state < states else None
    return present([node.inputs[index], again])


def _layout(node: oir.Node) -> tuple[int, int, int]:
    """The number of inputs of a Loop or Scan before the states, of states, and of outputs of the
    body before the states."""
    is_loop = node.op_type == "Loop"
    return 2 * is_loop, state_count(node), int(is_loop)

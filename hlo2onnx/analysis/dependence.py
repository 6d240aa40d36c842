"""Which values differ from run to run: those that depend on what the model is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as oir

from hlo2onnx.graph.edit import all_nodes, subgraphs
from hlo2onnx.graph.hoist import is_repeatable


class Dependence:
    """Dependences of the values of a finished graph and its subgraphs.

    Args:
        graph: The main graph.
    """

    def __init__(self, graph: oir.Graph) -> None:
        self._given = set(graph.inputs)
        self._owners = {
            value: (node, index)
            for node in all_nodes(graph)
            for body in subgraphs(node)
            for index, value in enumerate(body.inputs)
        }
        self._fixed: set[oir.Value] = set()

    def is_fixed(self, values: Iterable[oir.Value]) -> bool:
        """Whether the values are the same in every run: neither an input of the model nor a
        random operator has a part in them."""
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

    def _sources(self, value: oir.Value) -> list[oir.Value]:
        """The values that a value is computed from directly."""
        node, index = value.producer(), value.index()
        if node is None:
            owner, index = self._owners.get(value, (None, 0))
            return [] if owner is None else _of_body_input(owner, index)
        bodies = subgraphs(node)
        if not bodies:
            return _present(node.inputs)
        assert index is not None
        if node.op_type == "If":
            return [*_present(node.inputs), *(branch.outputs[index] for branch in bodies)]
        return _of_loop_output(node, index)


def _of_loop_output(node: oir.Node, index: int) -> list[oir.Value]:
    """What an output of a Loop or Scan comes from: what its body gives, the state it starts with
    and what tells the number of trips."""
    controls, states, results = _layout(node)
    body = node.attributes["body"].as_graph()
    start = node.inputs[controls + index] if index < states else None
    return _present(
        [*node.inputs[:controls], start, *body.outputs[:results], body.outputs[results + index]]
    )


def _of_body_input(node: oir.Node, index: int) -> list[oir.Value]:
    """What an input of the body of a Loop or Scan comes from; nothing for the trip's number."""
    controls, states, results = _layout(node)
    state = index - controls
    if state < 0:
        return []
    body = node.attributes["body"].as_graph()
    again = body.outputs[results + state] if state < states else None
    return _present([node.inputs[index], again])


def _layout(node: oir.Node) -> tuple[int, int, int]:
    """How many inputs of a Loop or Scan come before the states, how many states there are, and how
    many outputs of the body come before theirs."""
    if node.op_type == "Loop":
        return 2, len(node.inputs) - 2, 1
    return 0, len(node.inputs) - node.attributes["num_scan_inputs"].as_int(), 0


def _present(values: Sequence[oir.Value | None]) -> list[oir.Value]:
    return [value for value in values if value is not None]

"""Values of a graph that follow from given values and constants, at translation time."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import OPERATORS, evaluate
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import const_of, present, size_of

_ELEMENTS = 512
"""Elements that are evaluated in the time that a node takes on its own."""

Arrays = dict[oir.Value, np.ndarray]


def following(graph: oir.Graph, given: Collection[oir.Value]) -> set[oir.Value]:
    """The values that `evaluator` computes from given ones and from constants, with these.

    A result of an If is among them if its condition is, and both branches give it.
    """
    known = set(given)
    _add_following(graph, known)
    return known


def _add_following(graph: oir.Graph, known: set[oir.Value]) -> None:
    for node in nodes_in(graph):
        if node.domain or not _are_known(node.inputs, known):
            continue
        if node.op_type in OPERATORS:
            known.update(x for x in node.outputs if size_of(x) is not None)
        elif node.op_type == "If":
            branches = subgraphs(node)
            for branch in branches:
                _add_following(branch, known)
            results = zip(*(branch.outputs for branch in branches), strict=True)
            for output, both in zip(node.outputs, results, strict=True):
                if all(is_known(x, known) for x in both):
                    known.add(output)


def _are_known(values: Iterable[oir.Value | None], known: Collection[oir.Value]) -> bool:
    for x in values:  # noqa: SIM110  (of most nodes, the first is not)
        if x is None or not is_known(x, known):
            return False
    return True


def is_known(x: oir.Value, known: Collection[oir.Value]) -> bool:
    """Whether a value is among known ones, or is a constant."""
    return x in known or const_of(x) is not None


def array_of(x: oir.Value, arrays: Arrays) -> np.ndarray:
    """What a value holds that is among these, or is a constant."""
    array = arrays[x] if x in arrays else const_of(x)
    assert array is not None
    return array


class Evaluation:
    """Computes values that follow from others.

    Args:
        wanted: Values of a graph that `following` gives for the values that are given later.

    Attributes:
        count: The number of nodes that may be evaluated; those with many elements count more.
    """

    def __init__(self, wanted: Iterable[oir.Value]) -> None:
        self._results: dict[oir.Node, set[int]] = {}
        pending = list(wanted)
        while pending:
            x = pending.pop()
            node, place = x.producer(), x.index()
            if node is None or place is None or const_of(x) is not None:
                continue
            places = self._results.setdefault(node, set())
            if place not in places:
                places.add(place)
                pending += present(node.inputs)
                pending += [branch.outputs[place] for branch in subgraphs(node)]
        self.count = sum(1 + _elements(node) // _ELEMENTS for node in self._results)

    def run(self, graph: oir.Graph, arrays: Arrays) -> None:
        """Adds what is wanted to the arrays.

        Raises:
            Unknown: A result depends on the runtime.
        """
        for node in graph:
            places = self._results.get(node, set())
            if node.op_type == "If":
                self._choose(node, places, arrays)
            elif places and node.outputs[0] not in arrays:
                inputs = [array_of(x, arrays) for x in present(node.inputs)]
                arrays[node.outputs[0]] = np.asarray(evaluate(node, inputs))

    def _choose(self, node: oir.Node, places: Collection[int], arrays: Arrays) -> None:
        if not places:
            return
        (condition,) = present(node.inputs)
        name = "then_branch" if array_of(condition, arrays).all() else "else_branch"
        branch = node.attributes[name].as_graph()
        self.run(branch, arrays)
        for place in places:
            arrays[node.outputs[place]] = array_of(branch.outputs[place], arrays)


def _elements(node: oir.Node) -> int:
    return sum(size_of(x) or 0 for x in (*node.inputs, *node.outputs))

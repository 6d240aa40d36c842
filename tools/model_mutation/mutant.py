"""A changed model: what was changed, and where."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from tools.model_mutation.graphs import Path, Scope, graph_at, source_of

Edit = Callable[[onnx.GraphProto], None]
"""Changes the graph that has the node."""


@dataclass(frozen=True)
class Mutant:
    """One change of a model.

    Attributes:
        operator: Name of the operator of mutation.
        path: The graph.
        node: Name or first output of the changed node, or name of the constant.
        op: Operator of the node; "constant" for a constant.
        source: The source line of the node.
        detail: The change.
        edit: Makes it.
    """

    operator: str
    path: Path
    node: str
    op: str
    source: str
    detail: str
    edit: Edit

    def apply(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A copy of the model with the change."""
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        self.edit(graph_at(changed, self.path))
        # Types of values between nodes may have changed.
        for graph in _graphs(changed.graph):
            del graph.value_info[:]
        return changed


@dataclass(frozen=True)
class Site:
    """A node, for operators of mutation."""

    scope: Scope
    place: int

    @property
    def node(self) -> onnx.NodeProto:
        """The node."""
        return self.scope.graph.node[self.place]

    @property
    def op(self) -> str:
        """Its operator."""
        return str(self.node.op_type)

    def type(self, name: str) -> object:
        """Element type and shape of a value; None if not known."""
        return self.scope.types.get(name)

    def mutant(
        self, operator: str, detail: str, change: Callable[[onnx.NodeProto], None]
    ) -> Mutant:
        """A mutant that changes this node."""
        place = self.place
        return self.of_graph(operator, detail, lambda graph: change(graph.node[place]))

    def of_graph(self, operator: str, detail: str, edit: Edit) -> Mutant:
        """A mutant that changes the graph of this node."""
        node = self.node
        name = node.name or next(iter(node.output), "")
        source = source_of(node) or self.scope.source
        return Mutant(operator, self.scope.path, name, self.op, source, detail, edit)


def swap_inputs(one: int, other: int, node: onnx.NodeProto) -> None:
    """Swaps two operands."""
    node.input[one], node.input[other] = node.input[other], node.input[one]


def ordered(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """The mutants in the order in which a sample takes them: the operators take turns."""
    rng = random.Random(seed)
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        groups[mutant.operator].append(mutant)
    for group in groups.values():
        rng.shuffle(group)
    names = sorted(groups)
    rng.shuffle(names)
    found = []
    while names:
        names = [name for name in names if groups[name]]
        found += [groups[name].pop() for name in names]
    return found


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)

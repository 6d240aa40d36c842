"""Finds and extracts parts of a model, down to the bodies of its loops and branches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import onnx
import onnx_ir as oir

TRIP = "::trip"
FED = "::fed"
"""Suffix of the name under which an extracted model takes a value that it also computes."""


@dataclass(eq=False)
class Scope:
    """One graph of a model: the main graph, a body or branch, or that of a function.

    Attributes:
        parent: The graph around it.
        inputs: Names of its inputs.
        nodes: Its nodes, with their position in the model.
        initializers: Its initializers by name.
        name: Its name.
        owner: The node whose body or branch it is.
    """

    parent: Scope | None
    inputs: list[str]
    nodes: list[tuple[int, onnx.NodeProto]] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    name: str = ""
    owner: onnx.NodeProto | None = None

    def chain(self) -> list[Scope]:
        """The outermost graph first, this one last."""
        return [*(self.parent.chain() if self.parent else []), self]


class ModelGraphs:
    """The graphs of a model, and the graph of each value.

    Names of values are unique in a model and in each function.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.scopes: dict[str, Scope] = {}
        self._counter = count()
        self.main = self._read(model.graph.node, model.graph.input, None)
        self._note_initializers(self.main, model.graph)
        for function in model.functions:
            self._read(function.node, function.input, None)

    def _read(
        self,
        nodes: Iterable[onnx.NodeProto],
        inputs: Iterable[onnx.ValueInfoProto | str],
        parent: Scope | None,
    ) -> Scope:
        names = [each if isinstance(each, str) else each.name for each in inputs]
        scope = Scope(parent, names)
        self.scopes.update(dict.fromkeys(names, scope))
        for node in nodes:
            scope.nodes.append((next(self._counter), node))
            self.scopes.update(dict.fromkeys(filter(None, node.output), scope))
            for graph in subgraphs_of(node):
                rows = _rows(node, graph) if node.op_type == "Scan" else []
                inner = self._read([*rows, *graph.node], graph.input, scope)
                inner.owner, inner.name = node, graph.name
                self._note_initializers(inner, graph)
        return scope

    def _note_initializers(self, scope: Scope, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            scope.initializers[tensor.name] = tensor
            self.scopes[tensor.name] = scope

    def constant(self, name: str) -> onnx.TensorProto | None:
        """The content of an initializer; None for other values."""
        scope = self.scopes.get(name)
        return None if scope is None else scope.initializers.get(name)

    def extracted(
        self, scope: Scope, targets: Sequence[str], fed: Mapping[str, np.ndarray]
    ) -> Extracted | None:
        """The part of the model that computes values of a graph from other values.

        Args:
            targets: Names of the values to compute. Values that depend on an input of a body that
                is not given are left out.
            fed: The values to compute them from, by name. Each reader reads these instead of what
                the model computes.

        Returns:
            None if nothing is left.
        """
        chain = scope.chain()
        nodes = sorted((item for each in chain for item in each.nodes), key=lambda item: item[0])
        initializers = {
            name: tensor for each in chain for name, tensor in each.initializers.items()
        }
        known = set(initializers) | set(fed)
        reads = {index: _read_names(node) for index, node in nodes}
        able = [(index, node) for index, node in nodes if _is_able(reads[index], node, known)]
        made = {name for _, node in able for name in node.output}
        targets = [name for name in targets if name in made]
        if not targets:
            return None
        needed, picked = set(targets), []
        for index, node in reversed(able):
            if needed.intersection(node.output):
                picked.append(node)
                needed |= reads[index].difference(fed)
        read = {name for node in picked for name in _read_names(node)}
        inputs = [name for name in fed if name in read]
        renamed = {name: f"{name}{FED}" for name in inputs}
        graph = onnx.helper.make_graph(
            [_renamed(node, renamed) for node in reversed(picked)],
            "extracted",
            [
                onnx.helper.make_tensor_value_info(
                    renamed[name], oir.DataType.from_numpy(fed[name].dtype), fed[name].shape
                )
                for name in inputs
            ],
            [onnx.ValueInfoProto(name=name) for name in targets],
            [tensor for name, tensor in initializers.items() if name in read - set(fed)],
        )
        model = onnx.ModelProto(
            ir_version=self.model.ir_version,
            opset_import=self.model.opset_import,
            functions=self.model.functions,
            graph=graph,
        )
        return Extracted(model, {renamed[name]: fed[name] for name in inputs}, targets)

    def between(self, scope: Scope, target: str, fed: Collection[str]) -> list[onnx.NodeProto]:
        """The nodes that compute a value from others, and those in branches of them: rules move
        what one branch alone reads into it."""
        needed, picked = {target}, list[onnx.NodeProto]()
        nodes = [item for each in scope.chain() for item in each.nodes]
        for _, node in sorted(nodes, key=lambda item: item[0], reverse=True):
            if needed.intersection(node.output):
                picked.append(node)
                needed |= _read_names(node).difference(fed)
        whole = (each for node in reversed(picked) for each in (node, *_in_branches(node)))
        return [node for node in whole if not node.name.endswith(TRIP)]


@dataclass(frozen=True)
class Extracted:
    """A part of a model.

    Attributes:
        feeds: Its inputs.
        targets: Names of its outputs.
    """

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    targets: Sequence[str]


def _rows(scan: onnx.NodeProto, body: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Nodes that take one row of each operand that a Scan scans, along the first axis."""
    count = next(item.i for item in scan.attribute if item.name == "num_scan_inputs")
    if any(item.name in _AXES and any(item.ints) for item in scan.attribute):
        return []
    pairs = zip(scan.input[-count:], [value.name for value in body.input][-count:], strict=True)
    return [
        onnx.helper.make_node(
            "Gather", [whole, trip_name(body.name)], [row], f"{row}{TRIP}", axis=0
        )
        for whole, row in pairs
    ]


_AXES = ("scan_input_axes", "scan_input_directions")


def trip_name(body: str) -> str:
    """The name of the trip number, in the body of a Scan."""
    return f"{body}{TRIP}"


def subgraphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The bodies or branches of a node."""
    found = [item.g for item in node.attribute if item.type == onnx.AttributeProto.GRAPH]
    return found + [each for item in node.attribute for each in item.graphs]


def _in_branches(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The nodes in the branches of an If, and in those of Ifs there."""
    for graph in subgraphs_of(node) if node.op_type == "If" else ():
        for each in graph.node:
            yield each
            yield from _in_branches(each)


def _read_names(node: onnx.NodeProto) -> set[str]:
    """The values that a node reads, in its subgraphs too, and does not make itself."""
    read = set(filter(None, node.input))
    for graph in subgraphs_of(node):
        own = {value.name for value in graph.input} | {item.name for item in graph.initializer}
        inner: set[str] = {value.name for value in graph.output}
        for each in graph.node:
            own.update(each.output)
            inner |= _read_names(each)
        read |= inner - own
    return read


def _is_able(reads: set[str], node: onnx.NodeProto, known: set[str]) -> bool:
    """Whether a node can run; its outputs are then known, too."""
    if not reads <= known:
        return False
    known.update(node.output)
    return True


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A node that reads some values under other names."""
    if _read_names(node).isdisjoint(names):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    return copy


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for index, name in enumerate(node.input):
        node.input[index] = names.get(name, name)
    for graph in subgraphs_of(node):
        made = {name for each in graph.node for name in each.output}
        inner = {old: new for old, new in names.items() if old not in made}
        for each in graph.node:
            _rename(each, inner)
        for value in graph.output:
            value.name = inner.get(value.name, value.name)

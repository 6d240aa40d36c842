"""The graph of a model as data for the page: nodes, and the groups that they are in.

Groups are scopes, bodies of nodes, functions and parts. A program may enter a scope several times,
such as a module that is called twice. One group for all of its nodes would make circles: the group
and the nodes between two calls need one another. A node that would close a circle begins a new
group for its scope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import onnx_ir as oir

from hlo2onnx.ir.notes import common_callers, scope_of
from hlo2onnx.ir.traversal import all_nodes

Key: TypeAlias = int | str
"""A child of a group: the place of a group, or the name of a node."""

_SEARCHED = 2000
"""Children that are visited to look for a circle. With more, a new group is made to be safe."""


@dataclass
class Group:
    """A scope, the body of a node, a function, or a part of a large group.

    Attributes:
        name: What is shown.
        parent: Place of the group around it; -1 for the whole graph.
        kind: "scope", "body", "function", "part" or "ports".
        owner: Place of the node with this body; -1 if it is not a body.
    """

    name: str
    parent: int
    kind: str
    owner: int = -1


class Instances:
    """Finds or makes the group of a node.

    Args:
        groups: All groups. New ones are added at the end.
    """

    def __init__(self, groups: list[Group]) -> None:
        self._groups = groups
        self._scopes: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._readers: dict[Key, set[Key]] = defaultdict(set)

    def add(self, parent: int, name: str, kind: str) -> int:
        """A new group."""
        self._groups.append(Group(name, parent, kind))
        return len(self._groups) - 1

    def path(self, group: int) -> list[Key]:
        """The groups around and the group itself, without the whole graph."""
        found: list[Key] = []
        while group > 0:
            found.append(group)
            group = self._groups[group].parent
        return found[::-1]

    def scope(self, parent: int, name: str, makers: Sequence[Sequence[Key]]) -> int:
        """The group of a scope for a node.

        Args:
            parent: The group around it.
            name: The name of the scope.
            makers: The paths of the nodes that make the inputs of the node.
        """
        known = self._scopes[parent, name]
        if known and not self._closes_circle(known[-1], parent, makers):
            return known[-1]
        count = len(known) + 1
        known.append(self.add(parent, name if count == 1 else f"{name} ({count})", "scope"))
        return known[-1]

    def connect(self, makers: Sequence[Sequence[Key]], reader: Sequence[Key]) -> None:
        """Notes that a node reads others, at the level at which their paths part."""
        for maker in makers:
            level = _parting(maker, reader)
            self._readers[maker[level]].add(reader[level])

    def _closes_circle(self, group: int, parent: int, makers: Sequence[Sequence[Key]]) -> bool:
        """Whether a node that makes an input needs this group, without being in it."""
        depth = len(self.path(parent))
        outer = self.path(parent)
        beside = {
            path[depth] for path in makers if list(path[:depth]) == outer and path[depth] != group
        }
        return bool(beside) and self._reaches(group, beside)

    def _reaches(self, start: Key, goals: set[Key]) -> bool:
        seen: set[Key] = {start}
        pending: list[Key] = [start]
        while pending:
            for reader in self._readers[pending.pop()]:
                if reader in goals or len(seen) > _SEARCHED:
                    return True
                if reader not in seen:
                    seen.add(reader)
                    pending.append(reader)
        return False


def _parting(one: Sequence[Key], two: Sequence[Key]) -> int:
    """The first place at which two paths differ."""
    level = 0
    while one[level] == two[level]:
        level += 1
    return level


CHUNK = 60
"""Nodes of a part, where a group has too many."""
_CROWDED = 120
"""More children of a group than this are put into parts."""
_PORTS = 12
"""More inputs, or outputs, than this are put into a group."""
_LONG = 80
"""Letters of an attribute that is shown."""


@dataclass
class GraphData:
    """The graph, with texts that are stored once.

    Attributes:
        texts: Types, source lines, stacks and scopes, which nodes refer to by place.
        groups: The groups; the first one is the whole graph.
        nodes: For each node: group, operator, name, places of the producers of its inputs, texts of
            its outputs, of its other inputs and of its attributes, source, stack and scope.
        outputs: Names of the outputs of each node.
    """

    texts: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)
    outputs: list[list[str]] = field(default_factory=list)

    def as_dict(
        self, times: Mapping[str, tuple[float, float]], errors: Mapping[str, float]
    ) -> dict[str, object]:
        """The data for JSON.

        Args:
            times: Milliseconds and trips of nodes, by name.
            errors: Relative errors of values, by name.
        """
        nodes = []
        for node, outputs in zip(self.nodes, self.outputs, strict=True):
            known = [errors[name] for name in outputs if name in errors]
            time = times.get(str(node[2]))
            worst = max(known) if known else None
            nodes.append(
                [*node, None if time is None else [round(each, 6) for each in time], worst]
            )
        groups = [[group.name, group.parent, group.kind, group.owner] for group in self.groups]
        return {"texts": self.texts, "groups": groups, "nodes": nodes}


def graph_data(model: oir.Model) -> GraphData:
    """The graph of a model, with its bodies and functions."""
    return _Builder(model).data


class _Builder:
    def __init__(self, model: oir.Model) -> None:
        self.data = GraphData(groups=[Group(str(model.graph.name or "model"), -1, "scope")])
        self._groups = Instances(self.data.groups)
        self._texts: dict[str, int] = {}
        self._makers: dict[oir.Value, int] = {}
        self._callers = common_callers(node.metadata_props for node in all_nodes(model.graph))
        self._ports(model.graph.inputs, "input")
        self._graph(model.graph, 0, ())
        self._ports(model.graph.outputs, "output")
        for function in model.functions.values():
            self._graph(function.graph, self._groups.add(0, function.name, "function"), ())
        _split_crowded(self.data)

    def _graph(self, graph: oir.Graph, group: int, outer: Sequence[str]) -> None:
        """Adds the nodes of a graph. `outer` is the scope of the node with this body."""
        for node in graph:
            scope = scope_of(str(node.name), node.metadata_props, self._callers)
            place = group
            makers = [self._makers[value] for value in node.inputs if value in self._makers]
            paths = [self._path(maker) for maker in dict.fromkeys(makers)]
            for part in _below(scope, outer):
                place = self._groups.scope(place, part, paths)
            self._groups.connect(paths, [*self._groups.path(place), f"node {len(self.data.nodes)}"])
            self._node(node, place, scope)
            owner = len(self.data.nodes) - 1
            for name, attribute in node.attributes.items():
                if attribute.type == oir.AttributeType.GRAPH:
                    within = self._groups.add(place, f"{name} of {node.name}", "body")
                    self.data.groups[within].owner = owner
                    self._graph(attribute.as_graph(), within, scope)

    def _node(self, node: oir.Node, group: int, scope: Sequence[str]) -> None:
        makers, others = [], []
        for value in node.inputs:
            if value is None:
                continue
            if value in self._makers:
                makers.append(self._makers[value])
            else:
                others.append(self._text(_value_text(value)))
        self._makers.update(dict.fromkeys(node.outputs, len(self.data.nodes)))
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        attributes = [self._text(text) for text in _attributes(node)]
        inputs, metadata = (makers, others, attributes), node.metadata_props
        notes = [metadata.get("jax.source", ""), metadata.get("jax.stack", ""), "/".join(scope)]
        self._add(group, operator, str(node.name), inputs, node.outputs, notes)

    def _add(
        self,
        group: int,
        operator: str,
        name: str,
        inputs: tuple[list[int], list[int], list[int]],
        outputs: Sequence[oir.Value],
        notes: Sequence[str] = ("", "", ""),
    ) -> None:
        """Adds a node. `inputs` are its makers, other inputs and attributes."""
        makers, others, attributes = inputs
        types = [self._text(type_text(value)) for value in outputs]
        texts = map(self._text, notes)
        self.data.outputs.append([str(value.name) for value in outputs])
        self.data.nodes.append([group, operator, name, makers, types, others, attributes, *texts])

    def _ports(self, values: Sequence[oir.Value], kind: str) -> None:
        group = (
            self._groups.add(0, f"{len(values)} {kind}s", "ports") if len(values) > _PORTS else 0
        )
        for value in values:
            makers = [self._makers[value]] if value in self._makers else []
            if kind == "input":
                self._makers[value] = len(self.data.nodes)
            self._add(group, kind, str(value.name), (makers, [], []), [value])

    def _path(self, node: int) -> list[Key]:
        """The groups around a node, from the outermost, and the node."""
        return [*self._groups.path(self.data.nodes[node][0]), f"node {node}"]

    def _text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = len(self.data.texts)
            self.data.texts.append(text)
        return self._texts[text]


def _below(scope: Sequence[str], outer: Sequence[str]) -> Sequence[str]:
    """The parts of a scope that the scope around it does not have."""
    same = 0
    while same < min(len(scope), len(outer)) and scope[same] == outer[same]:
        same += 1
    return scope[same:]


def _split_crowded(data: GraphData) -> None:
    """Puts the children of groups that have too many into parts, in their order."""
    for place in range(len(data.groups)):
        nodes = [node for node in data.nodes if node[0] == place and node[1] not in _KINDS]
        others = sum(group.parent == place for group in data.groups)
        if len(nodes) + others <= _CROWDED or len(nodes) <= CHUNK:
            continue
        size = max(CHUNK, -(-len(nodes) // _CROWDED))
        for start in range(0, len(nodes), size):
            part = nodes[start : start + size]
            name = f"nodes {start + 1} to {start + len(part)}"
            data.groups.append(Group(name, place, "part"))
            for node in part:
                node[0] = len(data.groups) - 1


_KINDS = frozenset({"input", "output"})


def type_text(value: oir.Value) -> str:
    """The type of a value: "float32[b, 3]", or "?" where it is not known."""
    if value.dtype is None:
        return "?"
    dims = "?" if value.shape is None else ", ".join(map(str, value.shape))
    return f"{dtype_name(value.dtype)}[{dims}]"


def dtype_name(dtype: oir.DataType) -> str:
    """numpy's name of an element type ("float32")."""
    return "str" if dtype == oir.DataType.STRING else dtype.numpy().name


def _value_text(value: oir.Value) -> str:
    """A weight, or an input of a body."""
    kind = "weight" if value.const_value is not None else "value"
    return f"{kind} {value.name}: {type_text(value)}"


def _attributes(node: oir.Node) -> Iterator[str]:
    for attribute in node.attributes.values():
        if attribute.type in (oir.AttributeType.GRAPH, oir.AttributeType.GRAPHS):
            continue
        value = attribute.value
        if attribute.type == oir.AttributeType.TENSOR:
            value = f"{dtype_name(value.dtype)}{list(value.shape)}"
        text = f"{attribute.name} = {value}"
        yield text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"

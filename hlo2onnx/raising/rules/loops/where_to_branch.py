"""Selections with one condition for all elements become results of a branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.dims import is_static
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.traversal import all_nodes, nodes_in, reads, replace_input, subgraphs, use_count
from hlo2onnx.ir.values import dtype_of, is_constant, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.views import first, operands

SIDES = (1, 2)
"""The operands of Where that it selects, where the condition holds and where it does not."""

BRANCHES = {1: "then_branch", 2: "else_branch"}

Aliases = dict[oir.Value, oir.Value]


@dataclass
class _Side:
    """One branch.

    Attributes:
        moved: The nodes that this side alone reads, which move into the branch.
        values: What the members' results are on this side.
    """

    moved: set[oir.Node] = field(default_factory=set)
    values: Aliases = field(default_factory=dict)


class WhereToBranch(Rule):
    """Where(c, f(x), y), Where(c, z, g(x)) -> If(c, (f(x), z), (y, g(x)))

    Legal if the condition is one element: all elements then come from one side. An If with the same
    condition gets these results, too. Nodes that one side alone reads move into its branch. Done in
    bodies of loops and branches, if neither branch runs more nodes than now; a new If must spare
    some. Where takes as long as four other nodes on small arrays.
    """

    name = "where-to-branch"
    anchors = frozenset({"Where", "If"})
    # After all rules that match the operands of Where.
    phase = 7

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        flags = b.target.flags
        need(node.graph is not b.main_graph, "it runs once", node)
        has_branches = not (flags.no_if or flags.no_outer_values_in_branches)
        need(has_branches, "the target has no branches", node)
        condition = first(node)
        need(not is_constant(condition), "its condition is constant", node)
        need(all(dim == 1 for dim in shape_of(condition)), "it chooses for each element", node)
        alike = [each for each in _alike(condition, node) if _selects_whole(each)]
        need(node in alike, "it expands what it selects", node)
        key = (self.name, node)
        need(key not in b.kept, b.kept.get(key, ""), node)
        group = _Group(node, alike)
        _need_of_all(b, alike, group.is_worth(b), "a branch would run as many nodes")
        group.put_in_order(b)  # lists all nodes of the body
        last, *others = reversed(group.members)
        _need_of_all(b, others, node is last, "a later one takes it along")
        need(group.is_worth(b), "a branch of those in order would run as many nodes", node)
        return group.written(b)


def _need_of_all(b: Rewriter, nodes: Sequence[oir.Node], condition: bool, reason: str) -> None:
    """Refuses the rewrite of all these nodes, until a rule fires, unless the condition holds."""
    if not condition:
        b.kept.update(((WhereToBranch.name, node), reason) for node in nodes)
        raise Refusal(reason, nodes[0])


def _alike(condition: oir.Value, node: oir.Node) -> list[oir.Node]:
    """The Wheres and Ifs beside the node that have the condition."""
    found = [
        user
        for user, place in condition.uses()
        if place == 0 and user.op_type in ("Where", "If") and user.graph is node.graph
    ]
    return list(dict.fromkeys(found))


def _selects_whole(node: oir.Node) -> bool:
    """Whether what a node selects has the shape of its result, or is a constant."""
    dims = shape_of(node.outputs[0])
    return node.op_type == "If" or all(
        shape_of(x) == dims or (is_constant(x) and is_static(dims)) for x in operands(node)[1:]
    )


class _Group:
    """Wheres and Ifs that become one If in front of the last of them.

    Attributes:
        members: They, in the order of the graph. The last one is the node to rewrite.
        sides: What moves into each branch.
        inside: They, and what moves into the branches.
        late: The nodes between them that read their results, which move behind them.
    """

    def __init__(self, node: oir.Node, members: Sequence[oir.Node]) -> None:
        self.node = node
        self.late: list[oir.Node] = []
        self.members: list[oir.Node] = []
        self._choose(members)

    def _choose(self, members: Sequence[oir.Node]) -> None:
        before, self.members = set(self.members), list(members)
        if before == set(members):
            return
        self.sides = {side: _Side(_moved(members, side)) for side in SIDES}
        self.inside = set(members).union(*(side.moved for side in self.sides.values()))
        bodies = (body for node in self.inside for body in subgraphs(node))
        self._readers = self.inside.union(*map(all_nodes, bodies))

    def put_in_order(self, b: Rewriter) -> None:
        """Takes only those members, as many as possible, of which no one needs a node that has to
        stay behind another one."""
        assert isinstance(self.node.graph, oir.Graph)
        nodes, alike = b.nodes_of(self.node.graph), set(self.members)
        places = {each: place for place, each in enumerate(nodes) if each in alike}
        members = sorted(alike, key=places.__getitem__)
        begin, end = 0, len(members)
        while True:
            self._choose(members[begin:end])
            waiting = self._late(nodes[places[members[begin]] : places[members[end - 1]]])
            self.late = list(waiting)
            late = {x: place for node, place in waiting.items() for x in node.outputs}
            found = [late[x] for node in self.inside for x in reads(node) if x in late]
            if found:  # as for every group that has this member
                begin += 1 + max(found)
            elif self.node in self.members:
                break
            else:
                begin, end = 0, begin

    def _late(self, between: Sequence[oir.Node]) -> dict[oir.Node, int]:
        """The nodes outside of the group that depend on it, each with the position of the last
        member that it depends on."""
        known = {x: place for place, member in enumerate(self.members) for x in member.outputs}
        found: dict[oir.Node, int] = {}
        for node in between:
            if node in self.inside:
                continue
            places = [known[x] for x in reads(node) if x in known]
            if places:
                found[node] = max(places)
                known.update(dict.fromkeys(node.outputs, found[node]))
        return found

    def is_worth(self, b: Rewriter) -> bool:
        """Whether neither branch runs more nodes, and a new one is worth a branch."""
        branches = sum(member.op_type == "If" for member in self.members)
        moved = sum(len(side.moved) for side in self.sides.values())
        before = len(self.members) - branches + moved
        reshapes = shape_of(first(self.node)) != ()
        after = [
            int(not branches) + reshapes + len(self.sides[side].moved) + self._copies(side)
            for side in SIDES
        ]
        spared = 0 if branches else 2 * b.costs.branch_nodes
        is_new = len(self.members) > branches or branches > 1
        return is_new and max(after) <= before and 2 * before - sum(after) >= spared

    def _copies(self, side: int) -> int:
        """How many values a branch must copy to return them."""
        made = {x for node in self.sides[side].moved for x in node.outputs}
        wheres = [member for member in self.members if member.op_type == "Where"]
        selected = [operands(where)[side] for where in wheres if self._is_needed(where.outputs[0])]
        returned = Counter(x for x in selected if not is_constant(x))
        return sum(count - (x in made) for x, count in returned.items())

    def _is_needed(self, result: oir.Value) -> bool:
        """Whether other nodes read a result, or the graph returns it."""
        return result.is_graph_output() or not self._readers.issuperset(result.consumers())

    def written(self, b: Rewriter) -> Sequence[oir.Value]:
        """Makes the If; returns the results of the node."""
        needed = [x for node in self.members for x in node.outputs if self._is_needed(x)]
        condition = b.reshape(first(self.node), ())
        graphs = {BRANCHES[side]: self._branch(b, side, needed) for side in SIDES}
        types = [(dtype_of(x), shape_of(x)) for x in needed]
        made = dict(zip(needed, b.node("If", [condition], graphs, types), strict=True))
        values = self.sides[SIDES[0]].values
        assert isinstance(self.node.graph, oir.Graph)
        for late in self.late:
            self.node.graph.remove(late)
        self.node.graph.insert_after(self.node, self.late)
        for member in self.members[:-1]:
            replace(member, [made.get(x, values[x]) for x in member.outputs])
        return [made.get(x, values[x]) for x in self.node.outputs]

    def _branch(self, b: Rewriter, side: int, needed: Sequence[oir.Value]) -> oir.Graph:
        """The branch of a side, which returns these results."""
        own = self.sides[side]
        assert isinstance(self.node.graph, oir.Graph)
        inside = own.moved.union(self.members)
        with b.subgraph([], f"{b.scope}/{'chosen' if side == 1 else 'other'}") as graph:
            for node in [each for each in nodes_in(self.node.graph) if each in inside]:
                if node in own.moved:
                    self.node.graph.remove(node)
                    graph.append(node)
                elif node.op_type == "If":
                    _move_nodes(node, side, graph, own.values)
                else:
                    own.values[node.outputs[0]] = _selected(b, node, side)
            _read_instead(graph, own.values)
            for x in needed:
                graph.outputs.append(output_of(b, graph, _resolved(x, own.values)))
        return graph


def _moved(members: Sequence[oir.Node], side: int) -> set[oir.Node]:
    """The nodes that the members alone read, and only on one side."""
    graph, found = members[0].graph, set[oir.Node]()
    read, waiting = Counter[oir.Value](), list(_read_on(members, side))
    while waiting:
        value = waiting.pop()
        read[value] += 1
        node = value.producer()
        if node is None or node.graph is not graph or node in members:
            continue
        is_read_here = all(
            use_count(x) == read[x] and not x.is_graph_output() for x in node.outputs
        )
        # Runtimes fuse a Transpose with a product in the same graph.
        if is_read_here and node.op_type != "Transpose" and _is_repeatable(node):
            found.add(node)
            waiting += _used(node)
    return found


def _is_repeatable(node: oir.Node) -> bool:
    inner = (each for graph in subgraphs(node) for each in all_nodes(graph))
    return is_repeatable(node) and all(map(is_repeatable, inner))


def _read_on(members: Sequence[oir.Node], side: int) -> Iterator[oir.Value]:
    """What the members read on one side, once for each use."""
    for member in members:
        if member.op_type == "Where":
            yield operands(member)[side]
        else:
            for inner in nodes_in(member.attributes[BRANCHES[side]].as_graph()):
                yield from _used(inner)


def _used(node: oir.Node) -> list[oir.Value]:
    """The values that a node and the nodes of its bodies use, once for each use."""
    used = operands(node)
    if node.attributes.data:  # most nodes have none
        for graph in subgraphs(node):
            for inner in nodes_in(graph):
                used += _used(inner)
    return used


def _move_nodes(node: oir.Node, side: int, graph: oir.Graph, values: Aliases) -> None:
    """Moves the nodes of a branch of an If to the end of a graph."""
    branch = node.attributes[BRANCHES[side]].as_graph()
    results = list(branch.outputs)
    branch.outputs.clear()
    for each in nodes_in(branch):
        branch.remove(each)
        graph.append(each)
    values.update(zip(node.outputs, results, strict=True))


def _selected(b: Rewriter, where: oir.Node, side: int) -> oir.Value:
    """What a Where selects on one side, in the shape of its result."""
    x, dims = operands(where)[side], shape_of(where.outputs[0])
    return x if shape_of(x) == dims else b.expand(x, dims)


def _resolved(value: oir.Value, values: Mapping[oir.Value, oir.Value]) -> oir.Value:
    while value in values:
        value = values[value]
    return value


def _read_instead(graph: oir.Graph, values: Mapping[oir.Value, oir.Value]) -> None:
    """Makes the nodes of a branch read what the members' results are there."""
    for node in all_nodes(graph):
        for index, x in enumerate(node.inputs):
            if x is not None and x in values:
                replace_input(node, index, _resolved(x, values))
        for body in subgraphs(node):
            for index, x in enumerate(body.outputs):
                if x in values:
                    body.outputs[index] = _resolved(x, values)

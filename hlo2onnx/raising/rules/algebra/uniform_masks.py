"""Selections whose condition may be the same for all elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, reads, subgraphs
from hlo2onnx.ir.values import dtype_of, is_constant, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import operands
from hlo2onnx.rewrite.large_graphs import replace_input, use_count

SKIPPED = "hlo2onnx.skipped_sides"
"""In a Where's metadata: the sides that an If makes."""

BRANCHES = ("then_branch", "else_branch")

SIDES = (1, 2)
"""The operands of Where that it selects, where the condition holds and where it does not."""

NODES_OF_WHERE = 4
"""Nodes of arithmetic that a Where becomes where `Flags.slow_where`."""

MOST_MOVED = 8
"""Nodes of the condition of a later If that may move in front of what it shares."""


@dataclass(frozen=True)
class Branch:
    """A branch of an If, with how often its nodes read each value."""

    node: oir.Node
    name: str
    reads: Mapping[oir.Value, int]


class SkipUnselected(Rule):
    """Where(c, f(x), y) -> Where(c, If(any(c), f(x), 0), y), Where(c, y, f(x)) likewise

    Legal because no element of f(x) is selected where c holds nowhere, and because nothing else
    reads the nodes of f, or only a branch of an If d: then If(any(c) or d) makes them. A
    Where(c, g(x), k) among them may be read elsewhere: it is k where c holds nowhere. Several
    Wheres with one condition share an If. Done for many elements, if f has many nodes and y is no
    constant: special functions have a formula for each of some intervals, and the arguments are
    often all in one. Constants stand for rare arguments.
    """

    name = "skip-unselected"
    anchors = frozenset({"Where"})
    # After all rules that match the nodes of f and the operands of Where.
    phase = 6

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        size = size_of(node.outputs[0])
        need(size is not None, "its extents are dynamic", node)
        assert size is not None
        need(size >= b.costs.skipped_elements, "it has few elements", node)
        flags = b.target.flags
        has_branches = not (flags.no_if or flags.no_outer_values_in_branches)
        need(has_branches, "the target has no branches", node)
        condition = operands(node)[0]
        need(not is_constant(condition), "its condition is constant", node)
        branches = _branches(b, node)
        for side in SIDES:
            alike = _selections(condition, node, side)
            for wheres in (alike, [node]) if node in alike else ():
                for sharing in ((), branches) if branches else ((),):
                    unread = _only_selected(wheres, side, sharing)
                    readers = _readers(unread, sharing, condition, side)
                    pays = _work(b, unread, size) >= b.costs.skipped_nodes
                    if pays and _comes_first(b, node, wheres, unread, readers):
                        return _skipped(b, node, wheres, side, unread, readers)
        raise Refusal("few nodes are read by it alone", node)


def _branches(b: Rewriter, node: oir.Node) -> list[Branch]:
    """The branches of the Ifs beside the node."""
    assert node.graph is not None
    return [
        Branch(each, name, Counter(x for inner in all_nodes(body) for x in inner.inputs if x))
        for each in b.nodes_of(node.graph, "If")
        for name, body in zip(BRANCHES, map(each.attributes.get_graph, BRANCHES), strict=True)
    ]


def _selections(condition: oir.Value, node: oir.Node, side: int) -> list[oir.Node]:
    """The Wheres beside the node that have the condition, and no constant on the other side."""
    return [
        user
        for user, place in condition.uses()
        if place == 0
        and user.op_type == "Where"
        and user.graph is node.graph
        and not is_constant(operands(user)[3 - side])
        and side not in user.meta.get(SKIPPED, ())
    ]


def _only_selected(
    wheres: Sequence[oir.Node], side: int, sharing: Sequence[Branch]
) -> list[oir.Node]:
    """The nodes that these Wheres alone read, as their operands of one side, or besides them one
    branch of each of some Ifs. Nodes that are constant elsewhere may be read by all others."""
    graph, condition = wheres[0].graph, operands(wheres[0])[0]
    found = dict[oir.Node, None]()
    read = Counter[oir.Value]()
    waiting = [operands(where)[side] for where in wheres]
    while waiting:
        value = waiting.pop()
        read[value] += 1
        node = value.producer()
        if node is None or node.graph is not graph or node in wheres or node in found:
            continue
        branches = [branch for branch in sharing if branch.node not in found]
        if _is_constant_elsewhere(node, condition, side) or all(
            _is_optional(x, read[x], branches) for x in node.outputs
        ):
            found[node] = None
            waiting += reads(node)
    return list(found)


def _is_constant_elsewhere(node: oir.Node, condition: oir.Value, side: int) -> bool:
    """Whether a node selects a constant where the condition does not select this side."""
    if node.op_type != "Where" or node.inputs[0] is not condition:
        return False
    return is_constant(operands(node)[3 - side])


def _is_optional(x: oir.Value, count: int, sharing: Sequence[Branch]) -> bool:
    """Whether so many nodes read a value, and besides them only one branch of each of some Ifs."""
    if x.is_graph_output():
        return False
    if not sharing:
        return use_count(x) == count
    readers = [branch for branch in sharing if branch.reads.get(x)]
    is_one_of_each = len({branch.node for branch in readers}) == len(readers)
    return is_one_of_each and use_count(x) == count + sum(y.reads[x] for y in readers)


def _readers(
    nodes: Sequence[oir.Node], sharing: Sequence[Branch], condition: oir.Value, side: int
) -> list[Branch]:
    """The branches that need what these nodes make, of Ifs that are not among them."""
    needed = [x for x in nodes if not _is_constant_elsewhere(x, condition, side)]
    made = {x for node in needed for x in node.outputs}
    return [y for y in sharing if y.node not in nodes and not made.isdisjoint(y.reads)]


def _work(b: Rewriter, nodes: Sequence[oir.Node], size: int) -> int:
    """How many of these nodes, and of those in their subgraphs, compute so many elements. A Where
    counts as the nodes that replace it."""
    count, where = 0, NODES_OF_WHERE if b.target.flags.slow_where else 1
    for node in nodes:
        inner = [each for graph in subgraphs(node) for each in all_nodes(graph)]
        for each in (node, *inner):
            if (size_of(each.outputs[0]) or 0) >= size:
                count += where if each.op_type == "Where" else 1
    return count


def _comes_first(
    b: Rewriter,
    node: oir.Node,
    wheres: Sequence[oir.Node],
    unread: Sequence[oir.Node],
    readers: Sequence[Branch],
) -> bool:
    """Whether the node is the first of the Wheres, behind all that the unread nodes read, and in
    front of all branches that read them, whose conditions are known there or can be."""
    graph, inside = node.graph, set(unread)
    assert graph is not None
    place = {each: index for index, each in enumerate(b.nodes_of(graph))}
    makers = {value.producer() for each in unread for value in reads(each)} - inside
    before = [place[maker] for maker in makers if maker is not None and maker.graph is graph]
    first = min(place[each] for each in (*wheres, *(reader.node for reader in readers)))
    if not max(before, default=-1) < place[node] == first:
        return False
    made = {x for each in unread for x in each.outputs}
    earlier = (each for each in b.nodes_of(graph)[: place[node]] if each not in inside)
    if any(not made.isdisjoint(reads(each)) for each in earlier):
        return False
    return all(_makers_behind(node, place, reader) is not None for reader in readers)


def _makers_behind(
    node: oir.Node, place: Mapping[oir.Node, int], reader: Branch
) -> list[oir.Node] | None:
    """What makes the condition of a branch and stands behind the node, in order. None if that reads
    the node, or is much."""
    found = set[oir.Node]()
    waiting = operands(reader.node)[:1]
    while waiting:
        maker = waiting.pop().producer()
        if maker is None or place.get(maker, -1) < place[node]:
            continue
        found.add(maker)
        if maker is node or len(found) > MOST_MOVED:
            return None
        waiting += reads(maker)
    return sorted(found, key=place.__getitem__)


def _is_needed(
    b: Rewriter, node: oir.Node, condition: oir.Value, readers: Sequence[Branch]
) -> oir.Value:
    """Whether the condition holds somewhere, or one of the branches is taken."""
    graph = node.graph
    assert graph is not None
    numbers = b.ReduceMax(b.cast(condition, oir.DataType.UINT8), keepdims=0)
    needed: oir.Value = b.cast(numbers, oir.DataType.BOOL)
    for reader in readers:
        place = {each: index for index, each in enumerate(graph)}
        for maker in _makers_behind(node, place, reader) or ():
            graph.remove(maker)
            graph.insert_before(node, maker)
        taken = b.reshape(operands(reader.node)[0], ())
        needed = b.Or(needed, taken if reader.name == BRANCHES[0] else b.Not(taken))
    return needed


def _skipped(
    b: Rewriter,
    node: oir.Node,
    wheres: Sequence[oir.Node],
    side: int,
    unread: Sequence[oir.Node],
    readers: Sequence[Branch],
) -> oir.Value:
    """The node, the first of the Wheres, with what an If makes as the operand of this side."""
    inside, graph, condition = set(unread), node.graph, operands(node)[0]
    assert graph is not None
    needed = _is_needed(b, node, condition if side == SIDES[0] else b.Not(condition), readers)
    with b.subgraph([], f"{b.scope}/selected") as taken:
        for each in [each for each in b.nodes_of(graph) if each in inside]:
            graph.remove(each)
            taken.append(each)
    moved = set(all_nodes(taken))
    outside = {
        x: [use for use in x.uses() if use[0] not in moved] for y in unread for x in y.outputs
    }
    made = [x for x, uses in outside.items() if uses]
    taken.outputs.extend(made)
    with b.subgraph([], f"{b.scope}/unselected") as skipped:
        skipped.outputs.extend(_elsewhere(b, x, condition, side) for x in made)
    types = [(dtype_of(x), shape_of(x)) for x in made]
    bodies = dict(zip(BRANCHES, (taken, skipped), strict=True))
    chosen = dict(zip(made, b.node("If", [needed], bodies, types), strict=True))
    for x, new in chosen.items():
        for user, index in outside[x]:
            if user is not node:
                replace_input(user, index, new)
    for where in wheres:
        where.meta[SKIPPED] = (*where.meta.get(SKIPPED, ()), side)
    result: oir.Value = b.Where(*(chosen.get(x, x) for x in operands(node)))
    made_anew = result.producer()
    assert made_anew is not None
    made_anew.meta[SKIPPED] = node.meta[SKIPPED]
    return result


def _elsewhere(b: Rewriter, x: oir.Value, condition: oir.Value, side: int) -> oir.Value:
    """What stands for a skipped value: the constant that it is, or zeros that nothing selects."""
    maker = x.producer()
    assert maker is not None
    if _is_constant_elsewhere(maker, condition, side):
        return b.expand(operands(maker)[3 - side], shape_of(x))
    return b.expand(b.scalar_like(0, x), shape_of(x))

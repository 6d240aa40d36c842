"""Selections whose condition may be the same for all elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, reads, subgraphs
from hlo2onnx.ir.values import dtype_of, is_constant, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import operands
from hlo2onnx.rewrite.large_graphs import replace_input, use_count

SKIPPED = "hlo2onnx.skipped_sides"
"""In a Where's metadata: the sides that an If makes."""

SIDES = (1, 2)
"""The operands of Where that it selects, where the condition holds and where it does not."""


class SkipUnselected(Rule):
    """Where(c, f(x), y) -> Where(c, If(any(c), f(x), 0), y), Where(c, y, f(x)) likewise

    Legal because no element of f(x) is selected where c holds nowhere, and because nothing else
    reads the nodes of f. Several Wheres with one condition share an If. Done for many elements, if
    f has many nodes and y is no constant: special functions have a formula for each of some
    intervals, and the arguments are often all in one. Constants stand for rare arguments.
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
        for side in SIDES:
            alike = _selections(condition, node, side)
            for wheres in (alike, [node]) if node in alike else ():
                unread = _only_selected(wheres, side)
                pays = _work(unread, size) >= b.costs.skipped_nodes
                if pays and _comes_first(b, node, wheres, unread):
                    return _skipped(b, node, wheres, side, unread)
        raise Refusal("few nodes are read by it alone", node)


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


def _only_selected(wheres: Sequence[oir.Node], side: int) -> list[oir.Node]:
    """The nodes that these Wheres alone read, as their operands of one side, readers first."""
    graph, found = wheres[0].graph, list[oir.Node]()
    read = Counter[oir.Value]()
    waiting = [operands(where)[side] for where in wheres]
    while waiting:
        value = waiting.pop()
        read[value] += 1
        node = value.producer()
        if node is None or node.graph is not graph or node in wheres:
            continue
        if all(use_count(x) == read[x] and not x.is_graph_output() for x in node.outputs):
            found.append(node)
            waiting += reads(node)
    return found


def _work(nodes: Sequence[oir.Node], size: int) -> int:
    """How many of these nodes, and of those in their subgraphs, compute so many elements."""
    count = 0
    for node in nodes:
        inner = [each for graph in subgraphs(node) for each in all_nodes(graph)]
        count += sum((size_of(each.outputs[0]) or 0) >= size for each in (node, *inner))
    return count


def _comes_first(
    b: Rewriter, node: oir.Node, wheres: Sequence[oir.Node], unread: Sequence[oir.Node]
) -> bool:
    """Whether the node is the first of the Wheres and behind all that the unread nodes read."""
    graph, inside = node.graph, set(unread)
    assert graph is not None
    place = {each: index for index, each in enumerate(b.nodes_of(graph))}
    makers = {value.producer() for each in unread for value in reads(each)} - inside
    before = [place[maker] for maker in makers if maker is not None and maker.graph is graph]
    return max(before, default=-1) < place[node] == min(place[where] for where in wheres)


def _skipped(
    b: Rewriter, node: oir.Node, wheres: Sequence[oir.Node], side: int, unread: Sequence[oir.Node]
) -> oir.Value:
    """The node, the first of the Wheres, with what an If makes as the operand of this side."""
    inside = set(unread)
    selected = dict.fromkeys(operands(where)[side] for where in wheres)
    made = [value for value in selected if value.producer() in inside]
    condition = operands(node)[0]
    holds = condition if side == SIDES[0] else b.Not(condition)
    numbers = b.ReduceMax(b.cast(holds, oir.DataType.UINT8), keepdims=0)
    with b.subgraph([], f"{b.scope}/selected") as taken:
        for each in reversed(unread):
            assert each.graph is not None
            each.graph.remove(each)
            taken.append(each)
        taken.outputs.extend(made)
    with b.subgraph([], f"{b.scope}/unselected") as skipped:
        skipped.outputs.extend(b.expand(b.scalar_like(0, x), shape_of(x)) for x in made)
    branches = {"then_branch": taken, "else_branch": skipped}
    types = [(dtype_of(x), shape_of(x)) for x in made]
    is_any = b.cast(numbers, oir.DataType.BOOL)
    chosen = dict(zip(made, b.node("If", [is_any], branches, types), strict=True))
    for where in wheres:
        where.meta[SKIPPED] = (*where.meta.get(SKIPPED, ()), side)
        value = operands(where)[side]
        if where is not node:
            replace_input(where, side, chosen.get(value, value))
    found = operands(node)
    found[side] = chosen.get(found[side], found[side])
    result: oir.Value = b.Where(*found)
    made_anew = result.producer()
    assert made_anew is not None
    made_anew.meta[SKIPPED] = node.meta[SKIPPED]
    return result

"""Independent uses of Threefry become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import nodes_in, reads, subgraphs
from hlo2onnx.ir.values import (
    const_number,
    dtype_of,
    present,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need

_WORD = oir.DataType.UINT32


class BatchThreefry(Rule):
    """Threefry2x32(k, i), Threefry2x32(l, j) -> Split(Threefry2x32(Concat(k, l), Concat(i, j)))

    Legal if no use depends on another: it is a function of each element. Done for uses of one graph
    with equally many uses on the longest path to them, if they draw few numbers together: then the
    nodes take the time, not the numbers. Programs split a key and draw with each part.
    """

    name = "batch-threefry"
    anchors = frozenset({THREEFRY})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        most = b.costs.threefry_written_elements
        need(most > 0, "the target runs Threefry as a Scan", node)
        moves = all(b.supports(op_type, _WORD) for op_type in ("Concat", "Gather", "Split"))
        need(moves, "the target cannot join words", node)
        assert node.graph is not None
        uses = b.nodes_of(node.graph, THREEFRY)
        need(len(uses) > 1, "no other use is in the same graph", node)
        need(uses[0] is node, "an earlier use is joined with others first", node)
        batches = _batches(node.graph, uses, int(most))
        need(batches, "no other use is independent of it", node)
        words: Sequence[oir.Value] = ()
        for first, *others in batches:
            _advance(first, others)
            with b.before(first):
                made, *rest = _joined(b, [first, *others])
            for other, pair in zip(others, rest, strict=True):
                replace(other, pair)
            if first is node:
                words = made
            else:
                replace(first, made)
        return words or b.outputs(THREEFRY, *node.inputs, n_outputs=2)


def _batches(graph: oir.Graph, uses: Sequence[oir.Node], most: int) -> list[list[oir.Node]]:
    """Uses of a graph at the same depth, for at most this many numbers each."""
    levels = _levels(graph)
    batches: dict[int, list[oir.Node]] = {}
    total: dict[int, int] = {}
    for node in uses:
        size = _pairs_of_words(node)
        level = levels.get(node.outputs[0], 0) if size else 0
        if 0 < size <= most - total.get(level, 0):
            total[level] = total.get(level, 0) + size
            batches.setdefault(level, []).append(node)
    return [batch for batch in batches.values() if len(batch) > 1]


def _pairs_of_words(node: oir.Node) -> int:
    """How many pairs of words a use makes; 0 if that is unknown."""
    return size_of(node.outputs[0]) or 0


def _levels(graph: oir.Graph, outer: Mapping[oir.Value, int] | None = None) -> dict[oir.Value, int]:
    """How many uses are on the longest path to each value that a graph computes.

    Values that are missing are at level 0. Branches of an If count, bodies of loops do not.

    Args:
        outer: The levels of values around the graph.
    """
    levels = dict(outer or {})
    for node in nodes_in(graph):
        level = 0
        if node.op_type == "If":  # the levels around it are among those of its branches
            for branch in subgraphs(node):
                level = max(level, *_levels(branch, levels).values(), 0)
        elif levels:
            operands = reads(node) if node.attributes.data else node.inputs
            level = max([levels[x] for x in operands if x in levels], default=0)
        level += node.op_type == THREEFRY
        if level:
            levels.update(dict.fromkeys(node.outputs, level))
    return levels


def _advance(node: oir.Node, others: Sequence[oir.Node]) -> None:
    """Moves what other nodes are computed from to the front of a node."""
    graph = node.graph
    assert isinstance(graph, oir.Graph)
    after = list(graph)
    after = after[after.index(node) + 1 :]
    makers = {x: each for each in after for x in each.outputs}
    pending = [x for other in others for x in present(other.inputs)]
    found: set[oir.Node] = set()
    while pending:
        maker = makers.get(pending.pop())
        if maker is not None and maker not in found:
            found.add(maker)
            pending += reads(maker)
    for each in after:
        if each in found:
            graph.remove(each)
            graph.insert_before(node, each)


def _joined(b: Rewriter, nodes: Sequence[oir.Node]) -> list[list[oir.Value]]:
    """The words of several nodes, from one."""
    sizes = [_pairs_of_words(node) for node in nodes]
    columns = zip(*(node.inputs for node in nodes), strict=True)
    operands = [_concatenated(b, column, nodes, sizes) for column in columns]
    made = b.outputs(THREEFRY, *operands, n_outputs=2)
    parts = [
        b.outputs("Split", words, b.i64(sizes), axis=0, n_outputs=len(nodes)) for words in made
    ]
    return [
        [b.reshape(part, shape_of(old)) for part, old in zip(pair, node.outputs, strict=True)]
        for node, pair in zip(nodes, zip(*parts, strict=True), strict=True)
    ]


def _concatenated(
    b: Rewriter,
    column: Sequence[oir.Value | None],
    nodes: Sequence[oir.Node],
    sizes: Sequence[int],
) -> oir.Value:
    """One operand of all nodes, as a vector with an element for each pair of words, or a scalar."""
    values = present(column)
    if all(const_number(x) == 0 for x in values):
        return b.scalar(0, dtype_of(values[0]))
    parts: list[oir.Value] = []
    places: list[np.ndarray] = []
    start = 0
    for x, node, size in zip(values, nodes, sizes, strict=True):
        if size_of(x) == 1:
            parts.append(b.reshape(x, [1]))
            places.append(np.full(size, start))
        else:
            dims = static_shape(node.outputs[0]) or ()
            parts.append(b.reshape(b.expand(x, dims), [size]))
            places.append(np.arange(start, start + size))
        start += len(np.unique(places[-1]))
    whole, order = b.concat(parts, 0), np.concatenate(places)
    if np.array_equal(order, np.arange(start)):
        return whole
    joined: oir.Value = b.Gather(whole, b.i64(order.tolist()), axis=0)
    return joined

"""Inner loops whose states follow from the conditions of their trips: a path in a binary tree."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, present, shape_of, size_of
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.copies import is_speculatable, makers_within
from hlo2onnx.raising.match.counted_loop import Trips


@dataclass(frozen=True)
class Tree:
    """An inner loop whose conditions say what its states are.

    Attributes:
        fixed: Values of the outer body that no trip of it changes.
        condition: What a trip decides.
        update: The nodes from the states and the condition to the next states and to `cut`.
        kept: The nodes from `cut` to the condition, in order.
        cut: What the condition reads of the states.
    """

    trips: Trips
    fixed: set[oir.Value]
    condition: oir.Value
    update: set[oir.Node]
    kept: list[oir.Node]
    cut: list[oir.Value]

    @property
    def leaves(self) -> int:
        """How many paths there are."""
        return 1 << self.trips.count


def tree_of(b: Rewriter, outer: Trips, trips: Trips) -> Tree:
    """The parts of an inner loop.

    Raises:
        Refusal: Its states depend on more than the conditions, or it would be too large.
    """
    fixed = _fixed(outer)
    for x in trips.initial:
        need(x in fixed or outer.is_outer(x), "a state starts from one of the outer loop's", x)
    known = _known(outer, trips, fixed)
    condition, update = _decided(trips, known)
    kept, cut = _undecided(trips, known, condition)
    update |= set(makers_within(trips.body, cut))
    most = b.costs.hoisted_ratio * b.costs.hoisted_elements * trips.count
    for x in (*trips.states, *(x for node in update for x in node.outputs)):
        size = size_of(x)
        need(size is not None and size << trips.count <= most, "the tree would be too large", x)
    return Tree(trips, fixed, condition, update, kept, cut)


def _fixed(outer: Trips) -> set[oir.Value]:
    """The values of the outer body that are the same in each of its trips: before they leave it."""
    fixed = set[oir.Value]()
    for node in outer.body:
        same = all(x in fixed or outer.is_outer(x) for x in present(node.inputs))
        if same and is_speculatable(node):
            fixed.update(node.outputs)
    return fixed


def _known(outer: Trips, trips: Trips, fixed: set[oir.Value]) -> set[oir.Value]:
    """The values that follow from the states of the inner loop and the number of its trip: those of
    its body, and those around it that it reads."""
    known = {trips.number, *trips.states}
    read = (x for node in trips.body for x in present(node.inputs))
    for x in (*read, *trips.after):
        if trips.is_outer(x) and (x in fixed or outer.is_outer(x)):
            known.add(x)
    for node in trips.body:
        if known.issuperset(present(node.inputs)) and _is_safe(trips, node):
            known.update(node.outputs)
    return known


def _is_safe(trips: Trips, node: oir.Node) -> bool:
    """Whether a node may run on paths that no trip takes."""
    if is_speculatable(node):
        return True
    extent = shape_of(present(node.inputs)[0])[:1] if trips.reads_row(node) else ()
    return bool(extent) and isinstance(extent[0], int) and extent[0] >= trips.count


def _decided(trips: Trips, known: set[oir.Value]) -> tuple[oir.Value, set[oir.Node]]:
    """The condition, and the nodes that compute the next states.

    Raises:
        Refusal: The next states depend on something else.
    """
    conditions: set[oir.Value] = set()
    found: set[oir.Node] = set()
    pending = trips.after
    while pending:
        x = pending.pop()
        node = x.producer()
        if node is None or node.graph is not trips.body:
            need(x in known, "a state takes a value of the outer loop", x)
        elif x not in known and dtype_of(x) == oir.DataType.BOOL and size_of(x) == 1:
            conditions.add(x)
        elif node not in found:
            need(_is_safe(trips, node), "a node may fail where the program does not run it", node)
            found.add(node)
            pending += present(node.inputs)
    need(len(conditions) == 1, "not one condition decides on the next states", trips.loop)
    return conditions.pop(), found


def _undecided(
    trips: Trips, known: set[oir.Value], condition: oir.Value
) -> tuple[list[oir.Node], list[oir.Value]]:
    """The nodes that compute the condition, in order, and what they read of the states.

    Raises:
        Refusal: They may fail, or read nothing of the states.
    """
    cut: dict[oir.Value, None] = {}
    found: set[oir.Node] = set()
    pending = [condition]
    while pending:
        x = pending.pop()
        node = x.producer()
        if x in known:
            cut.update({} if trips.is_outer(x) else {x: None})
        elif node is not None and node.graph is trips.body and node not in found:
            need(is_speculatable(node), "a node may fail where the program does not run it", node)
            found.add(node)
            pending += present(node.inputs)
    need(cut, "the condition does not depend on the states", trips.loop)
    return [node for node in trips.body if node in found], list(cut)

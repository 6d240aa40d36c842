"""In a branch the condition is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.traversal import all_nodes, replace_input
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, size_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import first, operands


class KnownConditions(Rule):
    """If(c, f(c), g(c)) -> If(c, f(True), g(False))

    The operands of And are true in the first branch, those of Or are false in the second one, and
    that of Not is the opposite.
    """

    name = "known-conditions"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        changed = False
        for name, truth in (("then_branch", True), ("else_branch", False)):
            known = dict(_implied(first(node), truth))
            if any(len(value.uses()) > 1 for value in known):
                changed |= _replaced(b, node.attributes[name].as_graph(), known)
        need(changed, "no branch reads its condition", node)
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        return b.node("If", [first(node)], graphs, types)


def _implied(value: oir.Value, truth: bool) -> Iterator[tuple[oir.Value, bool]]:
    """The values of one element that are known if this one is, with itself."""
    if size_of(value) != 1 or value.const_value is not None:
        return
    yield value, truth
    node = value.producer()
    if node is None or node.domain:
        return
    if node.op_type in ("Identity", "Not", *RESHAPES):
        yield from _implied(first(node), truth != (node.op_type == "Not"))
    elif node.op_type == ("And" if truth else "Or"):
        for x in operands(node):
            yield from _implied(x, truth)


def _filled(b: Rewriter, value: oir.Value, truth: bool) -> oir.Value:
    """A constant with the shape of a value of one element."""
    return b.const(np.full((1,) * rank_of(value), truth))


def _replaced(b: Rewriter, branch: oir.Graph, known: dict[oir.Value, bool]) -> bool:
    """Makes the nodes of a branch read constants instead of known values."""
    changed = False
    for node in all_nodes(branch):
        for index, x in enumerate(node.inputs):
            if x is not None and x in known:
                replace_input(node, index, _filled(b, x, known[x]))
                changed = True
    return changed

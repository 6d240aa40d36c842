"""Branches with a known condition."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_array
from hlo2onnx.ir.replace import detach
from hlo2onnx.ir.values import static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import first


class InlineBranch(Rule):
    """If(True, f, g) -> f, If(False, f, g) -> g

    Legal if the condition follows from constants or from ranges of integers. ONNX Runtime inlines
    such branches when it loads a model, and crashes if one is nested in another. A model therefore
    never contains them: even if this rule is switched off, it runs after the others.
    """

    name = "inline-branch"
    anchors = frozenset({"If"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        condition = first(node)
        known = b.facts.truth(condition)
        if known is None:
            content = known_array(condition)
            known = None if content is None else bool(content.item())
        need(known is not None, "its condition is not known", condition)
        names = ("then_branch", "else_branch") if known else ("else_branch", "then_branch")
        taken, other = (node.attributes[name].as_graph() for name in names)
        detach(other)
        values = _inlined(node, taken)
        for old, new in zip(node.outputs, values, strict=True):
            if static_shape(new) is None and static_shape(old) is not None:
                new.shape = old.shape
        return values


def _inlined(node: oir.Node, inner: oir.Graph) -> list[oir.Value]:
    """Moves the nodes of a subgraph in front of the node that holds it; returns its outputs."""
    outer, values = node.graph, list(inner.outputs)
    assert outer is not None
    inner.outputs.clear()
    for each in list(inner):
        inner.remove(each)
        outer.insert_before(node, each)
    return values

"""Concats of Concats."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import is_private, maker_of, operands


class ComposeConcats(Rule):
    """Concat(Concat(x, y), z) -> Concat(x, y, z)

    Legal along the same axis. Done if nothing else reads the inner Concat.
    """

    name = "compose-concats"
    anchors = frozenset({"Concat"})
    sources = frozenset({"Concat"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        rank = rank_of(node.outputs[0])
        axis = _axis(node, rank)
        parts: list[oir.Value] = []
        for x in operands(node):
            inner = maker_of(x, "Concat")
            joins = inner is not None and is_private(x) and _axis(inner, rank) == axis
            parts += operands(inner) if inner is not None and joins else [x]
        need(len(parts) > len(node.inputs), "no operand is a Concat of its own", node)
        return b.concat(parts, axis)


def _axis(node: oir.Node, rank: int) -> int:
    return node.attributes["axis"].as_int() % rank

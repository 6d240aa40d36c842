"""Concats of Concats."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import is_private, maker_of, operands


class ComposeConcats(Rule):
    """Concat(Concat(x, y), z) -> Concat(x, y, z)

    Legal along the same axis. Done if nothing else reads the inner Concat. The last Concat of a
    chain takes the operands of all, in linear time.
    """

    name = "compose-concats"
    anchors = frozenset({"Concat"})
    sources = frozenset({"Concat"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        result = node.outputs[0]
        axis = _axis(node)
        assert axis is not None
        is_last = not is_private(result) or _axis(result.consumers()[0]) != axis
        need(is_last, "its reader is a Concat along this axis, too", node)
        parts: list[oir.Value] = []
        pending = operands(node)[::-1]
        while pending:
            x = pending.pop()
            inner = maker_of(x, "Concat")
            if inner is not None and is_private(x) and _axis(inner) == axis:
                pending += operands(inner)[::-1]
            else:
                parts.append(x)
        need(len(parts) > len(node.inputs), "no operand is a Concat of its own", node)
        return b.concat(parts, axis)


def _axis(node: oir.Node) -> int | None:
    """The axis of a Concat; None for other nodes."""
    if node.op_type != "Concat" or node.domain:
        return None
    return node.attributes["axis"].as_int() % rank_of(node.outputs[0])

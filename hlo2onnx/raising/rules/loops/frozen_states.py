"""Loops that a condition ends, for targets without Loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.copies import copy_nodes
from hlo2onnx.raising.match.counted_loop import has_condition, release


class FrozenStates(Rule):
    """Loop(n, while p: s = f(s), p) -> Loop(n, p, s = If(p, (f(s), p'), (s, False)))

    Legal for a known limit of the trips, and a loop that stacks nothing. Only for targets that run
    no Loop with a condition, and If: the trips after the last one copy the states.
    """

    name = "frozen-states"
    anchors = frozenset({"Loop"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        flags = b.target.flags
        need(flags.no_loop and not flags.no_if, "the target runs a Loop with a condition", node)
        need(has_condition(node), "it has no condition", node)
        need(const_ints(node.inputs[0]), "the limit of its trips is not known", node)
        body = node.attributes["body"].as_graph()
        states = list(body.inputs[2:])
        need(len(body.outputs) == 1 + len(states), "it stacks rows", node)
        number = b.value("trip", oir.DataType.INT64, [])
        always = b.value("always", oir.DataType.BOOL, [])
        going = b.value("going", oir.DataType.BOOL, [])
        carried = [b.value(x.name or "state", dtype_of(x), shape_of(x)) for x in states]
        with b.subgraph([number, always, going, *carried], f"{b.scope}/frozen") as frozen:
            with b.subgraph([], f"{b.scope}/trip") as trip:
                values = dict(zip(body.inputs, (number, going, *carried), strict=True))
                copy_nodes(b, list(body), values)
                trip.outputs.extend(b.Identity(values.get(x, x)) for x in body.outputs)
            with b.subgraph([], f"{b.scope}/copy") as copy:
                copy.outputs.extend(b.Identity(x) for x in (going, *carried))
            types = [(dtype_of(x), shape_of(x)) for x in (going, *carried)]
            branches = {"then_branch": trip, "else_branch": copy}
            made = b.node("If", [going], branches, types)
            frozen.outputs.extend([b.Identity(always), *made])
        start = node.inputs[1]
        start = b.const(np.array(True)) if start is None else start
        made = b.node(
            "Loop", [node.inputs[0], None, start, *node.inputs[2:]], {"body": frozen}, types
        )
        release(body)
        return made[1:]

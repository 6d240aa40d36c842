"""Which outputs of a Loop, Scan or If are needed.

A state of a loop is needed if something after the loop reads it, or if another needed output of
the body depends on it. A counter that only counts itself is not, nor a state that one branch sets
and the other one keeps.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as oir

from hlo2onnx.ir.traversal import reads, subgraphs
from hlo2onnx.rewrite.large_graphs import use_count


def live_outputs(node: oir.Node) -> list[int]:
    """The positions of the needed outputs of a Loop, Scan or If."""
    read = {k for k, x in enumerate(node.outputs) if use_count(x) or x.is_graph_output()}
    count = len(node.outputs)
    if node.op_type == "If" or len(read) == count:
        return sorted(read)
    (body,) = subgraphs(node)
    first = int(node.op_type == "Loop")
    outputs = list(body.outputs)
    after = dict(zip(list(body.inputs)[2 * first :], range(state_count(node)), strict=False))
    pending: list[oir.Value | None] = [*outputs[:first], *(outputs[first + k] for k in read)]
    inside, visited = {body}, set[oir.Node | oir.Value | None]()
    inner: list[oir.Node] = []  # what loops read takes long to find, and is mostly read elsewhere
    while (pending or inner) and len(read) < count:
        if not pending:
            pending += reads(inner.pop())
            continue
        value = pending.pop()
        if value is None or value in visited:
            continue
        visited.add(value)
        maker = value.producer()
        if maker is None:
            if value in after and after[value] not in read:
                read.add(after[value])
                pending.append(outputs[first + after[value]])
        # What is around the loop reads no state, and `reads` has what its inner bodies read.
        elif maker.graph in inside and maker not in visited:
            if maker.op_type == "If":
                inside.update(subgraphs(maker))
            else:
                visited.add(maker)
            if maker.op_type in ("Loop", "Scan"):
                inner.append(maker)
            else:
                pending += _operands_of(maker, value)
    return sorted(read)


def _operands_of(node: oir.Node, value: oir.Value) -> Iterable[oir.Value | None]:
    """What a result of a node is computed from: that of an If from one result of each branch."""
    if node.op_type != "If":
        return reads(node) if node.attributes.data else node.inputs
    place = value.index()
    assert place is not None
    return [node.inputs[0], *(branch.outputs[place] for branch in subgraphs(node))]


def state_count(node: oir.Node) -> int:
    """The number of states of a Loop or Scan."""
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    return len(node.inputs) - node.attributes["num_scan_inputs"].as_int()

"""Which outputs of a Loop, Scan or If are needed.

A state of a loop is needed if something after the loop reads it, or if another needed output of
the body depends on it. A counter that only counts itself is not.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs


def live_outputs(node: oir.Node) -> list[int]:
    """The positions of the needed outputs of a Loop, Scan or If."""
    read = {k for k, x in enumerate(node.outputs) if x.uses() or x.is_graph_output()}
    if node.op_type == "If" or len(read) == len(node.outputs):
        return sorted(read)
    (body,) = subgraphs(node)
    first = int(node.op_type == "Loop")
    outputs = list(body.outputs)
    after = dict(zip(list(body.inputs)[2 * first :], range(state_count(node)), strict=False))
    pending = outputs[:first] + [outputs[first + k] for k in sorted(read)]
    seen: set[oir.Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in after and after[value] not in read:
            read.add(after[value])
            pending.append(outputs[first + after[value]])
        maker = value.producer()
        if maker is not None:
            seen.update(maker.outputs)
            pending.extend(_read_by(maker))
    return sorted(read)


def state_count(node: oir.Node) -> int:
    """The number of states of a Loop or Scan."""
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    return len(node.inputs) - node.attributes["num_scan_inputs"].as_int()


def _read_by(node: oir.Node) -> Iterator[oir.Value]:
    """What a node and the nodes of its bodies read."""
    yield from (x for x in node.inputs if x is not None)
    for graph in subgraphs(node):
        yield from graph.outputs
        for inner in graph:
            yield from _read_by(inner)

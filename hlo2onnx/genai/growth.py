"""Models with a shared cache whose cache may grow as well.

onnxruntime-genai does not share a cache in a beam search, whatever the folder says: the past has as
many positions as there were tokens, and the present as many as there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.values import dtype_of, shape_of

AXIS = 2
"""The axis of the positions in a cache."""


def let_caches_grow(model: oir.Model, mask: str, past: Iterable[str]) -> None:
    """Gives the present of a model T or t positions, whichever is more.

    Each extent of a past becomes the larger one, and a write into a past appends where it is too
    short. Legal as the step writes from position t - s on, where a past that is too short ends.

    Args:
        model: Its caches have the shape [b, heads, T, head size].
        mask: The name of the input [b, t].
        past: The names of the inputs with the caches.
    """
    graph = model.graph
    inputs = {value.name: value for value in graph.inputs}
    caches = [inputs[name] for name in past]
    b = GraphBuilder(graph, graph.opset_imports[""])
    b.adopt(graph)
    with b.at_start():
        total = b.Shape(inputs[mask], start=1, end=2)
        own = b.Shape(caches[0], start=AXIS, end=AXIS + 1)
        longer = b.Max(own, total)
    for cache in caches:
        for node in cache.consumers():
            if _is_length(node) and node is not own.producer():
                replace(node, [longer])
    for write in filter(None, [x.producer() for x in graph.outputs]):
        update = _update(write, caches)
        if update is not None:
            with b.before(write):
                fits = b.squeeze(b.GreaterOrEqual(own, total), [0])
                _append(b, write, update, fits)


def count_tokens(model: oir.Model, ids: str, mask: str, past: Iterable[str]) -> None:
    """Takes the length of a past for the number of its tokens, t - s, where it has more room.

    Args:
        model: Its caches have the shape [b, heads, t - s, head size].
        ids: The name of the input [b, s].
        mask: The name of the input [b, t].
        past: The names of the inputs with the caches.
    """
    graph = model.graph
    inputs = {value.name: value for value in graph.inputs}
    lengths = [node for name in past for node in inputs[name].consumers() if _is_length(node)]
    b = GraphBuilder(graph, graph.opset_imports[""])
    b.adopt(graph)
    for node in lengths:
        with b.before(node):
            total, new = (b.Shape(inputs[name], start=1, end=2) for name in (mask, ids))
            replace(node, [b.Sub(total, new)])


def _is_length(node: oir.Node) -> bool:
    """Whether a node gives the number of positions of a cache, which it reads."""
    start, end = (node.attributes.get_int(name, 0) for name in ("start", "end"))
    return node.op_type == "Shape" and (start, end) == (AXIS, AXIS + 1)


def _update(node: oir.Node, caches: Sequence[oir.Value]) -> oir.Value | None:
    """The positions that a node writes into a cache; None if it does something else."""
    if node.op_type != "ScatterND" or (past := node.inputs[0]) not in caches:
        return None
    update = node.inputs[2]
    if past is None or update is None:
        return None
    both = ((*dims[:AXIS], *dims[AXIS + 1 :]) for dims in map(shape_of, (past, update)))
    return update if next(both) == next(both) else None


def _append(b: GraphBuilder, node: oir.Node, update: oir.Value, fits: oir.Value) -> None:
    """Lets a write into a cache append where the cache is too short."""
    written = node.outputs[0]
    types = [(dtype_of(written), shape_of(written))]
    with b.subgraph([], "in_place") as in_place:
        in_place.outputs.append(b.copy_of(node)[0])
    with b.subgraph([], "appended") as appended:
        appended.outputs.append(b.op("Concat", node.inputs[0], update, axis=AXIS, types=types))
    branches = {"then_branch": in_place, "else_branch": appended}
    replace(node, b.node("If", [fits], branches, types))

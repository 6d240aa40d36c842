"""Functions of all parts of a Split."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.op_families import UNARY
from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, is_private, maker_of
from hlo2onnx.rewrite.replace import replace


class SplitAfterElementwise(Rule):
    """Split(x) -> a, b with f(a), f(b) -> Split(f(x))

    Legal for a function of each element, such as a Cast, that reads all parts alike. Done if
    nothing else reads the parts.
    """

    name = "split-after-elementwise"
    anchors = UNARY - {"BitCast"}
    sources = frozenset({"Split"})
    # After the rules that match the parts.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        split = needed(maker_of(first(node), "Split"), "its operand is no part of a Split", node)
        need(first(node) is split.outputs[0], "an earlier part is looked at first", node)
        x = first(split)
        need(split.graph is node.graph, "the Split is outside of a body", split)
        row = [_reader(part, node) for part in split.outputs]
        dtype = dtype_of(node.outputs[0])
        need(b.supports("Split", dtype), "the target cannot split it", node)
        with b.before(split):
            whole = b.like(node, [x], [(dtype, shape_of(x))])
            needed(whole.producer(), "no node makes it", node).meta.update(node.meta)
            types = [(dtype, shape_of(part)) for part in split.outputs]
            parts = b.node("Split", [whole, *split.inputs[1:]], attributes_of(split), types)
        for each, part in zip(row[1:], parts[1:], strict=True):
            replace(each, [part])
        return parts[0]


def _reader(part: oir.Value, like: oir.Node) -> oir.Node:
    """The only reader of a part, which computes the same function as another node.

    Raises:
        Refusal: There are others, or it computes something else.
    """
    need(is_private(part), "several nodes read a part", part)
    reader = part.consumers()[0]
    same = (reader.op_type, reader.domain) == (like.op_type, like.domain)
    need(same and len(reader.inputs) == 1, "another operator reads a part", reader)
    need(attributes_of(reader) == attributes_of(like), "its attributes differ", reader)
    need(reader.graph is like.graph, "a part is read in a body", reader)
    need(not reader.outputs[0].is_graph_output(), "it is an output", reader)
    return reader

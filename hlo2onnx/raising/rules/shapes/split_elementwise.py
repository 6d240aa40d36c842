"""Elementwise operators on all parts of a Split."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import UNARY
from hlo2onnx.ir.values import attributes_of, dtype_of, is_constant, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import is_private, maker_of
from hlo2onnx.rewrite.replace import replace

_WITH_CONSTANT = frozenset({"Add", "Div", "Mul", "Sub"})


class SplitAfterElementwise(Rule):
    """Split(x) -> a, b with f(a), f(b) -> Split(f(x))

    Legal for a function of each element that reads all parts, alike, and for a sum, difference,
    product or quotient of each part and a constant: constants that differ are joined. Done if
    nothing else reads the parts.
    """

    name = "split-after-elementwise"
    anchors = (UNARY - {"BitCast"}) | _WITH_CONSTANT
    sources = frozenset({"Split"})
    # After the rules that match the parts, and the one that makes Splits.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        place = next((at for at, x in enumerate(node.inputs) if maker_of(x, "Split")), None)
        place = needed(place, "no operand is a part of a Split", node)
        split = needed(maker_of(node.inputs[place], "Split"), "it is no part", node)
        need(node.inputs[place] is split.outputs[0], "an earlier part is looked at first", node)
        x = split.inputs[0]
        assert x is not None
        need(split.graph is node.graph and rank_of(x) > 0, "the Split is outside of a body", split)
        row = [_reader(part, node, place) for part in split.outputs]
        axis = split.attributes.get_int("axis", 0) % rank_of(x)
        need(b.supports("Split", dtype_of(node.outputs[0])), "the target cannot split it", node)
        with b.before(split):
            inputs = [x]
            if len(node.inputs) == 2:
                constants = [each.inputs[1 - place] for each in row]
                inputs.insert(1 - place, _joined(constants, split, axis, b))
            types = [(dtype_of(node.outputs[0]), shape_of(x))]
            (whole,) = b.node(node.op_type, inputs, attributes_of(node), types)
            maker = whole.producer()
            assert maker is not None
            maker.meta.update(node.meta)
            types = [(dtype_of(whole), shape_of(part)) for part in split.outputs]
            parts = b.node("Split", [whole, *split.inputs[1:]], attributes_of(split), types)
        for each, part in zip(row[1:], parts[1:], strict=True):
            replace(each, [part])
        return parts[0]


def _reader(part: oir.Value, like: oir.Node, place: int) -> oir.Node:
    """The only reader of a part, which computes the same as another node.

    Raises:
        Refusal: There are others, or it computes something else.
    """
    need(is_private(part), "several nodes read a part", part)
    reader, at = next(iter(part.uses()))
    same = reader.op_type == like.op_type and reader.domain == like.domain and at == place
    need(same and len(reader.inputs) == len(like.inputs), "another operator reads a part", reader)
    need(attributes_of(reader) == attributes_of(like), "its attributes differ", reader)
    need(reader.graph is like.graph, "a part is read in a body", reader)
    result = reader.outputs[0]
    need(shape_of(result) == shape_of(part), "its other operand decides the shape", reader)
    need(not result.is_graph_output(), "it is an output", result)
    return reader


def _joined(
    constants: Sequence[oir.Value | None], split: oir.Node, axis: int, b: Rewriter
) -> oir.Value:
    """The constants of all parts, as one that broadcasts to the whole.

    Raises:
        Refusal: One is not constant, or has other axes.
    """
    head, from_end = constants[0], axis - rank_of(split.outputs[0])
    assert head is not None
    need(is_constant(head), "an operand is computed", head)
    rank = rank_of(head)
    if all(each is head for each in constants) and (
        rank < -from_end or shape_of(head)[from_end] == 1
    ):
        return head
    values = [each for each in constants if each is not None]
    for each, part in zip(values, split.outputs, strict=True):
        dims, extent = static_shape(each), shape_of(part)[axis]
        need(is_constant(each) and dims is not None, "an operand is computed", each)
        assert dims is not None
        fits = len(dims) == rank >= -from_end and dims[from_end] == extent
        need(fits, "it does not have a number for each row", each)
        need(prod(dims) == extent, "it has more axes", each)
    return b.derived(lambda *a: np.concatenate(a, axis=from_end), *values, note="joined")

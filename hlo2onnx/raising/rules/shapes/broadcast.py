"""Expands before operators that broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.shapes import broadcast_shapes
from hlo2onnx.ir.values import Shape, const_of, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import CONSTANT, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first, is_private, maker_of, operands, source_of
from hlo2onnx.raising.rules.shapes.reshape import adds_leading_axes_only


def _broadcast(values: Sequence[oir.Value]) -> Shape | None:
    try:
        return broadcast_shapes(*map(shape_of, values))
    except InternalError:  # the program is contradictory
        return None


class ImplicitBroadcast(Rule):
    """Add(Expand(x), y) -> Add(x, y), likewise for Reshape(x, (1, n)) and [[c]], a constant of one
    number, for every operator that broadcasts

    Legal when the remaining operands still broadcast to the same shape. The Reshape only puts axes
    of 1 in front.
    """

    name = "implicit-broadcast"
    formerly = ("drop-leading-unit-dims", "implicit-leading-axes", "scalar-constant")
    anchors = BROADCASTING
    sources = frozenset({CONSTANT, "Expand", "Reshape", "Unsqueeze"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inputs, shape, is_less = operands(node), shape_of(node.outputs[0]), False
        sources = [(x, source) for x in inputs if (source := _source(x, b)) is not None]
        # An Expand goes first: later it may decide the shape in place of a Reshape.
        for x, source in sorted(sources, key=_is_not_expanded) if len(sources) > 1 else sources:
            index = inputs.index(x)
            fewer = [*inputs[:index], source, *inputs[index + 1 :]]
            if _broadcast(fewer) == shape:
                inputs, is_less = fewer, True
        need(is_less, "no operand is smaller, or it determines the shape", node)
        return b.reread(node, inputs)


def _is_not_expanded(pair: tuple[oir.Value, oir.Value]) -> bool:
    return source_of(pair[0], "Expand") is None


def _source(x: oir.Value, b: Rewriter) -> oir.Value | None:
    """A value of the same elements with fewer copies or axes."""
    maker = x.producer()
    if maker is None:
        array = const_of(x) if rank_of(x) else None
        return b.const(array.reshape(())) if array is not None and array.size == 1 else None
    if maker.op_type == "Expand":
        return first(maker)
    if maker.op_type not in ("Reshape", "Unsqueeze"):
        return None
    source = first(maker)
    return source if adds_leading_axes_only(shape_of(source), shape_of(x)) else None


class SinkBroadcast(Rule):
    """Exp(Expand(x)) -> Expand(Exp(x)); Add(Expand(x), Expand(y)) -> Expand(Add(x, y));
    Transpose(Expand(x)) -> Expand(Transpose(x))

    Legal for elementwise operators, which give equal results for equal elements. The Expand sinks
    until a consumer absorbs it or needs it. An Expand with other readers stays.
    """

    name = "sink-broadcast"
    formerly = ("late-broadcast",)
    anchors = BROADCASTING | UNARY | {"Transpose"}
    sources = frozenset({"Expand"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type == "Transpose":
            return _transposed_before(node, b)
        inputs = operands(node)
        sources = [source_of(x, "Expand") for x in inputs]
        need(any(source is not None for source in sources), "no operand is expanded", node)
        smaller = [
            x if source is None else source for x, source in zip(inputs, sources, strict=True)
        ]
        output = shape_of(node.outputs[0])
        shape = _broadcast(smaller)
        need(shape is not None and shape != output, "its operands determine the shape", node)
        assert shape is not None
        aligned = (1,) * (len(output) - len(shape)) + shape
        known = all(isinstance(y, int) or x == y for x, y in zip(aligned, output, strict=True))
        if known:
            return b.expand(b.like(node, smaller), output)
        makers = [maker_of(x, "Expand") for x in inputs if shape_of(x) == output]
        whole = needed(next(filter(None, makers), None), "its shape is computed at run time", node)
        fits = all(x in (1, y) for x, y in zip(aligned, output, strict=True))
        need(fits, "its shape is computed at run time", node)
        found = b.like(node, smaller)
        types = [(dtype_of(found), output)]
        return b.op("Expand", found, whole.inputs[1], types=types)


def _transposed_before(node: oir.Node, b: Rewriter) -> oir.Value:
    x = needed(source_of(first(node), "Expand"), "its operand is not expanded", node)
    need(is_private(first(node)), "the Expand has other readers", node)
    dims = (1,) * (rank_of(node.outputs[0]) - rank_of(x)) + shape_of(x)
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", node)
    output = shape_of(node.outputs[0])
    moved = b.transpose(b.reshape(x, dims), node.attributes["perm"].as_ints())
    known = all(isinstance(y, int) or x == y for x, y in zip(shape_of(moved), output, strict=True))
    need(known, "its shape is computed at run time", node)
    return b.expand(moved, output)


class SinkSqueeze(Rule):
    """Add(Reshape(x, (n,)), Reshape(y, (n,))) -> Reshape(Add(x, y), (n,)) where x and y are (1, n)

    Legal for elementwise operators if the Reshapes only drop leading axes of 1. They sink until a
    Reshape puts the axis back, as for rows of a matrix that are split and stacked again. They
    vanish if another operand has the axis. A Reshape with other readers stays.
    """

    name = "sink-squeeze"
    formerly = ("late-squeeze",)
    anchors = BROADCASTING | UNARY
    sources = frozenset({"Reshape", "Squeeze"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inputs = operands(node)
        smaller = [_unsqueezed(x) for x in inputs]
        need(smaller != inputs, "no operand only drops leading axes of 1", node)
        output, shape = static_shape(node.outputs[0]), _broadcast(smaller)
        need(output, "its result is a scalar, or has a dynamic shape", node)
        assert output is not None
        is_same = shape is not None and adds_leading_axes_only(output, shape)
        need(is_same, "its operands determine the shape", node)
        return b.reshape(b.like(node, smaller), output)


_READERS = BROADCASTING | UNARY | RESHAPES


def _unsqueezed(x: oir.Value) -> oir.Value:
    """x before a Reshape, for elementwise readers, that drops leading axes of 1."""
    source = source_of(x, "Reshape", "Squeeze")
    if source is None or x.is_graph_output():
        return x
    lost_axes = rank_of(source) > rank_of(x) and adds_leading_axes_only(
        shape_of(x), shape_of(source)
    )
    readers = {reader.op_type for reader in x.consumers()}
    return source if lost_axes and readers <= _READERS else x


class ComposeExpands(Rule):
    """Expand(Expand(x)) -> Expand(x)

    Legal for static shapes. The outer Expand may ask for 1 where its operand has more; if that
    extent is symbolic, x must have it too.
    """

    name = "compose-expands"
    anchors = frozenset({"Expand"})
    sources = frozenset({"Expand"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = needed(source_of(first(node), "Expand"), "its operand is not expanded", node)
        dims = static_shape(node.outputs[0])
        if dims is not None:
            return b.expand(x, dims)
        need(
            _expands_the_same(shape_of(x), shape_of(first(node)), shape_of(node.outputs[0])),
            "the outer one may not ask for the extents of the inner one",
            node,
        )
        return b.Expand(x, node.inputs[1], types=[(dtype_of(x), shape_of(node.outputs[0]))])


def _expands_the_same(x: Shape, inner: Shape, outer: Shape) -> bool:
    """Whether Expands of x and of `inner` to `outer` surely give the same."""
    x, inner = ((1,) * (len(outer) - len(dims)) + dims for dims in (x, inner))
    return all(
        have == want or between != want for have, between, want in zip(x, inner, outer, strict=True)
    )

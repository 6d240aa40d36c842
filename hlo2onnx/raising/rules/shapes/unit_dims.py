"""Axes of extent 1: reductions keep them, Transposes and reductions drop them."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive, product
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.shapes import added_units
from hlo2onnx.ir.values import (
    FLOATS,
    Shape,
    const_number,
    dtype_of,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import REDUCTIONS, keeps_axes, reduced_axes
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    long_axes,
    maker_of,
    operands,
    reshaped,
    source_of,
)
from hlo2onnx.raising.rules.shapes.reshape import adds_leading_axes_only

MAX_BETWEEN = 16
"""Elementwise operators between reductions and the Reshape that puts their axes back: a limit on
compile time, not a cost."""


class ReduceKeepdims(Rule):
    """Reshape(f(ReduceSum(x, keepdims=0))) -> f(ReduceSum(x, keepdims=1)), f elementwise or nothing

    Legal if the Reshape restores the reduced axes, and every operand of f is reduced alike or a
    scalar. A Reshape remains for further leading axes of 1.
    """

    name = "reduce-keepdims"
    formerly = ("keep-reduced-axes",)
    anchors = RESHAPES
    sources = REDUCTIONS | BROADCASTING | UNARY

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        shape = shape_of(node.outputs[0])
        adds = len(shape) > rank_of(first(node)) > 0
        need(adds, "the Reshape adds no axes, or reshapes a scalar", node)
        return reshaped(node, b, _kept(first(node), b, {}, shape))


def _kept(
    value: oir.Value, b: Rewriter, known: dict[oir.Value, oir.Value], shape: Shape
) -> oir.Value:
    """The value computed with reductions that keep their axes, which gives this shape but for
    leading axes of 1."""
    if value in known or not rank_of(value):
        return known.get(value, value)
    node = value.producer()
    need(node is not None and not node.domain, "its operand is not computed", value)
    assert node is not None
    if node.op_type in REDUCTIONS:
        need(not keeps_axes(node), "the reduction keeps its axes", node)
        x, axes = first(node), reduced_axes(node)
        dims = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape_of(x)))
        is_back = adds_leading_axes_only(dims, shape)
        need(is_back, "the Reshape adds axes other than the reduced ones", node)
        made = b.op(node.op_type, x, b.i64(list(axes)), keepdims=1)
    else:
        need(
            node.op_type in BROADCASTING | UNARY,
            "an operand is neither a reduction nor elementwise",
            node,
        )
        need(len(known) < MAX_BETWEEN, "too many nodes are in between", node)
        known[value] = value  # counts as visited; replaced below
        inputs = operands(node)
        shapes = {shape_of(x) for x in inputs if rank_of(x)}
        need(shapes == {shape_of(value)}, "an operand is broadcast", node)
        kept = [_kept(x, b, known, shape) for x in inputs]
        need(len({shape_of(x) for x in kept if rank_of(x)}) == 1, "other axes are reduced", node)
        made = b.like(node, kept)
    known[value] = made
    return made


class KeepdimsBeforeTranspose(Rule):
    """Reshape(Transpose(ReduceMax(x, a, keepdims=0))) -> Transpose(ReduceMax(x, a, keepdims=1), q)

    Legal if the Reshape gives the reduced axes back where q moves them. Done for the q of a
    Transpose(x, q), whose readers take both: then both sink. `vmap` writes softmax so.
    """

    name = "keepdims-before-transpose"
    anchors = RESHAPES
    sources = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        moved = needed(maker_of(first(node), "Transpose"), "no transposed value is reshaped", node)
        reduced = needed(maker_of(first(moved), *REDUCTIONS), "it is not reduced", moved)
        need(not keeps_axes(reduced), "the reduction keeps its axes", reduced)
        x, axes, dims = first(reduced), reduced_axes(reduced), shape_of(node.outputs[0])
        left = [axis for axis in range(rank_of(x)) if axis not in axes]
        order = [left[place] for place in moved.attributes["perm"].as_ints()]
        kept = [1 if axis in axes else dim for axis, dim in enumerate(shape_of(x))]
        for other in x.consumers():
            if other.op_type != "Transpose" or other.domain:
                continue
            perm = other.attributes["perm"].as_ints()
            same = [axis for axis in perm if axis not in axes] == order
            if same and dims == tuple(kept[axis] for axis in perm):
                made = b.op(reduced.op_type, x, b.i64(list(axes)), keepdims=1)
                return b.transpose(made, perm)
        raise Refusal("its operand is not transposed alike", x)


class SqueezeBeforeTranspose(Rule):
    """Reshape(Transpose(x)) -> Transpose(Reshape(x)) where the Reshape only drops axes of 1"""

    name = "squeeze-before-transpose"
    anchors = RESHAPES
    sources = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = needed(source_of(first(node), "Transpose"), "its operand is not transposed", node)
        dropped = added_units(shape_of(node.outputs[0]), shape_of(first(node)))
        need(dropped, "it does more than drop axes of extent 1", node)
        assert dropped is not None
        maker = first(node).producer()
        assert maker is not None
        perm = maker.attributes["perm"].as_ints()
        gone = {perm[axis] for axis in dropped}
        left = [axis for axis in range(len(perm)) if axis not in gone]
        smaller = b.reshape(x, [shape_of(x)[axis] for axis in left])
        return b.transpose(smaller, [left.index(axis) for axis in perm if axis not in gone])


class ReduceDropUnitDims(Rule):
    """ReduceMax(Reshape(x), a) -> Reshape(ReduceMax(x, a')) where the Reshape only adds or drops
    axes of extent 1

    Legal as these reductions do not change elements along axes of extent 1.
    """

    name = "reduce-drop-unit-dims"
    formerly = ("reduce-without-units",)
    anchors = REDUCTIONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = first(node)
        x = needed(source_of(view, *RESHAPES), "its operand is not reshaped", node)
        places = _long_axes(shape_of(view), shape_of(x))
        axes = [places[axis] for axis in reduced_axes(node) if axis in places]
        if axes:
            keepdims = int(keeps_axes(node))
            x = b.op(node.op_type, x, b.i64(axes), keepdims=keepdims)
        assert isinstance(x, oir.Value)
        return reshaped(node, b, x)


def _long_axes(shape: Shape, other: Shape) -> dict[int, int]:
    return needed(long_axes(shape, other), "the Reshape changes more than axes of extent 1")


class ReduceMeanOperator(Rule):
    """Div(ReduceSum(x, axes), n) -> ReduceMean(x, axes)

    Legal for floats if n is the number of terms, constant or computed from the shape, and not 0:
    the mean of no terms is NaN, but 0 in runtimes.
    """

    name = "reduce-mean"
    formerly = ("mean",)
    anchors = frozenset({"Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        total, count = node.inputs
        assert total is not None
        summed = total.producer()
        if summed is None or summed.op_type != "ReduceSum" or summed.domain:
            raise Refusal("its dividend is not a sum", node)
        axes = reduced_axes(summed)
        extents = [shape_of(first(summed))[axis] for axis in axes]
        terms = product(extents)
        assert count is not None
        need(
            dtype_of(total) in FLOATS and set(shape_of(count)) <= {1},
            "its divisor is not a number",
            count,
        )
        divisor = const_number(count) if isinstance(terms, int) else noted_extent(count)
        need(divisor == terms, "its divisor is not the number of terms", count)
        need(all(map(is_positive, extents)), "there may be no terms", node)
        mean = b.ReduceMean(first(summed), b.i64(list(axes)), keepdims=int(keeps_axes(summed)))
        return reshaped(node, b, mean)

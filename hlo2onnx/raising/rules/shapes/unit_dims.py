"""Axes of extent 1: Reshapes move on until they meet what undoes them, reductions keep theirs."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive, product
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.shape_rules import added_units
from hlo2onnx.ir.values import (
    FLOATS,
    Shape,
    const_ints,
    const_number,
    dtype_of,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.rules.shapes.reshape import (
    RESHAPES,
    adds_leading_axes_only,
    first,
    reshaped,
    source_of,
)

REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
"""Those that give x itself over an axis of extent 1."""


MAX_BETWEEN = 16
"""Elementwise operators between reductions and the Reshape that puts their axes back: a limit on
compile time, no cost."""


def reduced_axes(node: oir.Node) -> tuple[int, ...]:
    """The axes a reduction reduces, not negative and in order.

    Raises:
        Refusal: They are not constant, or there are none.
    """
    rank = rank_of(first(node))
    given = const_ints(node.inputs[1]) if len(node.inputs) > 1 else ()
    need(given is not None, "its axes are computed at run time", node)
    assert given is not None
    if not given:
        need(not node.attributes.get_int("noop_with_empty_axes", 0), "it reduces no axis", node)
        return tuple(range(rank))
    return tuple(sorted(axis % rank for axis in given))


def keeps_axes(node: oir.Node) -> bool:
    """Whether a reduction leaves the axes it reduces, with extent 1."""
    return bool(node.attributes.get_int("keepdims", 1))


_LETS_UNITS_PASS = BROADCASTING | UNARY | REDUCTIONS | RESHAPES | {"Clip", "Transpose"}


class SinkReshape(Rule):
    """Exp(Reshape(x)) -> Reshape(Exp(x)); Add(Reshape(x), y) -> Reshape(Add(x, y'))

    Legal for elementwise operators if the other operands can be had for the shape before: those of
    one element, Reshapes of the same kind, constants that do not broadcast over some but not all
    of the axes that the Reshape makes, anything of no higher rank if it only puts axes of 1 in
    front. A Reshape that others read too stays where it is, unless it is of floats, all it does
    is to add or drop axes of 1, and the others let that pass.
    """

    name = "sink-reshape"
    formerly = ("late-reshape",)
    anchors = BROADCASTING | UNARY | {"Clip"}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = next((x for x in node.inputs if x is not None and _moves(x)), None)
        need(view is not None, "no operand is reshaped for it alone", node)
        assert view is not None
        target = shape_of(view)
        before = shape_of(_source(view))
        earlier = [None if x is None else _before(x, before, target, b) for x in node.inputs]
        return reshaped(node, b, b.like(node, earlier))


def _moves(x: oir.Value) -> bool:
    """Whether x is a Reshape that what reads it may let pass.

    One of a constant is a constant, which takes the shape of the others and not they its own.
    """
    source = source_of(x, *RESHAPES)
    if source is None or source.const_value is not None or x.is_graph_output():
        return False
    readers = set(x.consumers())
    if len(readers) == 1:
        return True
    # Of what is computed from indices one part is often read as it is, and one reshaped.
    is_data = dtype_of(x) in FLOATS
    return (
        is_data
        and _only_units(shape_of(source), shape_of(x))
        and all(reader.op_type in _LETS_UNITS_PASS for reader in readers)
    )


def _only_units(x: Shape, y: Shape) -> bool:
    """Whether y is x but for axes of extent 1."""
    return [dim for dim in x if dim != 1] == [dim for dim in y if dim != 1]


def _source(view: oir.Value) -> oir.Value:
    source = source_of(view, *RESHAPES)
    assert source is not None
    return source


def _before(x: oir.Value, before: Shape, target: Shape, b: Rewriter) -> oir.Value:
    """What x is beside operands that were reshaped from `before` to `target`."""
    if _moves(x) and shape_of(x) == target and shape_of(_source(x)) == before:
        return _source(x)
    leading = len(target) - len(before)
    if leading >= 0 and target[leading:] == before and set(target[:leading]) <= {1}:
        need(rank_of(x) <= len(before), "another operand has more axes", x)
        return x
    if all(dim == 1 for dim in shape_of(x)):
        need(rank_of(x) <= min(len(before), len(target)), "another operand has more axes", x)
        return x
    need(x.const_value is not None, "another operand is computed, and shaped differently", x)
    return b.reshape(x, _constant_shape(x, before, target))


def _constant_shape(x: oir.Value, before: Shape, target: Shape) -> Shape:
    """The shape in which constant x broadcasts against `before` as now against `target`."""
    need(rank_of(x) <= len(target), "a constant has more axes", x)
    shape = (1,) * (len(target) - rank_of(x)) + shape_of(x)
    front = _common(before, target)
    back = _common(before[front:][::-1], target[front:][::-1])
    made = slice(front, len(target) - back)
    old = before[front : len(before) - back]
    if set(shape[made]) <= {1}:
        middle: Shape = (1,) * len(old)
    else:
        whole = shape[made] == target[made] and product(shape[made]) == product(old)
        need(whole, "a constant broadcasts over part of the axes", x)
        middle = old
    return (*shape[:front], *middle, *shape[len(target) - back :])


def _common(x: Sequence[object], y: Sequence[object]) -> int:
    """How many items two sequences begin with alike."""
    pairs = enumerate(zip(x, y, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(x), len(y)))


class ReduceKeepdims(Rule):
    """Reshape(f(ReduceSum(x, keepdims=0))) -> f(ReduceSum(x, keepdims=1)), f elementwise or nothing

    Legal when the Reshape puts back the axes that were reduced, and all that f reads is reduced so
    or a scalar. What further axes of 1 it puts in front, a Reshape still does.
    """

    name = "reduce-keepdims"
    formerly = ("keep-reduced-axes",)
    anchors = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        shape = shape_of(node.outputs[0])
        need(rank_of(first(node)), "a scalar is reshaped", node)
        kept = _kept(first(node), b, {})
        is_back = adds_leading_axes_only(shape_of(kept), shape)
        need(is_back, "the Reshape adds other axes than those reduced", node)
        return reshaped(node, b, kept)


def _kept(value: oir.Value, b: Rewriter, known: dict[oir.Value, oir.Value]) -> oir.Value:
    """The value made of reductions that keep their axes."""
    if value in known or not rank_of(value):
        return known.get(value, value)
    node = value.producer()
    need(node is not None and not node.domain, "no reduction is reshaped", value)
    assert node is not None
    if node.op_type in REDUCTIONS:
        need(not keeps_axes(node), "the reduction keeps its axes", node)
        axes = b.i64(list(reduced_axes(node)))
        made = b.op(node.op_type, first(node), axes, keepdims=1)
    else:
        need(node.op_type in BROADCASTING | UNARY, "something else than a reduction is read", node)
        need(len(known) < MAX_BETWEEN, "too much lies in between", node)
        known[value] = value  # counts from here on, and is replaced below
        inputs = [x for x in node.inputs if x is not None]
        shapes = {shape_of(x) for x in inputs if rank_of(x)}
        need(shapes == {shape_of(value)}, "an operand is broadcast", node)
        kept = [_kept(x, b, known) for x in inputs]
        need(len({shape_of(x) for x in kept if rank_of(x)}) == 1, "other axes are reduced", node)
        made = b.like(node, kept)
    known[value] = made
    return made


def _axes_in(x: Shape, target: Shape) -> list[int]:
    """The axis of `target` that each axis of x is, where `target` is x with more axes of 1."""
    places = []
    axis = 0
    for dim in x:
        while axis < len(target) and target[axis] != dim:
            need(target[axis] == 1, "the Reshape changes more than axes of extent 1")
            axis += 1
        need(axis < len(target), "the Reshape changes more than axes of extent 1")
        places.append(axis)
        axis += 1
    need(set(target[axis:]) <= {1}, "the Reshape changes more than axes of extent 1")
    return places


class TransposeDropUnitDims(Rule):
    """Transpose(Reshape(x)) -> Reshape(Transpose(x)) where the Reshape only adds axes of 1"""

    name = "transpose-drop-unit-dims"
    formerly = ("transpose-without-units",)
    anchors = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = first(node)
        x = source_of(view, *RESHAPES)
        need(x is not None and rank_of(x) < rank_of(view), "its operand has no axes to spare", node)
        assert x is not None
        places = _axes_in(shape_of(x), shape_of(view))
        perm = [places.index(axis) for axis in node.attributes["perm"].as_ints() if axis in places]
        return reshaped(node, b, b.transpose(x, perm))


class SqueezeBeforeTranspose(Rule):
    """Reshape(Transpose(x)) -> Transpose(Reshape(x)) where the Reshape only drops axes of 1"""

    name = "squeeze-before-transpose"
    anchors = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = source_of(first(node), "Transpose")
        need(x is not None, "nothing transposed is reshaped", node)
        assert x is not None
        dropped = added_units(shape_of(node.outputs[0]), shape_of(first(node)))
        need(dropped, "it does more than to drop axes of extent 1", node)
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

    Legal as these reductions leave as they are what lies along an axis of extent 1.
    """

    name = "reduce-drop-unit-dims"
    formerly = ("reduce-without-units",)
    anchors = REDUCTIONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = first(node)
        x = source_of(view, *RESHAPES)
        need(x is not None, "its operand is not reshaped", node)
        assert x is not None
        places = _long_axes(shape_of(view), shape_of(x))
        axes = [places[axis] for axis in reduced_axes(node) if axis in places]
        if axes:
            keepdims = int(keeps_axes(node))
            x = b.op(node.op_type, x, b.i64(axes), keepdims=keepdims)
        assert isinstance(x, oir.Value)
        return reshaped(node, b, x)


class SoftmaxDropUnitDims(Rule):
    """Softmax(Reshape(x), a) -> Reshape(Softmax(x, a')) where the Reshape only adds or drops axes
    of extent 1, and so for LogSoftmax

    Legal where a is none of these.
    """

    name = "softmax-drop-unit-dims"
    formerly = ("softmax-without-units",)
    anchors = frozenset({"LogSoftmax", "Softmax"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = first(node)
        x = source_of(view, *RESHAPES)
        need(x is not None, "its operand is not reshaped", node)
        assert x is not None
        axis = node.attributes.get_int("axis", -1) % rank_of(view)
        place = _long_axes(shape_of(view), shape_of(x)).get(axis)
        need(place is not None, "it is over an axis of extent 1", node)
        return reshaped(node, b, b.op(node.op_type, x, axis=place))


def _long_axes(shape: Shape, other: Shape) -> dict[int, int]:
    """The axis of `other` that each axis of `shape` of another extent than 1 is.

    Raises:
        Refusal: They differ in more than axes of extent 1.
    """
    mine, its = ([axis for axis, dim in enumerate(x) if dim != 1] for x in (shape, other))
    same = [shape[axis] for axis in mine] == [other[axis] for axis in its]
    need(same, "the Reshape changes more than axes of extent 1")
    return dict(zip(mine, its, strict=True))


class ReduceMeanOperator(Rule):
    """Div(ReduceSum(x, axes), n) -> ReduceMean(x, axes)

    Legal for floats where n is the number of terms, as a constant or computed from the shape; of
    no terms it is NaN, to runtimes 0.
    """

    name = "reduce-mean"
    formerly = ("mean",)
    anchors = frozenset({"Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        total, count = node.inputs
        assert total is not None
        summed = total.producer()
        if summed is None or summed.op_type != "ReduceSum" or summed.domain:
            raise Refusal("no sum is divided", node)
        axes = reduced_axes(summed)
        extents = [shape_of(first(summed))[axis] for axis in axes]
        terms = product(extents)
        assert count is not None
        need(dtype_of(total) in FLOATS and set(shape_of(count)) <= {1}, "no number divides", count)
        divisor = const_number(count) if isinstance(terms, int) else noted_extent(count)
        need(divisor == terms, "it divides by something else", count)
        need(all(map(is_positive, extents)), "there may be no terms", node)
        mean = b.ReduceMean(first(summed), b.i64(list(axes)), keepdims=int(keeps_axes(summed)))
        return reshaped(node, b, mean)

"""Reshapes: no-ops, chains of them, and Reshapes that sink until they cancel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_known, product
from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.values import (
    FLOATS,
    Shape,
    const_ints,
    const_of,
    dtype_of,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import REDUCTIONS
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    operands,
    reshaped,
    source_of,
)


class EliminateNop(Rule):
    """Identity(x), Cast to x's own type, Reshape, Transpose, Expand that change nothing -> x

    Legal for a Reshape or Expand to x's own static shape, a Slice of everything in steps forwards,
    a Transpose with the identity permutation, and a Concat of one operand.
    """

    name = "eliminate-nop"
    formerly = ("drop-identity",)
    anchors = frozenset(
        {"Cast", "Concat", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose",
         "Unsqueeze"}
    )  # fmt: skip

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        y = node.outputs[0]
        is_like = node.op_type == "Identity" or shape_of(x) == shape_of(y)
        need(is_like, "it changes the shape", node)
        need(dtype_of(x) == dtype_of(y), "it changes the type", y)
        if node.op_type == "Transpose":
            perm = node.attributes["perm"].as_ints()
            need(list(perm) == list(range(len(perm))), "it permutes axes", node)
        elif node.op_type == "Concat":
            need(len(node.inputs) == 1, "it joins several tensors", node)
        elif node.op_type == "Slice":
            steps = const_ints(node.inputs[4]) if len(node.inputs) > 4 else (1,)
            need(steps is not None and min(steps) > 0, "it may reverse an axis", node)
        return x


class IdentityGather(Rule):
    """Gather(x, [0, 1, ..., n - 1]) -> x, or a Reshape of x; Gather([0, 1, ..., n - 1], i) -> i;
    Pad(x, [0, 0, ...]) -> x

    Legal if the indices are constant and name each row once, in order, or if computed ones have the
    type of the numbers and lie in [0, n).
    """

    name = "identity-gather"
    anchors = frozenset({"Gather", "Pad"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        given = const_of(node.inputs[1])
        if given is None:
            return _named_number(node, b)
        if node.op_type == "Pad":
            need(not given.any(), "it adds or removes elements", node)
            return x
        extent = shape_of(x)[node.attributes.get_int("axis", 0)]
        need(given.size == extent, "it takes some rows, or some more than once", node)
        need((given.reshape(-1) == np.arange(given.size)).all(), "it permutes rows", node)
        return reshaped(node, b, x)


def _named_number(gather: oir.Node, b: Rewriter) -> oir.Value:
    """The index of a Gather from the numbers 0 to n - 1, which is the result."""
    need(gather.op_type == "Gather", "its pads are computed at run time", gather)
    numbers, place = operands(gather)[:2]
    table = needed(const_of(numbers), "its rows are computed at run time", gather)
    is_count = dtype_of(numbers) == dtype_of(place) and np.array_equal(table, np.arange(table.size))
    need(is_count, "its rows are not the numbers from 0 on", gather)
    bounds = needed(b.facts.int_range(place), "the range of the index is unknown", place)
    need(bounds.within(0, table.size - 1), "an index may be out of bounds", place)
    return place


class ComposeReshapes(Rule):
    """Reshape(Reshape(x)) -> Reshape(x); likewise for Squeeze and Unsqueeze

    Legal if the last shape is known or can be written in terms of x's shape.
    """

    name = "compose-reshapes"
    anchors = RESHAPES
    sources = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = needed(source_of(first(node), *RESHAPES), "its operand is not reshaped", node)
        return reshaped(node, b, x)


_LETS_UNITS_PASS = BROADCASTING | UNARY | REDUCTIONS | RESHAPES | {"Clip", "Transpose"}


class SinkReshape(Rule):
    """Exp(Reshape(x)) -> Reshape(Exp(x)); Add(Reshape(x), y) -> Reshape(Add(x, y'))

    Legal for elementwise operators if the other operands have a form for the earlier shape: a
    single element, the same kind of Reshape, a constant that broadcasts over all or none of the
    reshaped axes, likewise the result of another Reshape if the one that sinks only adds or drops
    axes of 1, or any operand if the Reshape only adds leading axes of 1, to one element or to no
    lower rank than that operand has. A Reshape with other readers stays, unless it is of floats,
    only adds or drops axes of 1, and can sink past them. So for Softmax and LogSoftmax along a last
    axis that the Reshape keeps: grouped attention writes its scores so.
    """

    name = "sink-reshape"
    formerly = ("late-reshape",)
    anchors = BROADCASTING | UNARY | {"Clip", "LogSoftmax", "Softmax"}
    sources = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = needed(
            next((x for x in node.inputs if x is not None and _moves(x)), None),
            "no operand is a Reshape that can sink",
            node,
        )
        target = shape_of(view)
        before = shape_of(_source(view))
        if node.op_type in ("LogSoftmax", "Softmax"):
            keeps = before and before[-1] == target[-1] and is_known(target[-1:])
            along_last = node.attributes.get_int("axis", -1) in (-1, len(target) - 1)
            need(keeps and along_last, "it is not along a last axis that the Reshape keeps", node)
            return reshaped(node, b, b.op(node.op_type, _source(view), axis=-1))
        earlier = [None if x is None else _before(x, before, target, b) for x in node.inputs]
        return reshaped(node, b, b.like(node, earlier))


def _moves(x: oir.Value) -> bool:
    """Whether x is a Reshape that can sink past its readers.

    A reshaped constant adapts to the other operands instead.
    """
    source = source_of(x, *RESHAPES)
    if source is None or source.const_value is not None or x.is_graph_output():
        return False
    readers = set(x.consumers())
    if len(readers) == 1:
        return True
    # Values computed from indices are often read both as they are and reshaped.
    is_data = dtype_of(x) in FLOATS
    return (
        is_data
        and _only_units(shape_of(source), shape_of(x))
        and all(reader.op_type in _LETS_UNITS_PASS for reader in readers)
    )


def _only_units(x: Shape, y: Shape) -> bool:
    """Whether the shapes differ only in axes of extent 1."""
    return [dim for dim in x if dim != 1] == [dim for dim in y if dim != 1]


def _source(view: oir.Value) -> oir.Value:
    source = source_of(view, *RESHAPES)
    assert source is not None
    return source


def _before(x: oir.Value, before: Shape, target: Shape, b: Rewriter) -> oir.Value:
    """The form of x for operands before a Reshape from `before` to `target`."""
    if _moves(x) and shape_of(x) == target and shape_of(_source(x)) == before:
        return _source(x)
    leading = len(target) - len(before)
    if leading >= 0 and target[leading:] == before and set(target[:leading]) <= {1}:
        need(rank_of(x) <= len(before) or set(target) <= {1}, "another operand has more axes", x)
        return x
    if all(dim == 1 for dim in shape_of(x)):
        need(rank_of(x) <= min(len(before), len(target)), "another operand has more axes", x)
        return x
    adapts = x.const_value is not None or (_moves(x) and _only_units(before, target))
    need(adapts, "another operand is computed and has another shape", x)
    dims = _earlier_shape(x, before, target)
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", x)
    return b.reshape(x, dims)


def _earlier_shape(x: oir.Value, before: Shape, target: Shape) -> Shape:
    """The shape in which x broadcasts to `before` as it now does to `target`."""
    need(rank_of(x) <= len(target), "another operand has more axes", x)
    shape = (1,) * (len(target) - rank_of(x)) + shape_of(x)
    front = _common(before, target)
    back = _common(before[front:][::-1], target[front:][::-1])
    made = slice(front, len(target) - back)
    old = before[front : len(before) - back]
    if set(shape[made]) <= {1}:
        middle: Shape = (1,) * len(old)
    else:
        whole = shape[made] == target[made] and product(shape[made]) == product(old)
        need(whole, "another operand broadcasts over part of the axes", x)
        middle = old
    return (*shape[:front], *middle, *shape[len(target) - back :])


def _common(x: Sequence[object], y: Sequence[object]) -> int:
    """The length of the common prefix of two sequences."""
    pairs = enumerate(zip(x, y, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(x), len(y)))


class FoldSplat(Rule):
    """Reshape(Expand(x)) -> Expand(x), likewise for Gather, Slice, Transpose; x is one element

    Legal as every element of the result is that element.
    """

    name = "fold-splat"
    formerly = ("move-one-element",)
    anchors = RESHAPES | {"Gather", "Slice", "Transpose"}
    sources = frozenset({"Expand"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = source_of(first(node), "Expand")
        need(x is not None and all(dim == 1 for dim in shape_of(x)), "it moves several elements")
        assert x is not None
        dims = needed(static_shape(node.outputs[0]), "its shape is dynamic", node)
        return b.expand(b.reshape(x, (1,) * len(dims)), dims)


class UnitTransposeToReshape(Rule):
    """Transpose(x) that moves only axes of extent 1 -> Reshape(x), or Unsqueeze(Squeeze(x))

    Legal as the elements keep their order in memory. A Reshape is free at run time and composes
    with its neighbours. Symbolic extents may take two.
    """

    name = "unit-transpose-to-reshape"
    anchors = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        perm = node.attributes["perm"].as_ints()
        need(moves_units_only(shape_of(x), perm), "it moves an axis with elements", node)
        return with_moved_units(x, perm, b)


def moves_units_only(dims: Shape, perm: Sequence[int]) -> bool:
    """Whether a permutation of axes with these extents keeps the order of the elements."""
    moved = [axis for axis in perm if dims[axis] != 1]
    return moved == sorted(moved)


def with_moved_units(x: oir.Value, perm: Sequence[int], b: Rewriter) -> oir.Value:
    """Transpose(x, perm) without a Transpose, if only axes of extent 1 move."""
    before = shape_of(x)
    after = tuple(before[axis] for axis in perm)
    if b.reshapes_at_once(x, after):
        return b.reshape(x, after)
    units = ([axis for axis, dim in enumerate(dims) if dim == 1] for dims in (before, after))
    removed, added = units
    return b.unsqueeze(b.squeeze(x, removed), added)


def adds_leading_axes_only(x: Shape, y: Shape) -> bool:
    """Whether y is x with leading axes of extent 1."""
    extra = len(y) - len(x)
    return extra >= 0 and y[extra:] == x and all(dim == 1 for dim in y[:extra])

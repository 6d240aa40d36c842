"""The pattern of attention: Softmax(scale * q @ k^T + mask) @ v, with moves of axes between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_known
from hlo2onnx.ir.values import const_number, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, need, needed
from hlo2onnx.raising.match.axis_layouts import Layout, layout_of, moved, parts_of
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)

_NOWHERE = -(2.0**96)
"""A score that stays the same when other scores are added: these are below 2^70."""

_LOW = 1024
"""The exponential of minus this number is 0."""

_MOVES = ("Transpose", *RESHAPES)


@dataclass(frozen=True)
class Scores:
    """The operand of the Softmax, a product of q and kt that is scaled, masked and moved.

    Attributes:
        q: (..., rows, features)
        kt: (..., features, keys)
        layout: Which axes of the scores, as the mask or the Softmax reads them, the axes of the
            product are.
        scale: Factor of the product.
        cap: Bound c of scores that are c * Tanh(scale * product / c); None for others.
        mask: Where keys count, or an addend of the scores; None for none.
        fill: The score where they do not; None for an addend.
        places: The axis of the mask for each axis of the scores.
        rank: Count of axes of the mask, aligned to the scores that it masks.
    """

    q: oir.Value
    kt: oir.Value
    layout: Layout
    scale: float
    cap: float | None
    mask: oir.Value | None
    fill: float | None
    places: Mapping[int, int]
    rank: int


@dataclass(frozen=True)
class Weights:
    """The product of weights and values.

    Attributes:
        softmax: It makes the weights.
        precision: Its type, if that is another one than the weights'.
        v: (..., keys, features), or with the last two axes swapped.
        is_transposed: Whether it is v^T @ weights^T.
        layout: Which axes of the scores the axes (..., rows, keys) of the weights are. The axes of
            the scores are those of the Softmax, or what a Reshape after it joins anew.
        scores: The same for the Softmax.
        shown: Where weights are kept, others being 0; None for all.
    """

    softmax: oir.Node
    precision: oir.DataType | None
    v: oir.Value
    is_transposed: bool
    layout: Layout
    scores: Layout
    shown: oir.Value | None


def attention_weights(node: oir.Node) -> Weights:
    """The product of weights and values that a MatMul is.

    Raises:
        Refusal: It is something else.
    """
    x, y = operands(node)
    for weights, v, is_transposed in ((x, y, False), (y, x, True)):
        path = [weights]
        while (source := source_of(path[-1], "Cast", *_MOVES)) is not None:
            path.append(source)
        where, shown = maker_of(path[-1], "Where"), None
        if where is not None and const_number(where.inputs[2]) == 0:
            shown, kept, _ = operands(where)
            path += [kept] if shape_of(kept) == shape_of(path[-1]) else []
        softmax = maker_of(path[-1], "Softmax")
        if softmax is None:
            continue
        need(all(map(is_private, path)), "the weights have other readers", softmax)
        need(all(is_known(shape_of(x)) for x in path), "its extents are not known", softmax)
        rank = rank_of(path[-1])
        is_last = softmax.attributes.get_int("axis", -1) % rank == rank - 1
        need(is_last, "its axis is not the last", softmax)
        makers = [maker for value in path[-2::-1] if (maker := value.producer()) is not None]
        layout, scores = _followed(path[-1], [m for m in makers if m.op_type in _MOVES])
        if is_transposed:
            rank = len(layout.groups)
            layout = layout.transposed([*range(rank - 2), rank - 1, rank - 2])
        precision = dtype_of(path[-1]) if any(m.op_type == "Cast" for m in makers) else None
        return Weights(softmax, precision, v, is_transposed, layout, scores, shown)
    raise Refusal("no Softmax makes the weights", node)


def _followed(softmax: oir.Value, moves: Sequence[oir.Node]) -> tuple[Layout, Layout]:
    """Where the axes of the scores are after the moves, and in the Softmax."""
    layout = scores = layout_of(softmax)
    for move in moves:
        after = moved(layout, move)
        if after is None and move is moves[0] and move.op_type != "Transpose":
            shapes = shape_of(softmax), shape_of(move.outputs[0])
            parts = needed(parts_of(*shapes), "it splits and joins axes", move)
            before, after = (parts.reshaped(shape) for shape in shapes)
            scores, after = needed(before, "it splits", move), needed(after, "it splits", move)
            need(scores.groups[-1:] == after.groups[-1:], "it splits the keys", move)
        layout = needed(after, "it splits other axes", move)
    return layout, scores


def attention_scores(weights: Weights) -> Scores:
    """The operand of the Softmax, apart from a cast to its type.

    Raises:
        Refusal: It is no product of queries and keys.
    """
    logits = first(weights.softmax)
    if weights.precision is not None:
        logits = needed(source_of(logits, "Cast"), "the scores have another type", weights.softmax)
    logits, layout = _unmoved(logits, weights.scores)
    scores, mask, fill = _unmasked(logits)
    rank = rank_of(logits)
    dims = (1,) * (rank - rank_of(scores)) + shape_of(scores)
    need(dims == shape_of(logits), "the mask broadcasts the scores", logits)
    places = {group[0]: place for place, group in enumerate(layout.groups) if len(group) == 1}
    extents = () if mask is None else (1,) * (rank - rank_of(mask)) + shape_of(mask)
    is_apart = all(len(g) <= 1 or dim == 1 for g, dim in zip(layout.groups, extents, strict=False))
    need(is_apart, "the mask joins axes of the scores", logits)
    layout = replace(layout, groups=layout.groups[rank - rank_of(scores) :])
    scale, cap = 1.0, None
    while True:
        scores, layout = _unmoved(scores, layout)
        node = maker_of(scores, "Mul", "Div", "Tanh")
        if node is None or (node.op_type == "Tanh" and cap is not None):
            break
        need(is_private(scores), "the scores have other readers", scores)
        if node.op_type == "Tanh":
            scores, scale, cap = first(node), 1.0, scale
        else:
            scores, factor = _unscaled(node)
            scale *= factor
    scale *= cap or 1.0
    need(cap is None or 2.0**-64 < cap < 2.0**64, "the cap is not positive", scores)
    if fill is not None:
        is_low = fill <= _NOWHERE or (cap is not None and fill < -cap - _LOW)
        need(is_low, "the score of masked keys is not low enough", logits)
        fill = fill if weights.shown is None else -np.inf
    where = maker_of(first(weights.softmax), "Where")
    is_same = where is not None and first(where) is weights.shown
    need(weights.shown is None or is_same, "another mask hides weights", weights.softmax)
    found = needed(maker_of(scores, "MatMul"), "the scores are not a product", scores)
    need(is_private(scores), "the scores have other readers", scores)
    need(0 < scale <= 1, "the scale is not in (0, 1]", found)
    q, kt = operands(found)
    return Scores(q, kt, layout, scale, cap, mask, fill, places, rank)


def _unmoved(scores: oir.Value, layout: Layout) -> tuple[oir.Value, Layout]:
    """The scores before Transposes and Reshapes, and where the axes of the layout are there."""
    while (node := maker_of(scores, *_MOVES)) is not None:
        need(is_private(scores), "the scores have other readers", scores)
        scores = first(node)
        if node.op_type == "Transpose":
            perm = node.attributes["perm"].as_ints()
            layout = layout.transposed([perm.index(axis) for axis in range(len(perm))])
        else:
            before = layout.reshaped(shape_of(scores))
            layout = needed(before, "the scores have other axes", scores)
    return scores, layout


def _unmasked(logits: oir.Value) -> tuple[oir.Value, oir.Value | None, float | None]:
    """The scores without the mask, the mask and its fill."""
    node = maker_of(logits, "Add", "Where")
    if node is None:
        return logits, None, None
    need(is_private(logits), "the scores have other readers", logits)
    if node.op_type == "Where":
        mask, scores, fill = operands(node)
        number = needed(const_number(fill), "the score of masked keys is not constant", node)
        return scores, mask, number
    for scores, addend in both_orders(node):
        if _is_product(scores):
            return scores, addend, None
    raise Refusal("it is not a sum of scores and a mask", node)


def _is_product(scores: oir.Value) -> bool:
    """Whether the scores are a product of matrices, perhaps scaled and moved."""
    value: oir.Value | None = scores
    while (node := maker_of(value, "Mul", "Div", *_MOVES)) is not None:
        value = first(node)
        if node.op_type == "Mul" and const_of(value) is not None:
            value = node.inputs[1]
    return maker_of(value, "MatMul") is not None


def _unscaled(node: oir.Node) -> tuple[oir.Value, float]:
    """x and the factor c of x * c or x / (1 / c)."""
    if node.op_type == "Div":
        number = const_number(node.inputs[1])
        need(number, "its divisor is not a constant number", node)
        assert number is not None
        return first(node), 1 / number
    for x, factor in both_orders(node):
        if (number := const_number(factor)) is not None and rank_of(factor) <= rank_of(x):
            return x, number
    raise Refusal("no factor is a constant number", node)

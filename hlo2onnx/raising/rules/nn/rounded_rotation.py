"""Rotary position embeddings with a rounding after each product."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.roundings import HALF_TYPES
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import both_orders, is_private, maker_of, operands, source_of

_Product = tuple[oir.Node, oir.DataType]
"""A Mul, and the half type to which its result is rounded."""


class RoundedRotation(Rule):
    """Concat(R(a * c) - R(b * s), R(b * c) + R(a * s)) -> R(x * [c, c]) + R([b, a] * [-s, s])

    a and b are the halves of x, c and s the cosines and sines of a rotary embedding. R rounds to a
    half type: two Casts. Difference and sum are rounded too, or neither is. Legal as rounding is
    symmetric: R(-y) is -R(y), and y - z is y + -z. Two products are rounded instead of four.
    `rotary-embedding` would not round them.
    """

    name = "rounded-rotation"
    anchors = frozenset({"Concat"})
    sources = frozenset({"Cast", "Sub"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        rank = rank_of(node.outputs[0])
        is_last = node.attributes["axis"].as_int() % rank == rank - 1
        need(is_last and len(node.inputs) == 2, "it does not join two halves", node)
        real, imaginary = operands(node)
        (real, dtype), (imaginary, same) = map(_unrounded, (real, imaginary))
        need(dtype == same, "the halves are rounded to different types", node)
        difference = needed(maker_of(real, "Sub"), "its first half is no difference", real)
        total = needed(maker_of(imaginary, "Add"), "its second half is no sum", imaginary)
        left, right = map(_rounded_product, operands(difference))
        split = _halved(left[0], rank)
        one, other = split.outputs
        cos, sin = _factor(left[0], one), _factor(right[0], other)
        for swapped in both_orders(total):
            third, fourth = map(_rounded_product, swapped)
            if other not in third[0].inputs or one not in fourth[0].inputs:
                continue
            alike = _factor(third[0], other) is cos and _factor(fourth[0], one) is sin
            need(alike, "it rotates by several angles", total)
            types = {left[1], right[1], third[1], fourth[1], dtype or left[1]}
            need(len(types) == 1, "roundings differ", node)
            result = self._whole(b, split, cos, sin, left[1])
            return result if dtype is None else _rounded(b, result, dtype)
        raise Refusal("the sum has other factors", total)

    def _whole(
        self, b: Rewriter, split: oir.Node, cos: oir.Value, sin: oir.Value, dtype: oir.DataType
    ) -> oir.Value:
        """The rotated features of x, not yet rounded."""
        x = split.inputs[0]
        assert x is not None
        one, other = split.outputs
        turned = b.concat([other, one], rank_of(x) - 1)
        both = b.concat([cos, cos], rank_of(cos) - 1)
        signed = b.concat([b.Neg(sin), sin], rank_of(sin) - 1)
        terms = (b.Mul(x, both), b.Mul(turned, signed))
        made: oir.Value = b.Add(*(_rounded(b, term, dtype) for term in terms))
        return made


def _rounded(b: Rewriter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    return b.cast(b.cast(x, dtype), dtype_of(x))


def _unrounded(value: oir.Value) -> tuple[oir.Value, oir.DataType | None]:
    """What is rounded to a value, for one reader, and the half type; the value and None if it is
    not rounded."""
    narrow = source_of(value, "Cast")
    x = source_of(narrow, "Cast")
    if narrow is None or x is None or dtype_of(narrow) not in HALF_TYPES:
        return value, None
    private = all(map(is_private, (value, narrow, x))) and dtype_of(x) == dtype_of(value)
    return (x, dtype_of(narrow)) if private else (value, None)


def _rounded_product(value: oir.Value) -> _Product:
    """The product that is rounded to a value, for one reader.

    Raises:
        Refusal: It is something else.
    """
    product, dtype = _unrounded(value)
    need(dtype is not None, "it is not rounded for one reader", value)
    assert dtype is not None
    return needed(maker_of(product, "Mul"), "it is no product", product), dtype


def _halved(product: oir.Node, rank: int) -> oir.Node:
    """The Split of a tensor into two halves of its features, the first of which is a factor.

    Raises:
        Refusal: There is none.
    """
    for x in operands(product):
        split = maker_of(x, "Split")
        if split is None or len(split.outputs) != 2 or split.outputs[0] is not x:
            continue
        is_last = split.attributes.get_int("axis", 0) % rank_of(x) == rank_of(x) - 1
        one, other = map(shape_of, split.outputs)
        if is_last and one == other and rank_of(x) == rank:
            return split
    raise Refusal("no factor is the first half of a tensor", product)


def _factor(product: oir.Node, x: oir.Value) -> oir.Value:
    """The factor beside x: one number for each feature, or for all others too.

    Raises:
        Refusal: x is no factor, or the other one has another shape.
    """
    values = operands(product)
    need(x in values, "it is the product of other values", product)
    factor = values[1 - values.index(x)]
    fits = shape_of(factor)[-1:] == shape_of(x)[-1:] and rank_of(factor) <= rank_of(x)
    fits = fits and shape_of(product.outputs[0]) == shape_of(x)
    need(fits, "the factor has another shape", factor)
    return factor

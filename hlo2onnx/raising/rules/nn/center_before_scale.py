"""Scaled differences from the mean, of which the mean is in the bias."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    maker_of,
    operands,
    source_of,
    unshaped,
)
from hlo2onnx.raising.patterns import Bindings, Either, Name, Op, Product, Sum, match

_LEFT, _RIGHT, _BIAS = Name("left"), Name("right"), Name("bias")
PRODUCT = Product(_LEFT, _RIGHT)
ADDED = Either(Sum(PRODUCT, _BIAS), Op("Sub", _BIAS, PRODUCT), PRODUCT)
"""A product of `left` and `right`, perhaps with a `bias`: added to it, or minus the product."""


class CenterBeforeScale(Rule):
    """x * f + (b - mean(x) * f) -> (x - mean(x)) * f + b

    Keras writes normalizations like this. The result is more exact by the digits that x and its
    mean share. Where f is infinite or a product overflows, the program gives NaN, and the result
    may be a number or an infinity. Reshapes may stand between the mean, or the second f, and the
    sum.
    """

    name = "center-before-scale"
    formerly = ("centre-first",)
    anchors = frozenset({"Add", "Sub"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It adds a sum or a product to a product."""
        others = sources - {"Mul"}
        terms = RESHAPES | {"Add", "Sub"}
        return "Mul" in sources and (not others or not others.isdisjoint(terms))

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        is_sum = node.op_type == "Add"
        for scaled, shift in both_orders(node)[: 1 + is_sum]:
            inner = unshaped(shift)
            if not _share_a_factor(scaled, inner):
                continue
            first_ = match(PRODUCT, scaled)
            second = None if first_ is None else match(ADDED if is_sum else PRODUCT, inner)
            if first_ is None or second is None:
                continue
            negative = is_sum and source_of(inner, "Sub") is None
            for x, factor in _both_orders(first_):
                for mean, same in _both_orders(second):
                    if unshaped(same) is not unshaped(factor):
                        continue
                    if shape_of(x) != shape_of(node.outputs[0]):
                        continue
                    mean = _beside(_sign(mean, negative, b), same, x, factor)
                    _need_in_place(inner, shift, same, factor)
                    normal = b.Mul(b.Sub(x, mean), factor)
                    bias = second.get("bias")
                    return normal if bias is None else b.Add(normal, _moved(bias, inner, shift, b))
        raise Refusal("it is not a scaled difference", node)


def _share_a_factor(scaled: oir.Value, inner: oir.Value) -> bool:
    """Whether a product has a factor, perhaps reshaped, of another product or of one in a sum."""
    product = maker_of(scaled, "Mul")
    term = maker_of(inner, "Add", "Mul", "Sub")
    if product is None or term is None:
        return False
    factors = {unshaped(x) for x in operands(product)}
    products = [term] if term.op_type == "Mul" else [maker_of(x, "Mul") for x in term.inputs]
    return any(
        unshaped(x) in factors for other in products if other is not None for x in operands(other)
    )


def _moved(bias: oir.Value, inner: oir.Value, shift: oir.Value, b: Rewriter) -> oir.Value:
    """A bias inside a reshaped sum, as it is added to the reshaped sum.

    Raises:
        Refusal: It broadcasts along other axes than the first.
    """
    if inner is shift:
        return bias
    dims, new = shape_of(inner), shape_of(shift)
    if shape_of(bias) == dims:
        return b.reshape(bias, new)
    alike = shape_of(bias) == (1, *dims[1:]) and dims[:1] == new[:1]
    need(alike, "the bias is broadcast", bias)
    return b.reshape(bias, (1, *new[1:]))


def _both_orders(product: Bindings) -> tuple[tuple[oir.Value, oir.Value], ...]:
    left, right = product["left"], product["right"]
    return (left, right), (right, left)


def _sign(value: oir.Value, negative: bool, b: Rewriter) -> oir.Value:
    """The value, or the operand of its Neg.

    Raises:
        Refusal: A Neg is needed, and there is none.
    """
    if not negative:
        return value
    positive = needed(source_of(unshaped(value), "Neg"), "it is not subtracted", value)
    return b.reshape(positive, shape_of(value))


def _beside(mean: oir.Value, beside: oir.Value, x: oir.Value, factor: oir.Value) -> oir.Value:
    """The mean of x in a form that broadcasts to `factor`, from a mean that broadcasts to another
    view of it.

    Raises:
        Refusal: The value is not such a mean, or may not broadcast alike.
    """
    averaged = needed(maker_of(_data(mean), "ReduceMean"), "it is no mean", mean)
    need(_data(first(averaged)) is _data(x), "it is the mean of another value", mean)
    if beside is factor:
        return mean
    kept = averaged.outputs[0]
    need(unshaped(mean) is kept and first(averaged) is x, "it is the mean of another view", mean)
    need(
        _repeats(kept, factor) and _repeats(mean, beside),
        "the mean broadcasts to other elements",
        mean,
    )
    return kept


def _need_in_place(
    inner: oir.Value, shift: oir.Value, beside: oir.Value, factor: oir.Value
) -> None:
    """Refuses a reshaped product, or its sum with a bias, that meets other elements than those of
    the factor."""
    if inner is shift and beside is factor:
        return
    rank = max(rank_of(shift), rank_of(factor))
    dims, own = ((1,) * (rank - rank_of(x)) + shape_of(x) for x in (shift, factor))
    same = dims == own and shape_of(inner) == shape_of(beside)
    need(same, "the product meets other elements", shift)


def _repeats(x: oir.Value, y: oir.Value) -> bool:
    """Whether x broadcasts to y such that each element of x meets consecutive elements of y."""
    dims = shape_of(y)
    if rank_of(x) > len(dims):
        return False
    mine = (1,) * (len(dims) - rank_of(x)) + shape_of(x)
    end = next((n for n, dim in enumerate(mine) if dim != dims[n]), len(dims))
    return set(mine[end:]) <= {1}


def _data(value: oir.Value) -> oir.Value:
    """The value before all its Reshapes and Transposes."""
    while (source := source_of(value, *RESHAPES, "Transpose")) is not None:
        value = source
    return value

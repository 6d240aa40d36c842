"""Normalizations of channels by given statistics."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import dtype_of, is_constant, rank_of, shape_of
from hlo2onnx.ir.weight_scaling import is_rounded
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    extent_of,
    first,
    maker_of,
    source_of,
    unshaped,
)
from hlo2onnx.raising.patterns import (
    As,
    Bindings,
    Either,
    Name,
    Op,
    Product,
    Sum,
    all_matches,
    match,
)
from hlo2onnx.raising.rules.nn.layer_normalization import (
    SINGLE_PRECISION,
    Unshaped,
    epsilon_of,
    inverse_root,
)

_X, _MEAN, _BIAS = Name("x"), Name("mean"), Name("bias")
_FACTOR = As("factor", Unshaped(Name("f")))
_SAME = As("same", Unshaped(Name("f")))
_SCALED = Product(_X, _FACTOR)
_PLUS = Product(_MEAN, _SAME)
_MINUS = Product(As("negative", Unshaped(Op("Neg", _MEAN))), _SAME)
_SHIFT = Either(Sum(_MINUS, _BIAS), _MINUS, Op("Sub", _BIAS, _PLUS))
_EXPANDED = Sum(_SCALED, As("shift", Unshaped(As("inner", _SHIFT))))
"""x * f + (bias - mean * f); Reshapes may stand between the mean, or the second f, and the sum."""
_DIFFERENCE = Op("Sub", _SCALED, As("shift", Unshaped(As("inner", _PLUS))))


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
        output = node.outputs[0]
        for found in all_matches(_EXPANDED if node.op_type == "Add" else _DIFFERENCE, output):
            x, factor = found["x"], found["factor"]
            if shape_of(x) != shape_of(output):
                continue
            mean = found["mean"]
            if "negative" in found:
                mean = b.reshape(mean, shape_of(found["negative"]))
            mean = _beside(mean, found["same"], x, factor)
            _need_in_place(found)
            normal = b.Mul(b.Sub(x, mean), factor)
            return b.Add(normal, _moved(found, b)) if "bias" in found else normal
        raise Refusal("it is not a scaled difference", node)


def _moved(found: Bindings, b: Rewriter) -> oir.Value:
    """The bias inside a reshaped sum, as it is added to the reshaped sum.

    Raises:
        Refusal: It broadcasts along other axes than the first.
    """
    bias, inner, shift = found["bias"], found["inner"], found["shift"]
    if inner is shift:
        return bias
    dims, new = shape_of(inner), shape_of(shift)
    if shape_of(bias) == dims:
        return b.reshape(bias, new)
    alike = shape_of(bias) == (1, *dims[1:]) and dims[:1] == new[:1]
    need(alike, "the bias is broadcast", bias)
    return b.reshape(bias, (1, *new[1:]))


def _beside(mean: oir.Value, beside: oir.Value, x: oir.Value, factor: oir.Value) -> oir.Value:
    """The mean of x in a form that broadcasts to `factor`, from a mean that broadcasts to another
    view of it.

    Raises:
        Refusal: The value is not such a mean, or may not broadcast alike.
    """
    averaged = needed(maker_of(_data(mean), "ReduceMean"), "it is not a mean", mean)
    need(_data(first(averaged)) is _data(x), "it is the mean of another value", mean)
    if beside is factor:
        return mean
    kept = averaged.outputs[0]
    need(unshaped(mean) is kept and first(averaged) is x, "it is the mean of another view", mean)
    need(
        _repeats(kept, factor) and _repeats(mean, beside),
        "the mean broadcasts in another way",
        mean,
    )
    return kept


def _need_in_place(found: Bindings) -> None:
    """Refuses a reshaped product, or its sum with a bias, that meets other elements than those of
    the factor."""
    inner, shift, beside, factor = (found[name] for name in ("inner", "shift", "same", "factor"))
    if inner is shift and beside is factor:
        return
    rank = max(rank_of(shift), rank_of(factor))
    dims, own = ((1,) * (rank - rank_of(x)) + shape_of(x) for x in (shift, factor))
    same = dims == own and shape_of(inner) == shape_of(beside)
    need(same, "the product broadcasts in another way", shift)


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


_DEVIATION = inverse_root(Name("variance"))
_SCALE_OF_ROOT = Either(_DEVIATION, Product(_DEVIATION, Name("scale")))
_CENTERED = Sum(Product(Op("Sub", _X, _MEAN), Name("factor")), Name("shift"))


class BatchNormalization(Rule):
    """(x - m) * (s / sqrt(v + e)) + b -> BatchNormalization(x, s, b, m, v, epsilon=e)

    Also for x * f + (b - m * f) with f = s / sqrt(v + e), as Keras writes it, and without s or b.
    Legal for m, v, s, b with one number for each channel. Constant ones are folded into a
    convolution instead. The kernel computes x * s' + (b - m * s'), which loses the digits that x
    and m share: legal if the program computes the same, or if x is a sum that has lost as many and
    e is positive, so that s' is finite. A mean of x itself is left to center-before-scale.
    """

    name = "batch-normalization"
    anchors = frozenset({"Add"})
    sources = frozenset({"Mul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """There is a kernel for its type."""
        return dtype in SINGLE_PRECISION and super().fits(op_type, sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        output = node.outputs[0]
        need(dtype_of(output) in SINGLE_PRECISION and rank_of(output) > 2, "no kernel", node)
        found, mean, bias = _form(node)
        x = found["x"]
        factor = unshaped(_of_channels(found["factor"], x))
        root = needed(match(_SCALE_OF_ROOT, factor), "the factor contains no inverse root", factor)
        scale, variance, epsilon = root.get("scale"), root["variance"], epsilon_of(root)
        is_centered = "inner" not in found
        need(epsilon > 0 or not is_centered, "x / 0 - m / 0 may be NaN for (x - m) / 0", node)
        given = (scale, bias, mean, variance)
        constant = all(value is None or value.const_value is not None for value in given)
        need(not constant, "its parameters are constant", node)
        channels = needed(extent_of(x, 1), "the number of channels is not known", x)
        ones = np.ones(channels, dtype_of(x).numpy())
        vectors = (
            b.const(ones) if scale is None else _vector(scale, x, b),
            b.const(0 * ones) if bias is None else _vector(bias, x, b),
            _vector(mean, x, b),
            _vector(variance, x, b),
        )
        return b.BatchNormalization(x, *vectors, epsilon=epsilon)


def _form(node: oir.Node) -> tuple[Bindings, oir.Value, oir.Value | None]:
    """The match of a centered, scaled and shifted value, its mean and its bias.

    Raises:
        Refusal: The sum has another form, or the kernel would lose digits.
    """
    output = node.outputs[0]
    for found in _CENTERED.matches(output, {}):
        x, mean, shift = found["x"], found["mean"], found["shift"]
        if shape_of(x) != shape_of(output):
            continue  # a parameter decides the shape
        need(is_rounded(x), "the kernel would lose digits of x", x)
        is_instance = shape_of(x)[0] == 1 and maker_of(unshaped(mean), "ReduceMean")
        need(not is_instance, "group-normalization handles a single image", mean)
        return found, unshaped(_of_channels(mean, x)), unshaped(_of_channels(shift, x))
    for found in _EXPANDED.matches(output, {}):
        if shape_of(found["x"]) != shape_of(output):
            continue
        mean = unshaped(found["mean"])
        need(maker_of(mean, "ReduceMean") is None, "center-before-scale is more exact", mean)
        _of_channels(found["shift"], found["x"])
        return found, mean, found.get("bias")
    raise Refusal("no centered value is scaled and shifted", node)


def numbers_of_channels(value: oir.Value, like: oir.Value, b: Rewriter) -> oir.Value:
    """The vector with one number for each channel of `like`, its second axis, that broadcasts as
    this constant or reshaped vector.

    Raises:
        Refusal: The value is something else.
    """
    vector = unshaped(value)
    need(is_constant(value) or vector is not value, "it is not a reshaped vector", value)
    _of_channels(value, like)
    return _vector(vector, like, b)


def _of_channels(value: oir.Value, like: oir.Value) -> oir.Value:
    """The value, which broadcasts to the channels of `like` and to no other axis.

    Raises:
        Refusal: It has another shape.
    """
    shape = (1, shape_of(like)[1], *(1,) * (rank_of(like) - 2))
    whole = (1,) * (len(shape) - rank_of(value)) + shape_of(value)
    need(whole == shape, "it does not hold one number for each channel", value)
    return value


def _vector(value: oir.Value, like: oir.Value, b: Rewriter) -> oir.Value:
    """A value with as many numbers as `like` has channels, as a vector.

    Raises:
        Refusal: It has more or fewer.
    """
    channels = shape_of(like)[1]
    need(product(shape_of(value)) == channels, "not one number for each channel", value)
    return b.reshape(value, (channels,))

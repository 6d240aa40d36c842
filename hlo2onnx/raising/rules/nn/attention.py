"""Scaled dot product attention: Softmax(scale * q @ k^T + mask) @ v."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import (
    FLOATS,
    Dim,
    const_number,
    const_of,
    dtype_of,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)

OPSET = 23
"""The first opset with the operator."""

_NOWHERE = -(2.0**96)
"""A score that stays the same when other scores are added: these are below 2^70."""
_ROUNDING = 2.0**-20
"""Largest relative error of a product of two constants."""

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class _Scores:
    """The operand of the Softmax.

    Attributes:
        q: (..., queries, features)
        kt: (..., features, keys)
        dims: Extents before the Softmax. Heads may be in groups there: (..., groups, queries, keys)
            for a product over (..., groups * queries, keys).
        scale: Factor of the product.
        softcap: c of c * tanh(scores / c); 0 for none.
        mask: Where keys count, or an addend of the scores; None for none.
        fill: The score where they do not; None for an addend.
    """

    q: oir.Value
    kt: oir.Value
    dims: Dims
    scale: float
    softcap: float
    mask: oir.Value | None
    fill: float | None


class Attention(Rule):
    """MatMul(Softmax(scale * MatMul(q, Transpose(k)) + mask), v) -> Attention(q, k, v, mask)

    Also for Where(mask, scores, fill) if fill is -inf or below -2^96, for c * Tanh(scores / c)
    without a mask, and for groups of query heads that share keys. A constant lower triangle becomes
    `is_causal`. Legal for a scale in (0, 1], as the operator multiplies q and k by its root. NaN
    and infinity of a masked key stay in the result, and a row without any key becomes 0. Done where
    the target fuses the operator. ONNX Runtime on the CPU takes the same time without it, and
    OpenVINO less.
    """

    name = "attention"
    anchors = frozenset({"MatMul"})
    drops_nan = True
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(b.target.flags.fuses_attention, "the target does not fuse attention", node)
        dtype = dtype_of(node.outputs[0])
        is_known = dtype in FLOATS and b.opset >= OPSET and b.supports("Attention", dtype)
        need(is_known and b.supports("Attention.V", dtype), "no Attention for its type", node)
        weights = _weights(node)
        found = _scores(weights.softmax, weights.precision)
        need(dtype_of(found.q) == dtype, "the scores have another type", node)
        return _applied(b, found, weights)


# -- the pattern ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weights:
    """The product of weights and values.

    Attributes:
        softmax: It makes the weights.
        precision: Its type, if that is another one than the weights'.
        v: (..., keys, features), or with the last two axes swapped.
        is_transposed: Whether it is v^T @ weights^T.
        swaps: Whether the two axes of queries and groups change places between them.
    """

    softmax: oir.Node
    precision: oir.DataType | None
    v: oir.Value
    is_transposed: bool
    swaps: bool


def _weights(node: oir.Node) -> _Weights:
    x, y = operands(node)
    for weights, v, is_transposed in ((x, y, False), (y, x, True)):
        path = [weights]
        while (source := source_of(path[-1], "Cast", "Transpose", *RESHAPES)) is not None:
            path.append(source)
        softmax = maker_of(path[-1], "Softmax")
        if softmax is None:
            continue
        need(all(map(is_private, path)), "the weights have other readers", softmax)
        rank = rank_of(path[-1])
        is_last = softmax.attributes.get_int("axis", -1) % rank == rank - 1
        need(is_last, "its axis is not the last", softmax)
        dims = _without_units(shape_of(path[-1]))
        makers = [value.producer() for value in path[:-1]]
        turns = [m for m in makers if m is not None and m.op_type == "Transpose"]
        need(len(turns) == is_transposed, "other axes change places", node)
        swaps = is_transposed and _swaps(turns[0], rank_of(v) - 2, dims)
        wide = any(m is not None and m.op_type == "Cast" for m in makers)
        precision = dtype_of(path[-1]) if wide else None
        return _Weights(softmax, precision, v, is_transposed, swaps)
    raise Refusal("no Softmax makes the weights", node)


def _swaps(transpose: oir.Node, lead: int, dims: Dims) -> bool:
    """Whether (..., a, b, keys) becomes (..., keys, b, a), and not (..., keys, a, b)."""
    x, perm = first(transpose), transpose.attributes["perm"].as_ints()
    need(_without_units(shape_of(x)) == dims, "it splits other axes", transpose)
    head, rows = [*perm[: lead + 1]], [*perm[lead + 1 :]]
    need(head == [*range(lead), rank_of(x) - 1], "other axes change places", transpose)
    return len(rows) == 2 and rows[0] > rows[1]


def _without_units(dims: Dims) -> Dims:
    """The extents from the first on that is not 1."""
    start = next((axis for axis, extent in enumerate(dims) if extent != 1), len(dims))
    return dims[start:]


def _scores(softmax: oir.Node, precision: oir.DataType | None) -> _Scores:
    """The operand of the Softmax, apart from a cast to its type."""
    logits = first(softmax)
    if precision is not None:
        logits = needed(source_of(logits, "Cast"), "the scores have another type", softmax)
    scores, mask, fill = _unmasked(logits)
    dims = shape_of(scores)
    is_same = _without_units(dims) == _without_units(shape_of(logits))
    need(is_same, "the mask broadcasts the scores", logits)
    scores, softcap = _uncapped(scores)
    need(not softcap or mask is None, "runtimes differ in the order of softcap and mask", logits)
    scale = 1.0
    while (node := maker_of(scores, "Mul", "Div", *RESHAPES)) is not None:
        need(is_private(scores), "the scores have other readers", scores)
        scores, factor = (first(node), 1.0) if node.op_type in RESHAPES else _unscaled(node)
        scale *= factor
    found = needed(maker_of(scores, "MatMul"), "the scores are not a product", scores)
    need(is_private(scores), "the scores have other readers", scores)
    need(0 < scale <= 1, "the scale is not in (0, 1]", found)
    q, kt = operands(found)
    return _Scores(q, kt, dims, scale, softcap, mask, fill)


def _unmasked(logits: oir.Value) -> tuple[oir.Value, oir.Value | None, float | None]:
    """The scores without the mask, the mask and its fill."""
    node = maker_of(logits, "Add", "Where")
    if node is None:
        return logits, None, None
    need(is_private(logits), "the scores have other readers", logits)
    if node.op_type == "Where":
        mask, scores, fill = operands(node)
        number = needed(const_number(fill), "the score of masked keys is not constant", node)
        need(number <= _NOWHERE, "the score of masked keys is not low enough", node)
        return scores, mask, number
    for scores, addend in both_orders(node):
        if _is_product(scores):
            return scores, addend, None
    raise Refusal("it is not a sum of scores and a mask", node)


def _is_product(scores: oir.Value) -> bool:
    """Whether the scores are a product of matrices, perhaps scaled and reshaped."""
    value: oir.Value | None = scores
    while (node := maker_of(value, "Mul", "Div", *RESHAPES)) is not None:
        value = first(node)
        if node.op_type == "Mul" and const_of(value) is not None:
            value = node.inputs[1]
    return maker_of(value, "MatMul") is not None


def _uncapped(scores: oir.Value) -> tuple[oir.Value, float]:
    """x and c of c * Tanh(x / c); 0 where it is not that."""
    node = maker_of(scores, "Mul")
    if node is None:
        return scores, 0.0
    for tanh, cap in both_orders(node):
        inner, number = source_of(tanh, "Tanh"), const_number(cap)
        if inner is None or number is None or number <= 0:
            continue
        divided = needed(maker_of(inner, "Mul", "Div"), "nothing divides the scores", node)
        is_alone = all(map(is_private, (scores, tanh, inner)))
        need(is_alone, "the scores have other readers", node)
        x, factor = _unscaled(divided)
        need(abs(factor * number - 1) < _ROUNDING, "the scores are divided by another number", node)
        return x, number
    return scores, 0.0


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


# -- the operator -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The rows of the product with k: queries, and groups of heads that share keys.

    Attributes:
        lead: Extents of the axes before: batches, and heads of k.
        dims: (a, b), one of which is groups.
        groups_last: Whether b is.
        keys: Their number.
    """

    lead: Dims
    dims: tuple[Dim, Dim]
    groups_last: bool
    keys: Dim

    @property
    def batch(self) -> Dim:
        """The product of all axes before the heads."""
        return product(self.lead[:-1])

    @property
    def heads(self) -> Dim:
        """Those of k."""
        return self.lead[-1] if self.lead else 1

    @property
    def groups(self) -> Dim:
        """Heads of q for each head of k."""
        return self.dims[self.groups_last]

    @property
    def queries(self) -> Dim:
        """Their number."""
        return self.dims[not self.groups_last]


def _rows(found: _Scores) -> _Rows:
    lead, count = shape_of(found.q)[:-2], shape_of(found.q)[-2]
    need(shape_of(found.kt)[:-2] == lead, "q and k broadcast", found.q)
    own = found.dims
    if _without_units(own) == _without_units((*lead, count, own[-1])):
        return _Rows(lead, (1, count), False, own[-1])
    need(own[:-3] == lead and product(own[-3:-1]) == count, "the scores have other axes", found.q)
    mask = () if found.mask is None else shape_of(found.mask)
    groups_last = len(mask) > 1 and mask[-2] == 1 != own[-2]
    return _Rows(lead, (own[-3], own[-2]), groups_last, own[-1])


def _applied(b: Rewriter, found: _Scores, weights: _Weights) -> oir.Value:
    rows, v = _rows(found), weights.v
    lead, last = rows.lead, len(rows.lead)
    need(shape_of(v)[:-2] == lead, "the weights broadcast to the values", v)
    swap = [*range(last), last + 1, last]
    k, v = b.transpose(found.kt, swap), b.transpose(v, swap) if weights.is_transposed else v
    features = shape_of(v)[-1]
    q = _reshaped(b, found.q, (*lead, *rows.dims, shape_of(found.q)[-1]))
    if rows.groups_last:
        q = b.transpose(q, [*range(last), last + 1, last, last + 2])
    heads = product((rows.heads, rows.groups))
    q = _reshaped(b, q, (rows.batch, heads, rows.queries, shape_of(q)[-1]))
    k = _reshaped(b, k, (rows.batch, rows.heads, rows.keys, shape_of(k)[-1]))
    v = _reshaped(b, v, (rows.batch, rows.heads, rows.keys, features))
    is_causal, mask = _mask(b, found, rows)
    made = b.op(
        "Attention",
        *(q, k, v, *([] if mask is None else [mask])),
        types=[(dtype_of(v), (rows.batch, heads, rows.queries, features))],
        scale=found.scale,
        softcap=found.softcap or None,
        is_causal=1 if is_causal else None,
        softmax_precision=None if weights.precision is None else int(weights.precision),
    )
    made = _reshaped(b, made, (*lead, rows.groups, rows.queries, features))
    swaps = rows.groups_last != weights.swaps
    order = [last + 1, last] if swaps else [last, last + 1]
    order = [last + 2, *order] if weights.is_transposed else [*order, last + 2]
    made = b.transpose(made, [*range(last), *order])
    count = product(rows.dims)
    whole = (features, count) if weights.is_transposed else (count, features)
    return _reshaped(b, made, (*lead, *whole))


def _reshaped(b: Rewriter, x: oir.Value, dims: Dims) -> oir.Value:
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", x)
    return b.reshape(x, dims)


def _mask(b: Rewriter, found: _Scores, rows: _Rows) -> tuple[bool, oir.Value | None]:
    """Whether the operator masks later keys, and its mask."""
    if found.mask is None:
        return False, None
    value, fill = found.mask, found.fill
    dims, perm = _mask_axes(shape_of(value), rows)
    known = const_of(value)
    if fill is not None and known is not None and known.any(-1).all():
        if rows.queries == rows.keys and _is_lower_triangle(known.squeeze(), rows.keys):
            return True, None
    elif fill is not None and fill > -np.inf:
        # Sums with it are equal, so that rows without any key keep equal weights. Runtimes take the
        # lowest number itself for -inf.
        low = float(ml_dtypes.finfo(dtype_of(found.q).numpy()).min) / 2
        value = b.Where(value, b.scalar_like(0, found.q), b.scalar_like(low, found.q))
    if perm is not None:
        value = b.transpose(_reshaped(b, value, perm), [0, 2, 1, 3])
    value = _reshaped(b, value, dims)
    pair = (dtype_of(found.q), dtype_of(value))
    is_known = b.target.supports_pair("Attention.attn_mask", *pair, b.opset)
    need(is_known, "no Attention for the type of its mask", value)
    return False, b.expand(value, (*dims[:-2], rows.queries, rows.keys))


def _is_lower_triangle(mask: np.ndarray, size: Dim) -> bool:
    is_square = mask.shape == (size, size)
    return is_square and bool((mask == np.tril(np.ones(mask.shape, np.bool_))).all())


def _mask_axes(dims: Dims, rows: _Rows) -> tuple[Dims, Dims | None]:
    """Extents of the mask as (batch, heads, queries, keys), or the last two of them. If its axes of
    queries and groups must change places before, also those as (..., queries, groups, keys)."""
    is_grouped = rows.dims[0] != 1
    full = (*rows.lead, *rows.dims) if is_grouped else (*rows.lead, rows.dims[1])
    own = (1,) * (len(full) + 1 - len(dims)) + dims
    extra, own = own[: -len(full) - 1], own[-len(full) - 1 :]
    need(set(extra) <= {1}, "the mask has other axes")
    groups, queries = (own[-3], own[-2]) if is_grouped else (1, own[-2])
    if rows.groups_last:
        groups, queries = queries, groups
    lead = own[: len(rows.lead)]
    shared = (*lead[-1:], groups)
    if set(lead) | {groups} == {1}:
        return (queries, own[-1]), None
    whole = (rows.heads, rows.groups)
    need(
        set(lead[:-1]) <= {1} or lead[:-1] == rows.lead[:-1], "the mask differs along some batches"
    )
    need(set(shared) == {1} or shared == whole, "the mask differs along some of the heads")
    batch, heads = product(lead[:-1]), product(shared)
    turned = (product(lead), queries, groups, own[-1]) if rows.groups_last else None
    return (batch, heads, queries, own[-1]), turned

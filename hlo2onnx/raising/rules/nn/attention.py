"""Scaled dot product attention: Softmax(scale * q @ k^T + mask) @ v."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import FLOATS, Dim, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.attention import Scores, Weights, attention_scores, attention_weights
from hlo2onnx.raising.match.causal import causal_mask
from hlo2onnx.raising.match.views import operands

OPSET = 23
"""The first opset with the operator."""

LAST_KERNEL = 24
"""The last opset for which all runtimes with the operator have a kernel."""

Dims = tuple[Dim, ...]


class Attention(Rule):
    """MatMul(Softmax(scale * MatMul(q, Transpose(k)) + mask), v) -> Attention(q, k, v, mask)

    Also for Where(mask, scores, fill) if fill is -inf or below -2^96, for groups of query heads
    that share keys, and with moves of the axes between. A constant lower triangle becomes
    `is_causal`. Legal for a scale in (0, 1], as the operator multiplies q and k by its root. NaN
    and infinity of a masked key stay in the result, and a row without any key becomes 0. Done where
    the target fuses the operator: ONNX Runtime on the CPU takes 0.5 to 0.9 of the time. OpenVINO
    takes longer. Not for scores that Tanh caps: ONNX Runtime would cap them one by one, in 3 times
    the time for 128 queries and 1,024 keys.
    """

    name = "attention"
    anchors = frozenset({"MatMul"})
    drops_nan = True
    phase = 2
    caps = False

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(b.target.flags.fuses_attention, "the target does not fuse attention", node)
        is_expanded = b.target.flags.expands_attention and b.opset > LAST_KERNEL
        need(not is_expanded, "the runtime has no kernel of Attention for the opset", node)
        dtype = dtype_of(node.outputs[0])
        is_known = dtype in FLOATS and b.opset >= OPSET and b.supports("Attention", dtype)
        need(is_known and b.supports("Attention.V", dtype), "no Attention for its type", node)
        weights = attention_weights(node)
        found = attention_scores(weights)
        need(self.caps or found.cap is None, "the runtime caps scores one by one", node)
        # ONNX Runtime 1.23 gives NaN where a row has no key.
        need(self.caps or weights.shown is None, "a mask sets weights to 0, too", node)
        need(dtype_of(found.q) == dtype, "the scores have another type", node)
        ranks = [rank_of(x) for x in (found.q, found.kt, *operands(node))]
        need(min(ranks) > 1, "a factor is a vector", node)
        return _applied(b, found, weights)


class CappedAttention(Attention):
    """MatMul(Softmax(c * Tanh(scale / c * MatMul(q, Transpose(k))) + mask), v) ->
    Attention(q, k, v, mask) with a softcap

    Likewise without Tanh. Legal as Attention without a softcap. The mask may set weights to 0 after
    the Softmax, too, if it shows each query a key. Done for a mask that hides the keys that follow
    a query, where GroupQueryAttention is asked for, which caps scores as fast as any others.
    """

    name = "capped-attention"
    caps = True


@dataclass(frozen=True)
class _Rows:
    """The rows of the product with k: queries, and groups of heads that share keys.

    Attributes:
        lead: The axes before, as axes of the scores that the Softmax reads; None for a 1.
        extents: Their extents: batches, and heads of k.
        groups, queries: The axes in the rows; None for a 1.
        own: The axes in the rows of q, in order.
        final: The axes in the rows of the weights, in order.
        scores: Extents of the scores.
        keys: Number of keys.
    """

    lead: tuple[int | None, ...]
    extents: Dims
    groups: int | None
    queries: int | None
    own: tuple[int, ...]
    final: tuple[int, ...]
    scores: Dims
    keys: Dim

    def extent(self, axis: int | None) -> Dim:
        """Of an axis of the scores."""
        return 1 if axis is None else self.scores[axis]

    @property
    def batch(self) -> Dim:
        """The product of all axes before the heads."""
        return product(self.extents[:-1])

    @property
    def heads(self) -> Dim:
        """Those of k."""
        return self.extents[-1] if self.extents else 1


def _rows(found: Scores, weights: Weights) -> _Rows:
    scores = found.layout.extents
    *lead, own, keys = found.layout.groups
    *other_lead, final, other_keys = weights.layout.groups
    need(keys == other_keys and keys in ((), (len(scores) - 1,)), "the keys change places")
    need(lead == other_lead and set(own) == set(final), "other axes change places")
    need(all(len(group) <= 1 for group in lead) and len(own) <= 2, "the scores have other axes")
    extents, count = shape_of(found.q)[:-2], shape_of(found.q)[-2]
    need(shape_of(found.kt)[:-2] == extents, "q and k broadcast", found.q)
    need(shape_of(weights.v)[:-2] == extents, "the weights broadcast to the values", weights.v)
    need(product(scores[axis] for axis in own) == count, "the scores have other axes", found.q)
    queries: int | None
    groups: int | None
    groups, queries = (None, None, *sorted(own))[-2:]
    if found.mask is not None and len(own) == 2:
        extents_there = _mask_extents(found)
        if extents_there[queries] == 1 != extents_there[groups]:
            groups, queries = queries, groups
    axes = tuple(group[0] if group else None for group in lead)
    return _Rows(axes, extents, groups, queries, own, final, scores, shape_of(found.kt)[-1])


def _applied(b: Rewriter, found: Scores, weights: Weights) -> oir.Value:
    rows, v = _rows(found, weights), weights.v
    if found.cap is not None or weights.shown is not None:
        hidden = needed(found.mask, "queries see keys that follow them", found.q)
        causal = causal_mask(hidden, rows.extent(rows.queries), rows.keys)
        causal = needed(causal, "the mask may show keys that follow a query", hidden)
        need(causal.is_all or weights.shown is None, "a query may see no key", hidden)
    lead, last = rows.extents, len(rows.extents)
    swap = [*range(last), last + 1, last]
    k, v = b.transpose(found.kt, swap), b.transpose(v, swap) if weights.is_transposed else v
    features, groups, queries = shape_of(v)[-1], rows.extent(rows.groups), rows.extent(rows.queries)
    wanted = [axis for axis in (rows.groups, rows.queries) if axis is not None]
    q = _reordered(b, found.q, rows, rows.own, wanted)
    heads = product((rows.heads, groups))
    q = _reshaped(b, q, (rows.batch, heads, queries, shape_of(q)[-1]))
    k = _reshaped(b, k, (rows.batch, rows.heads, rows.keys, shape_of(k)[-1]))
    v = _reshaped(b, v, (rows.batch, rows.heads, rows.keys, features))
    is_causal, mask = _mask(b, found, rows)
    made = b.op(
        "Attention",
        *(q, k, v, *([] if mask is None else [mask])),
        types=[(dtype_of(v), (rows.batch, heads, queries, features))],
        scale=found.scale,
        softcap=found.cap,
        is_causal=1 if is_causal else None,
        softmax_precision=None if weights.precision is None else int(weights.precision),
    )
    made = _reordered(b, made, rows, wanted, rows.final, weights.is_transposed)
    count = product((groups, queries))
    return _reshaped(
        b, made, (*lead, *((features, count) if weights.is_transposed else (count, features)))
    )


def _reordered(
    b: Rewriter,
    x: oir.Value,
    rows: _Rows,
    old: Sequence[int],
    new: Sequence[int],
    features_first: bool = False,
) -> oir.Value:
    """x as (..., axes of rows, features), whose rows are in this order, in another one."""
    last, count = len(rows.extents), len(old)
    x = _reshaped(b, x, (*rows.extents, *map(rows.extent, old), shape_of(x)[-1]))
    order = [last + old.index(axis) for axis in new]
    order = [last + count, *order] if features_first else [*order, last + count]
    return b.transpose(x, [*range(last), *order])


def _reshaped(b: Rewriter, x: oir.Value, dims: Dims) -> oir.Value:
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", x)
    return b.reshape(x, dims)


def _mask(b: Rewriter, found: Scores, rows: _Rows) -> tuple[bool, oir.Value | None]:
    """Whether the operator masks later keys, and its mask."""
    if found.mask is None:
        return False, None
    value, fill = found.mask, found.fill
    known, queries = const_of(value), rows.extent(rows.queries)
    if fill is not None and known is not None and known.any(-1).all():
        if queries == rows.keys and _is_lower_triangle(known.squeeze(), rows.keys):
            return True, None
    elif fill is not None and fill > -np.inf:
        # Sums with it are equal, so that rows without any key keep equal weights. Runtimes take the
        # lowest number itself for -inf.
        low = float(ml_dtypes.finfo(dtype_of(found.q).numpy()).min) / 2
        value = b.Where(value, b.scalar_like(0, found.q), b.scalar_like(low, found.q))
    value = _aligned(b, replace(found, mask=value), rows)
    pair = (dtype_of(found.q), dtype_of(value))
    is_known = b.target.supports_pair("Attention.attn_mask", *pair, b.opset)
    need(is_known, "no Attention for the type of its mask", value)
    return False, b.expand(value, (*shape_of(value)[:-2], queries, rows.keys))


def _mask_extents(found: Scores) -> dict[int | None, Dim]:
    """The extent of the mask along each axis of the scores, and 1 for None."""
    assert found.mask is not None
    dims = (1,) * (found.rank - rank_of(found.mask)) + shape_of(found.mask)
    units = dict.fromkeys((None, *range(len(found.layout.extents))), 1)
    return units | {axis: dims[place] for axis, place in found.places.items()}


def _is_lower_triangle(mask: np.ndarray, size: Dim) -> bool:
    is_square = mask.shape == (size, size)
    return is_square and bool((mask == np.tril(np.ones(mask.shape, np.bool_))).all())


def _aligned(b: Rewriter, found: Scores, rows: _Rows) -> oir.Value:
    """The mask as (batch, heads, queries, keys), or the last two of them."""
    mask, own = found.mask, _mask_extents(found)
    assert mask is not None
    keys = len(rows.scores) - 1
    groups, queries = own[rows.groups], own[rows.queries]
    lead = tuple(own[axis] for axis in rows.lead)
    wanted = (*rows.lead, rows.groups, rows.queries, keys)
    order = [found.places[axis] for axis in wanted if axis is not None and axis in found.places]
    order = [*(place for place in range(found.rank) if place not in order), *order]
    dims = (1,) * (found.rank - rank_of(mask)) + shape_of(mask)
    mask = b.transpose(_reshaped(b, mask, dims), order)
    if set(lead) | {groups} == {1}:
        return _reshaped(b, mask, (queries, own[keys]))
    is_batch = set(lead[:-1]) <= {1} or lead[:-1] == rows.extents[:-1]
    need(is_batch, "the mask differs along some batches")
    shared, whole = (*lead[-1:], groups), (rows.heads, rows.extent(rows.groups))
    need(set(shared) == {1} or shared == whole, "the mask differs along some of the heads")
    return _reshaped(b, mask, (product(lead[:-1]), product(shared), queries, own[keys]))

"""Attention that appends to its cache itself, of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim, const_number, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.causal import causal_mask
from hlo2onnx.raising.match.views import both_orders, first, maker_of
from hlo2onnx.targets.table import CONTRIB_DOMAIN

GROUPED_QUERY_ATTENTION = "GroupQueryAttention"
_FEATURES = 8
"""The operator takes heads of a multiple of so many features."""

_LEAST_FACTOR = 2.0**-32


class GroupedQueryAttention(Rule):
    """Attention(q, k, v, mask, past_k, past_v) ->
    com.microsoft::GroupQueryAttention(q, k, v, past_k, past_v, last, total, mask)

    A mask that hides nothing else, or what is outside of a window, is left out, and a factor of q
    becomes the operator's. Legal for f32 where the mask hides the keys that follow a query, except
    that a query that sees no key gets other numbers, and that ONNX Runtime refuses several new
    tokens after a past for more than one sequence. So it is done on request only, see
    `hlo2onnx.options.Options.attention`. Positions may be floats, which count to 2^24. For 900
    queries, a Llama of four layers takes 0.95 of the time.
    """

    name = "grouped-query-attention"
    anchors = frozenset({"Attention"})
    # After the rules that give Attention its cache.
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> list[oir.Value]:
        dtype = dtype_of(node.outputs[0])
        need(b.target.has_contrib(GROUPED_QUERY_ATTENTION, dtype), "no such operator", node)
        q = first(node)
        need(len(node.outputs) == 3 and rank_of(q) == 3, "it has no cache", node)
        dims = shape_of(node.outputs[1])
        is_fit = dims == shape_of(node.outputs[2]) and isinstance(dims[3], int)
        need(is_fit and dims[3] % _FEATURES == 0, "its heads do not fit the operator", node)
        batch, new, _ = shape_of(q)
        need(batch != 0, "the operator fails for no sequences", node)
        mask = needed(node.inputs[3], "queries see keys that follow them", node)
        causal = causal_mask(mask, new, dims[2])
        causal = needed(causal, "the mask may show keys that follow a query", mask)
        known = {"scale", "softcap", "q_num_heads", "kv_num_heads", "softmax_precision"}
        need(known.issuperset(node.attributes), "it has other attributes", node)
        return self._made(b, node, None if causal.is_all else mask, causal.window)

    def _made(
        self, b: Rewriter, node: oir.Node, mask: oir.Value | None, window: int | None
    ) -> list[oir.Value]:
        q, k, v, _, past_k, past_v = node.inputs
        q, factor = _unscaled(first(node))
        batch, *_ = shape_of(first(node))
        total: Dim = shape_of(node.outputs[1])[2]
        count = b.cast(b.extents.vector([total]), oir.DataType.INT32)
        # Of the count: other extents that determine it may be those of a cache with more room.
        last = b.Sub(count, b.const(np.array([1], np.int32)))
        bias = [] if mask is None else [None, None, None, _bias(b, mask)]
        return b.outputs(
            GROUPED_QUERY_ATTENTION,
            *(q, k, v, past_k, past_v, b.expand(last, (batch,)), count, *bias),
            n_outputs=3,
            types=[(dtype_of(x), shape_of(x)) for x in node.outputs],
            domain=CONTRIB_DOMAIN,
            num_heads=node.attributes["q_num_heads"].as_int(),
            kv_num_heads=node.attributes["kv_num_heads"].as_int(),
            scale=factor * node.attributes["scale"].as_float(),
            local_window_size=window,
            softcap=node.attributes.get_float("softcap", None),
        )


def _unscaled(q: oir.Value) -> tuple[oir.Value, float]:
    """x and c of x * c, for a constant number c that keeps the scale from 0, its default."""
    product = maker_of(q, "Mul")
    for x, factor in () if product is None else both_orders(product):
        number = const_number(factor)
        if number is not None and _LEAST_FACTOR <= number <= 1 and shape_of(x) == shape_of(q):
            return x, number
    return q, 1.0


def _bias(b: Rewriter, mask: oir.Value) -> oir.Value:
    """The mask as floats with four axes."""
    if dtype_of(mask) == oir.DataType.BOOL:
        low = oir.DataType.FLOAT.max / -2
        mask = b.Where(mask, b.scalar(0, oir.DataType.FLOAT), b.scalar(low, oir.DataType.FLOAT))
    return b.unsqueeze(mask, range(4 - rank_of(mask))) if rank_of(mask) < 4 else mask

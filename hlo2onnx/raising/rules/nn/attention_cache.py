"""Attention of what projections give: heads of keys for several queries, tokens before heads, and a
cache that grows."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.values import attributes_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.axis_layouts import is_move, laid_out, repeated
from hlo2onnx.raising.match.views import first, maker_of, operands

_TURN = (0, 2, 1, 3)
"""From (batch, heads, tokens, features) to (batch, tokens, heads, features), or back."""


@dataclass(frozen=True)
class _Tokens:
    """Keys or values as Attention takes them beside a cache.

    Attributes:
        new: (batch, tokens, heads, features)
        concat: Appends their Transpose to the past; None if there is no cache.
    """

    new: oir.Value
    concat: oir.Node | None

    @property
    def past(self) -> oir.Value | None:
        """(batch, heads, past tokens, features)"""
        return None if self.concat is None else first(self.concat)


class AttentionOfRepeatedHeads(Rule):
    """Attention(q, repeat(k), repeat(v)) -> Attention(q, k, v)

    Legal where each head of k and v is repeated for as many heads of q in a row: those share it in
    the operator. Moves of the axes may follow. A step of Qwen 3 of keras-hub repeats its whole
    cache otherwise.
    """

    name = "attention-of-repeated-heads"
    anchors = frozenset({"Attention"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        q, *repeats = operands(node)[:3]
        need(rank_of(q) == 4 and len(node.outputs) == 1, "it has a cache, or no heads", node)
        k, v = (_once(b, x) for x in repeats)
        need(shape_of(k)[1] == shape_of(v)[1], "keys and values have other heads", node)
        types, rest = [(dtype_of(q), shape_of(node.outputs[0]))], node.inputs[3:]
        return b.op("Attention", q, k, v, *rest, types=types, **attributes_of(node))


def _once(b: Rewriter, x: oir.Value) -> oir.Value:
    """x, (batch, heads, tokens, features), without repetitions of heads."""
    chain: list[oir.Node] = []
    while (node := x.producer()) is not None and len(chain) < 4:
        is_whole = any(each.op_type == "Expand" for each in chain)
        if not is_move(node) and (node.op_type != "Expand" or is_whole):
            break
        chain.insert(0, node)
        x = first(node)
        if is_whole:
            break
    need(any(node.op_type == "Expand" for node in chain), "it does not repeat heads", x)
    layout = needed(repeated(x, chain), "it does more than repeat heads", x)
    batch, heads, tokens, features = shape_of(chain[-1].outputs[0])
    sizes = dict(enumerate(shape_of(x)))
    head = layout.groups[1]
    same = all(layout.extents[axis] == dim for axis, dim in sizes.items() if (axis,) != head)
    need(same and len(head) < 2, "it repeats another axis", x)
    count = product(sizes[axis] for axis in head)
    need(count != heads, "it repeats no heads", x)
    return laid_out(x, layout, (batch, count, tokens, features), b)


class AttentionWithCache(Rule):
    """Attention(Transpose(q), Concat(past_k, Transpose(k)), Concat(past_v, Transpose(v))) ->
    Attention(q, k, v, past_k, past_v), whose other outputs are the Concats; likewise without a past

    q, k and v then have the axes (batch, tokens, heads * features), as projections give them. Legal
    for any operands, but with a cache not where later keys are masked by position, which would
    count from the first new key. Done if nothing in the graph but the operator reads the Concats.
    A few queries, as of a step with one token and grouped heads, get a Transpose instead of the
    whole cache: with 1,024 keys of 8 heads, a step takes 0.7 of the time.
    """

    name = "attention-with-cache"
    anchors = frozenset({"Attention"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        q, k, v = (x for x in node.inputs[:3] if x is not None)
        need(len(node.inputs) <= 4 and rank_of(q) == 4, "it has a cache, or no heads", node)
        keys, values = _tokens(k), _tokens(v)
        queries = _turned(q)
        if queries is None:
            need(keys.concat is None and _is_smaller(q, k), "the queries have heads first", q)
            queries = b.transpose(q, _TURN)
        has_cache = keys.concat is not None
        need(has_cache == (values.concat is not None), "only one has a cache", node)
        concats = [x.concat for x in (keys, values) if x.concat is not None]
        is_here = all(concat.graph is node.graph for concat in concats)
        need(is_here, "the cache is made outside of the body", node)
        is_causal = node.attributes.get_int("is_causal", 0)
        need(not (has_cache and is_causal), "its mask counts keys", node)
        need(k is not v, "the keys are the values", node)
        heads = [shape_of(x)[2] for x in (queries, keys.new, values.new)]
        need(all(isinstance(count, int) for count in heads), "the heads are not counted", node)
        past = [x.past for x in (keys, values)] if has_cache else []
        mask = [node.inputs[3] if len(node.inputs) > 3 else None] if past else node.inputs[3:]
        batch, tokens, count, _ = shape_of(queries)
        features = shape_of(v)[-1]
        made, *present = b.outputs(
            "Attention",
            *(_joined(b, x) for x in (queries, keys.new, values.new)),
            *(*mask, *past),
            n_outputs=1 + len(past),
            types=[
                (dtype_of(v), (batch, tokens, product((count, features)))),
                *((dtype_of(x), shape_of(x)) for x in (k, v)[: len(past)]),
            ],
            **attributes_of(node),
            q_num_heads=heads[0],
            kv_num_heads=heads[1],
        )
        result = b.transpose(b.reshape(made, (batch, tokens, count, features)), _TURN)
        for tokens_, value in zip((keys, values), present, strict=False):
            assert tokens_.concat is not None
            replace(tokens_.concat, [value])
        return result


def _turned(x: oir.Value) -> oir.Value | None:
    """(batch, tokens, heads, features), if x is its Transpose with heads before tokens."""
    node = maker_of(x, "Transpose")
    if node is None or tuple(node.attributes["perm"].as_ints()) != _TURN:
        return None
    return first(node)


def _is_smaller(q: oir.Value, k: oir.Value) -> bool:
    """Whether q has a fixed number of tokens, and k more or a free number."""
    rows, keys = (product(shape_of(x)[1:3]) for x in (q, k))
    return isinstance(rows, int) and not (isinstance(keys, int) and keys <= rows)


def _tokens(x: oir.Value) -> _Tokens:
    new = _turned(x)
    if new is not None:
        return _Tokens(new, None)
    concat = needed(maker_of(x, "Concat"), "the heads of keys do not follow the tokens", x)
    is_cache = len(concat.inputs) == 2 and concat.attributes["axis"].as_int() in (2, -2)
    new = _turned(operands(concat)[1])
    need(is_cache and new is not None, "it does not append keys to a cache", concat)
    need(len(x.uses()) == 1, "others read the cache", concat)
    assert new is not None
    return _Tokens(new, concat)


def _joined(b: Rewriter, x: oir.Value) -> oir.Value:
    """x with heads and features in one axis."""
    batch, tokens, heads, features = shape_of(x)
    dims = (batch, tokens, product((heads, features)))
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", x)
    return b.reshape(x, dims)

"""Rotary position embeddings: pairs of features rotated by an angle for their position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive, is_static, product
from hlo2onnx.ir.values import Dim, const_ints, dtype_of, is_constant, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.paired_features import has_pairs, once
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    is_private,
    maker_of,
    operands,
    ranges_of,
    source_of,
)
from hlo2onnx.raising.patterns import Name, Op, Product, Sum, all_matches

OPSET = 23
"""The first opset with the operator."""

_A, _B, _COS, _SIN = map(Name, ("a", "b", "cos", "sin"))
_REAL = Op("Sub", Product(_A, _COS), Product(_B, _SIN))
_IMAGINARY = Sum(Product(_B, _COS), Product(_A, _SIN))
_WHOLE = Sum(Product(Name("x"), _COS), Product(Name("turned"), _SIN))


@dataclass(frozen=True)
class _Rotation:
    """Pairs of features of x, rotated by angles.

    Attributes:
        x: The features along the last axis.
        cos: For each pair; broadcasts to the pairs of x.
        sin: In the same shape.
        interleaved: Whether pairs are neighbors, instead of one feature of each half.
    """

    x: oir.Value
    cos: oir.Value
    sin: oir.Value
    interleaved: bool


class RotaryEmbedding(Rule):
    """Concat(a * cos - b * sin, b * cos + a * sin) -> RotaryEmbedding(Concat(a, b), cos, sin)

    Also for pairs of neighbors, and for x * cos + Concat(-b, a) * sin if both halves of cos and of
    sin are equal, or neighbors in them. Legal for f32 if a and b are parts of one tensor, and cos
    and sin are the same for all heads: they vary along one axis, the tokens, and along axes before
    it. ONNX Runtime takes a third of the time.

    A stack of the halves of RotaryEmbedding(MatMul(x, w)), as in Gemma of keras-hub, becomes the
    rotation of neighbors, with the columns of w in their order. Legal where nothing else reads w,
    the product or the rotation.
    """

    name = "rotary-embedding"
    anchors = frozenset({"Add", "Concat", *RESHAPES})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """Both terms are products, one part is a difference, or two parts are stacked."""
        if dtype != oir.DataType.FLOAT:
            return False
        if op_type == "Add":
            return sources == {"Mul"}
        if op_type == "Concat" and sources <= RESHAPES:
            return True
        return ("Sub" if op_type == "Concat" else "Concat") in sources

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        result = node.outputs[0]
        is_known = b.opset >= OPSET and b.supports("RotaryEmbedding", dtype_of(result))
        need(is_known and dtype_of(result) == oir.DataType.FLOAT, "the target has no such operator")
        if node.op_type == "Concat" and source_of(first(node), *RESHAPES) is not None:
            return _interleaved(node, b)
        found = _FORMS.get(node.op_type, _of_neighbours)(node, b)
        need(shape_of(found.x) == shape_of(result), "the number of features differs", node)
        return _applied(b, found)


# -- its forms --------------------------------------------------------------------------------


def _of_halves(node: oir.Node, b: Rewriter) -> _Rotation:
    """Concat(real, imaginary)"""
    rank = rank_of(first(node))
    need(node.attributes["axis"].as_int() % rank == rank - 1, "it joins along another axis", node)
    need(len(node.inputs) == 2, "it does not join two tensors", node)
    return _pairs(b, node.inputs, interleaved=False)


def _of_neighbours(node: oir.Node, b: Rewriter) -> _Rotation:
    """Reshape(Concat(real as a column, imaginary as a column))"""
    return _pairs(b, _stacked(node.outputs[0]), interleaved=True)


def _stacked(value: oir.Value) -> Sequence[oir.Value]:
    """Two tensors whose elements are neighbors in this one.

    Raises:
        Refusal: It is something else.
    """
    stack = needed(source_of(value, *RESHAPES), "it is not a stack of two", value)
    concat = needed(maker_of(stack, "Concat"), "it is not a stack of two", value)
    need(rank_of(stack) == rank_of(value) + 1, "it is not a stack of two", value)
    return _stack(concat)


def _stack(concat: oir.Node) -> Sequence[oir.Value]:
    """Two tensors that are stacked along a new last axis.

    Raises:
        Refusal: It is something else.
    """
    dims = shape_of(concat.outputs[0])
    need(dims[-1:] == (2,), "it is not a stack of two", concat)
    is_last = concat.attributes["axis"].as_int() % len(dims) == len(dims) - 1
    need(is_last, "it stacks along another axis", concat)
    columns = [found for x in concat.inputs if (found := source_of(x, *RESHAPES)) is not None]
    fits = len(columns) == 2 and all(shape_of(x) == dims[:-1] for x in columns)
    need(fits, "it does not stack tensors", concat)
    return columns


def _of_turned(node: oir.Node, b: Rewriter) -> _Rotation:
    """x * cos + Concat(-b, a) * sin, or of a stack of -b and a"""
    for bound in all_matches(_WHOLE, node.outputs[0]):
        x, turned = bound["x"], bound["turned"]
        interleaved = source_of(turned, *RESHAPES) is not None
        parts = _stacked(turned) if interleaved else _joined(turned)
        if parts is None:
            continue
        negative, a = parts
        second = source_of(negative, "Neg")
        if second is None or _source(b, a, second, x) != (x, interleaved):
            continue
        if all(has_pairs(bound[name], interleaved) for name in ("cos", "sin")):
            cos, sin = (once(b, bound[name], interleaved) for name in ("cos", "sin"))
            return _Rotation(x, cos, sin, interleaved)
    raise Refusal("it does not negate one half and swap both", node)


def _joined(value: oir.Value) -> Sequence[oir.Value] | None:
    """Two tensors that are joined along the last axis; None if they are not."""
    node = maker_of(value, "Concat")
    if node is None or len(node.inputs) != 2:
        return None
    rank = rank_of(value)  # the last axis may have extent 0
    return operands(node) if node.attributes["axis"].as_int() % rank == rank - 1 else None


_FORMS = {"Add": _of_turned, "Concat": _of_halves}


def _pairs(b: Rewriter, parts: Sequence[oir.Value | None], interleaved: bool) -> _Rotation:
    real, imaginary = parts
    assert real is not None
    assert imaginary is not None
    for so_far in all_matches(_REAL, real):
        for bound in _IMAGINARY.matches(imaginary, so_far):
            source = _source(b, bound["a"], bound["b"])
            if source is not None and source[1] == interleaved:
                return _Rotation(source[0], bound["cos"], bound["sin"], interleaved)
    raise Refusal("it is not a rotation", real)


def _source(
    b: Rewriter, one: oir.Value, other: oir.Value, like: oir.Value | None = None
) -> tuple[oir.Value, bool] | None:
    """The tensor whose features are split into these two, and whether they are interleaved.

    Args:
        like: Returned if it is an equal Slice.
    """
    makers = [x.producer() for x in (one, other)]
    if makers[0] is not None and makers[0] is makers[1] and makers[0].op_type == "Split":
        split = makers[0]
        is_last = split.attributes.get_int("axis", 0) % rank_of(one) == rank_of(one) - 1
        in_order = list(split.outputs) == [one, other] and shape_of(one) == shape_of(other)
        return (first(split), False) if is_last and in_order else None
    columns = [source_of(x, *RESHAPES) for x in (one, other)]
    if all(columns):
        return _columns(b, *columns)  # type: ignore[arg-type]
    found = _cuts(one, other)
    if found is None:
        return None
    x, here, there = found
    last = rank_of(x) - 1
    if here.step == there.step == 2 and here.start + 1 == there.start:
        features = range(here.start, there[-1] + 1)
    elif here.step == there.step == 1 and here.stop == there.start:
        features = range(here.start, there.stop)
    else:
        return None
    cut = maker_of(like, "Slice")
    if cut is not None and first(cut) is x and ranges_of(cut) == {last: features}:
        assert like is not None
        return like, here.step == 2
    return b.slice(x, [features.start], [features.stop], axes=[last]), here.step == 2


def _columns(b: Rewriter, one: oir.Value, other: oir.Value) -> tuple[oir.Value, bool] | None:
    """The pairs of neighbors among 2 n features, from the columns of a tensor (..., n, 2)."""
    found = _cuts(one, other)
    if found is None or shape_of(found[0])[-1] != 2:
        return None
    x, here, there = found
    *rest, count, _ = shape_of(x)
    dims = (*rest, product((count, 2)))
    is_pair = (here, there) == (range(1), range(1, 2)) and b.reshapes_at_once(x, dims)
    return (b.reshape(x, dims), True) if is_pair else None


def _cuts(one: oir.Value, other: oir.Value) -> tuple[oir.Value, range, range] | None:
    """The tensor that both are sliced from along the last axis, and the ranges."""
    left, right = _cut(one), _cut(other)
    if left is None or right is None:
        return None
    (x, here), (also, there) = left, right
    return (x, here, there) if x is also and len(here) == len(there) else None


def _cut(value: oir.Value) -> tuple[oir.Value, range] | None:
    """The tensor that a value is sliced from along the last axis, and the range.

    JAX reads every second element by a Gather if another extent is symbolic.
    """
    node = maker_of(value, "Gather", "Slice")
    if node is None:
        return None
    x = first(node)
    last = rank_of(x) - 1
    if node.op_type == "Slice":
        ranges = ranges_of(node) or {}
        return (x, ranges[last]) if list(ranges) == [last] else None
    rows = const_ints(node.inputs[1])
    is_last = node.attributes.get_int("axis", 0) % rank_of(x) == last
    if not is_last or rows is None or rank_of(value) != rank_of(x) or len(rows) < 2:
        return None
    found = range(rows[0], rows[-1] + 1, max(rows[1] - rows[0], 1))
    return (x, found) if found.start >= 0 and tuple(found) == rows else None


# -- halves that are interleaved afterwards --------------------------------------------------


def _interleaved(node: oir.Node, b: Rewriter) -> oir.Value:
    """A stack of the halves of a rotated product, as a rotation of neighbors."""
    source = needed(_source(b, *_stack(node)), "it does not stack halves", node)
    x, is_interleaved = source
    rotated = needed(maker_of(source_of(x, *RESHAPES), "RotaryEmbedding"), "nothing is rotated", x)
    of_halves = not is_interleaved and rotated.attributes.keys() == {"num_heads"}
    turned, product_ = rotated.outputs[0], first(rotated)
    need(of_halves and rank_of(turned) == 3, "it is no rotation of halves", rotated)
    matmul = needed(maker_of(product_, "MatMul"), "it does not rotate a product", rotated)
    rows, w = operands(matmul)
    is_alone = len(w.uses()) == 1 and is_constant(w) and all(map(is_private, (turned, product_)))
    need(is_alone and rank_of(w) == 2, "others read the product, or it is not of a weight", matmul)
    heads = rotated.attributes["num_heads"].as_int()
    need(shape_of(x) == (*shape_of(turned)[:2], heads, shape_of(x)[-1]), "it joins heads", x)

    def neighbors(array: np.ndarray) -> np.ndarray:
        pairs = array.reshape(len(array), heads, 2, -1).swapaxes(2, 3)
        return np.ascontiguousarray(pairs).reshape(array.shape)

    made = b.op(
        "RotaryEmbedding",
        b.MatMul(rows, b.derived(neighbors, w, is_moved=True, note="interleaved")),
        *rotated.inputs[1:],
        types=[(dtype_of(turned), shape_of(turned))],
        interleaved=1,
        num_heads=heads,
    )
    return b.reshape(made, shape_of(node.outputs[0]))


# -- the operator ----------------------------------------------------------------------------


def _applied(b: Rewriter, found: _Rotation) -> oir.Value:
    """RotaryEmbedding over batch, tokens and heads, for any axes of x."""
    x, dims = found.x, shape_of(found.x)
    features = dims[-1]
    need(
        len(dims) > 1 and isinstance(features, int) and all(map(is_positive, dims)),
        "x has no axes, or the number of features is not known",
        x,
    )
    assert isinstance(features, int)
    shape = shape_of(found.cos)
    need(
        shape == shape_of(found.sin) and shape[-1:] == (features // 2,),
        "cos and sin do not hold one angle for each pair",
        x,
    )
    own = (1,) * (len(dims) - len(shape)) + shape
    batch, tokens, heads, is_inner = _axes(dims[:-1], own[:-1])
    count = product(heads)
    need(isinstance(count, int), "the number of heads is symbolic", x)
    sizes = (product(batch), tokens)
    folded = (
        (sizes[0], count, tokens, features) if is_inner else (*sizes, product((count, features)))
    )
    need(b.reshapes_at_once(x, folded), "its extents are computed", x)
    caches = [_cache(b, table, own, len(batch), sizes) for table in (found.cos, found.sin)]
    turned = b.op(
        "RotaryEmbedding",
        b.reshape(x, folded),
        *caches,
        types=[(dtype_of(x), folded)],
        interleaved=1 if found.interleaved else None,
        num_heads=None if is_inner else count,
    )
    return b.reshape(turned, dims)


Dims = tuple[Dim, ...]


def _axes(dims: Dims, angles: Dims) -> tuple[Dims, Dim, Dims, bool]:
    """The axes of the batch, of tokens and of heads, and whether heads come before tokens.

    Args:
        dims: Extents of x without the features.
        angles: Extents of the angles, each 1 or the same.
    """
    differing = [axis for axis, extent in enumerate(angles) if extent != 1]
    need(all(angles[axis] == dims[axis] for axis in differing), "the angles do not broadcast to x")
    tokens = differing.pop() if differing else min(1, len(dims) - 1)
    is_prefix = differing == list(range(len(differing)))
    need(is_prefix, "the angles of heads differ")
    if tokens < len(dims) - 1 or len(differing) == tokens:
        need(len(differing) in (0, tokens), "the angles differ along some of the axes of the batch")
        return dims[:tokens], dims[tokens], dims[tokens + 1 :], False
    first_head = max(len(differing), min(1, tokens - 1))
    if not is_static(dims[first_head:tokens]):
        first_head = tokens
    return dims[:first_head], dims[tokens], dims[first_head:tokens], True


def _cache(b: Rewriter, table: oir.Value, own: Dims, batch: int, sizes: Dims) -> oir.Value:
    """The angles for each element of the batch and each token."""
    rest = own[batch:-1]
    dims = (product(own[:batch]), product(rest), own[-1])
    need(b.reshapes_at_once(table, dims), "the extents of the angles are computed", table)
    return b.expand(b.reshape(table, dims), (*sizes, own[-1]))

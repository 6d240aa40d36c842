"""Rotary position embeddings: pairs of features rotated by an angle for their position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive, is_static, product
from hlo2onnx.ir.op_families import ELEMENTWISE
from hlo2onnx.ir.values import Dim, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, source_of
from hlo2onnx.raising.patterns import Name, Op, Product, Sum
from hlo2onnx.raising.rules.shapes.slices import ranges_of

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
    sin are equal. Legal for f32 if a and b are parts of one tensor, and cos and sin are the same
    for all heads: they vary along one axis, the tokens, and along axes before it. ONNX Runtime
    takes a third of the time.
    """

    name = "rotary-embedding"
    anchors = frozenset({"Add", "Concat", *RESHAPES})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        result = node.outputs[0]
        is_known = b.opset >= OPSET and b.supports("RotaryEmbedding", dtype_of(result))
        need(is_known and dtype_of(result) == oir.DataType.FLOAT, "the target has no such operator")
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
    concat = first(node).producer()
    dims = shape_of(first(node))
    is_stack = concat is not None and concat.op_type == "Concat" and dims[-1:] == (2,)
    need(is_stack and len(dims) == rank_of(node.outputs[0]) + 1, "it is not a stack of two", node)
    assert concat is not None
    need(
        concat.attributes["axis"].as_int() % len(dims) == len(dims) - 1,
        "the stack has another axis",
        node,
    )
    columns = [source_of(x, *RESHAPES) for x in concat.inputs if x is not None]
    need(
        len(columns) == 2 and all(x is not None and shape_of(x) == dims[:-1] for x in columns),
        "it does not stack tensors",
        concat,
    )
    return _pairs(b, columns, interleaved=True)


def _of_turned(node: oir.Node, b: Rewriter) -> _Rotation:
    """x * cos + Concat(-b, a) * sin"""
    for bound in _WHOLE.matches(node.outputs[0], {}):
        x, turned = bound["x"], bound["turned"].producer()
        if turned is None or turned.op_type != "Concat" or len(turned.inputs) != 2:
            continue
        rank = rank_of(bound["turned"])  # the axis of x may have extent 0
        if turned.attributes["axis"].as_int() % rank != rank - 1:
            continue
        negative, a = turned.inputs
        second = source_of(negative, "Neg") if negative is not None else None
        if a is None or second is None or _source(b, a, second) != (x, False):
            continue
        if all(_has_equal_halves(bound[name]) for name in ("cos", "sin")):
            half = [shape_of(bound["cos"])[-1]]
            need(isinstance(half[0], int), "the features are symbolic", node)
            cos, sin = (_first_half(b, bound[name]) for name in ("cos", "sin"))
            return _Rotation(x, cos, sin, False)
    raise Refusal("it does not negate and swap halves", node)


_FORMS = {"Add": _of_turned, "Concat": _of_halves}


def _pairs(b: Rewriter, parts: Sequence[oir.Value | None], interleaved: bool) -> _Rotation:
    real, imaginary = parts
    assert real is not None
    assert imaginary is not None
    for so_far in _REAL.matches(real, {}):
        for bound in _IMAGINARY.matches(imaginary, so_far):
            source = _source(b, bound["a"], bound["b"])
            if source is not None and source[1] == interleaved:
                return _Rotation(source[0], bound["cos"], bound["sin"], interleaved)
    raise Refusal("it is not a rotation", real)


def _source(b: Rewriter, one: oir.Value, other: oir.Value) -> tuple[oir.Value, bool] | None:
    """The tensor whose features are split into these two, and whether they are interleaved."""
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
    if here.step == 2 and (here.start, there.start) == (0, 1):
        return x, True
    if here.step != 1 or there.step != 1 or here.stop != there.start:
        return None
    return b.slice(x, [here.start], [there.stop], axes=[rank_of(x) - 1]), False


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
    makers = [x.producer() for x in (one, other)]
    if any(maker is None or maker.op_type != "Slice" for maker in makers):
        return None
    (x, here), (also, there) = ((first(maker), ranges_of(maker)) for maker in makers if maker)
    last = rank_of(x) - 1
    if x is not also or here is None or there is None or {*here, *there} != {last}:
        return None
    if len(here[last]) != len(there[last]):
        return None
    return x, here[last], there[last]


def _has_equal_halves(x: oir.Value) -> bool:
    """Whether the second half of the last axis repeats the first."""
    array, dims = const_of(x), shape_of(x)
    if not dims or dims[-1] == 1:
        return True
    if array is not None:
        half = dims[-1] // 2
        return np.array_equal(array[..., :half], array[..., half:], equal_nan=True)
    node = x.producer()
    if node is None or node.domain:
        return False
    if node.op_type == "Concat":
        is_last = node.attributes["axis"].as_int() % len(dims) == len(dims) - 1
        return len(node.inputs) == 2 and is_last and node.inputs[0] is node.inputs[1]
    if node.op_type in RESHAPES | {"Expand"}:
        return shape_of(first(node))[-1:] == dims[-1:] and _has_equal_halves(first(node))
    if node.op_type == "Gather":
        is_row = (
            node.attributes.get_int("axis", 0) % rank_of(first(node)) != rank_of(first(node)) - 1
        )
        return is_row and _has_equal_halves(first(node))
    return node.op_type in ELEMENTWISE and all(
        _has_equal_halves(each) for each in node.inputs if each is not None
    )


def _first_half(b: Rewriter, x: oir.Value) -> oir.Value:
    """The first half of the last axis; the axis itself if its extent is 1."""
    last = shape_of(x)[-1]
    assert isinstance(last, int)
    return b.slice(x, [0], [max(last // 2, 1)], axes=[rank_of(x) - 1])


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

"""Tensors that hold each number twice along the last axis: in both halves, or in neighbors."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import ELEMENTWISE
from hlo2onnx.ir.values import const_ints, const_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, needed
from hlo2onnx.raising.match.views import RESHAPES, first, ranges_of, source_of


def once(b: Rewriter, x: oir.Value, interleaved: bool) -> oir.Value:
    """Each number once; x itself if its last extent is 1.

    Args:
        x: Its numbers are in pairs, see `has_pairs`.
        interleaved: Whether pairs are neighbors, instead of one number of each half.

    Raises:
        Refusal: The last extent is symbolic.
    """
    last = shape_of(x)[-1]
    count = needed(last if isinstance(last, int) else None, "the features are symbolic", x)
    dims = (*shape_of(x)[:-1], max(count // 2, 1))
    inner = x
    while (source := source_of(inner, *RESHAPES)) is not None and _keeps_last(inner, source):
        inner = source
    single = _made_once(b, inner, interleaved) if count > 1 else None
    if single is not None and b.reshapes_at_once(single, dims):
        return b.reshape(single, dims)
    axes, step = [rank_of(x) - 1], 2 if interleaved else 1
    return b.slice(x, [0], [count if interleaved else dims[-1]], [step], axes=axes)


def _made_once(b: Rewriter, x: oir.Value, interleaved: bool) -> oir.Value | None:
    """Each number of x once, from where they are doubled; None if they are stored in pairs."""
    node = x.producer()
    if node is None or node.domain:
        return None
    if node.op_type in ELEMENTWISE:
        parts = [y if y is None or not rank_of(y) else once(b, y, interleaved) for y in node.inputs]
        return b.like(node, parts)
    if interleaved:
        return _single(first(node)) if node.op_type == "Reshape" else None
    return first(node) if node.op_type == "Concat" else None


def has_pairs(x: oir.Value, interleaved: bool, part: range | None = None) -> bool:
    """Whether each number is in x twice along the last axis, or that axis has extent 1.

    Args:
        interleaved: Whether pairs are neighbors, instead of one number of each half.
        part: Elements of the last axis to look at, instead of all.
    """
    array, dims = const_of(x), shape_of(x)
    if not dims or dims[-1] == 1:
        return True
    if not isinstance(dims[-1], int) or dims[-1] % 2:
        return False
    part = range(dims[-1]) if part is None else part
    if array is not None:
        array = array[..., part.start : part.stop]
        half = len(part) // 2
        halves = (array[..., :half], array[..., half:])
        one, other = (array[..., ::2], array[..., 1::2]) if interleaved else halves
        return np.array_equal(one, other, equal_nan=True)
    node = x.producer()
    if node is None or node.domain:
        return False
    if node.op_type in ELEMENTWISE:
        return all(has_pairs(each, interleaved, part) for each in node.inputs if each is not None)
    if node.op_type == "Concat" and not interleaved:
        return _joins_twice(node) and len(part) == dims[-1]
    if interleaved and node.op_type in RESHAPES and _single(first(node)) is not None:
        return shape_of(first(node))[-2:] == (dims[-1] // 2, 2)
    return _rows_have_pairs(node, x, interleaved, part)


def _rows_have_pairs(node: oir.Node, x: oir.Value, interleaved: bool, part: range) -> bool:
    """The same of the operand of a node that takes rows, or parts of rows, of it."""
    source = first(node)
    if node.op_type in RESHAPES | {"Expand"}:
        return _keeps_last(x, source) and has_pairs(source, interleaved, part)
    last = rank_of(source) - 1
    if node.op_type == "Gather":
        is_row = node.attributes.get_int("axis", 0) % rank_of(source) != last
        return is_row and has_pairs(source, interleaved, part)
    start = None
    if node.op_type == "Split" and node.attributes.get_int("axis", 0) % rank_of(source) == last:
        sizes = const_ints(node.inputs[1]) if len(node.inputs) > 1 else None
        start = None if sizes is None else sum(sizes[: list(node.outputs).index(x)])
    if node.op_type == "Slice" and (ranges := ranges_of(node)) is not None:
        rows = ranges.get(last, range(0))
        start = 0 if last not in ranges else rows.start if rows.step == 1 else None
    if start is None:
        return False
    return has_pairs(source, interleaved, range(part.start + start, part.stop + start))


def _keeps_last(x: oir.Value, source: oir.Value) -> bool:
    """Whether a Reshape or Expand of a value has its last axis."""
    return shape_of(source)[-1:] == shape_of(x)[-1:]


def _joins_twice(node: oir.Node) -> bool:
    """Whether a Concat joins a value with itself along the last axis."""
    rank = rank_of(node.outputs[0])
    is_last = node.attributes["axis"].as_int() % rank == rank - 1
    return len(node.inputs) == 2 and is_last and node.inputs[0] is node.inputs[1]


def _single(pairs: oir.Value) -> oir.Value | None:
    """The numbers that an Expand repeats along a last axis of extent 2."""
    source = source_of(pairs, "Expand")
    if source is None or shape_of(pairs)[-1:] != (2,) or shape_of(source)[-1:] != (1,):
        return None
    same = shape_of(source)[:-1] == shape_of(pairs)[:-1]
    return source if same else None

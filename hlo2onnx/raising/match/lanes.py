"""Which values of a body depend on a state lane by lane, and where a mask keeps lanes back.

The lanes are the rows of the first axis. A loop under vmap runs until it has ended in all lanes. A
lane that has ended keeps its states: Where(mask, after, before).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import ELEMENTWISE, REDUCTIONS, RESHAPES
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import reads, subgraphs
from hlo2onnx.ir.values import (
    INTEGERS,
    Dim,
    const_ints,
    const_of,
    dtype_of,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import need
from hlo2onnx.raising.match.copies import is_speculatable
from hlo2onnx.raising.match.views import maker_of, operands, source_of

_ALONG_AXIS = {"ArgMax": 0, "ArgMin": 0, "Concat": 0, "LogSoftmax": -1, "Softmax": -1, "Split": 0}
"""Operators along one axis, and the axis if none is given."""


def lanes_of(value: oir.Value) -> Dim:
    """The extent of the first axis; 0 of scalars."""
    dims = shape_of(value)
    return dims[0] if dims else 0


def root_of(mask: oir.Value) -> oir.Value:
    """The mask that a value repeats within its lanes."""
    while (source := source_of(mask, "Identity", "Expand", *RESHAPES)) is not None:
        # An Expand to a higher rank puts the lanes along another axis.
        is_moved = maker_of(mask, "Expand") and rank_of(source) != rank_of(mask)
        if is_moved or lanes_of(source) != lanes_of(mask):
            break
        mask = source
    return mask


def kept_state(after: oir.Value, state: oir.Value) -> tuple[oir.Value, oir.Value] | None:
    """The mask and the new value of a state that lanes without the mask keep."""
    node = maker_of(source_of(after, "Identity") or after, "Where")
    if node is None or node.inputs[2] is not state:
        return None
    condition, new, _ = operands(node)
    mask = root_of(condition)
    is_whole = shape_of(new) == shape_of(after) == shape_of(state)
    is_aligned = rank_of(condition) == rank_of(after) and lanes_of(condition) == lanes_of(after)
    is_mask = rank_of(mask) == 1 and lanes_of(mask) == lanes_of(state) != 0
    return (mask, new) if is_whole and is_aligned and is_mask else None


def reached_from(
    nodes: Iterable[oir.Node], sources: Iterable[oir.Value], mask: oir.Value | None = None
) -> set[oir.Value]:
    """The results of nodes that depend on these sources even where the mask does not hold.

    Each lane of them depends on the same lane of the sources. Their nodes do not fail on any
    numbers.

    Args:
        nodes: Nodes of a body in order.

    Raises:
        Refusal: Lanes are mixed, or a node may fail.
    """
    found = set(sources)
    counts = {lanes_of(x) for x in found}
    need(len(counts) == 1, "the states have different lanes")
    (count,) = counts
    for node in nodes:
        if found.isdisjoint(reads(node) if node.attributes.data else node.inputs):
            continue
        need(not subgraphs(node), "a loop or a branch depends on it", node)
        if mask is not None and _is_held_back(node, mask, found):
            continue
        need(keeps_lanes(node, found, count), "it may mix lanes", node)
        need(is_speculatable(node) or _is_within(node), "it may fail in lanes that ended", node)
        found.update(node.outputs)
    return found


def _is_held_back(node: oir.Node, mask: oir.Value, found: set[oir.Value]) -> bool:
    """Whether a result does not depend on these values where the mask does not hold."""
    count, rank = lanes_of(mask), rank_of(node.outputs[0])
    held = [
        x
        for x in operands(node)
        if root_of(x) is mask and rank_of(x) == rank and lanes_of(x) == count
    ]
    if not held or lanes_of(node.outputs[0]) != count:
        return False
    if node.op_type == "And":
        return found.isdisjoint(held)
    if node.op_type != "Where":
        return False
    condition, _, other = operands(node)
    return condition in held and condition not in found and other not in found


def keeps_lanes(node: oir.Node, found: Container[oir.Value], count: Dim) -> bool:
    """Whether each lane of the results depends on the same lane of these operands alone."""
    if node.domain or any(lanes_of(x) != count for x in node.outputs):
        return False
    changing = [x for x in operands(node) if x in found]
    op_type, rank = node.op_type, rank_of(node.outputs[0])
    first = changing == [node.inputs[0]] and lanes_of(changing[0]) == count
    if op_type in ELEMENTWISE or op_type == THREEFRY:
        return all(rank_of(x) == rank for x in changing)
    if op_type in RESHAPES or op_type == "Identity":
        return first
    if op_type == "Expand":
        return first and rank_of(changing[0]) == rank
    if op_type in _ALONG_AXIS:
        axis = node.attributes.get_int("axis", _ALONG_AXIS[op_type])
        return axis % rank_of(changing[0]) != 0
    if op_type == "Transpose":
        return node.attributes["perm"].as_ints()[0] == 0
    if op_type == "GatherND":
        return node.attributes.get_int("batch_dims", 0) > 0
    if op_type == "Gather":
        return first and node.attributes.get_int("axis", 0) % rank_of(changing[0]) != 0
    axes = _axes(node)
    return first and axes is not None and all(axis % rank_of(changing[0]) for axis in axes)


def _axes(node: oir.Node) -> tuple[int, ...] | None:
    """The known axes of a reduction or a Slice."""
    place = 1 if node.op_type in REDUCTIONS else 3 if node.op_type == "Slice" else None
    if place is None or len(node.inputs) <= place or node.inputs[place] is None:
        return None
    return const_ints(node.inputs[place]) or None


def _is_within(node: oir.Node) -> bool:
    """Whether a GatherND reads places that are bounded by constants, whatever the numbers are."""
    if node.op_type != "GatherND":
        return False
    data, index = operands(node)
    batch = node.attributes.get_int("batch_dims", 0)
    dims = static_shape(data)
    index = source_of(index, "Cast") or index
    size = static_shape(index)
    if dims is None or not size or dtype_of(index) not in INTEGERS:
        return False
    low, high = _bounds(index)
    limits = np.array(dims[batch : batch + size[-1]])
    if low is None or high is None:
        return False
    return bool((low >= 0).all() and (high < limits).all())


def _bounds(x: oir.Value) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The constants that a value is clamped to: Min(Max(y, low), high), or Clip."""
    clip = maker_of(x, "Clip")
    if clip is not None and len(clip.inputs) == 3:
        return const_of(clip.inputs[1]), const_of(clip.inputs[2])
    node = maker_of(x, "Min")
    if node is None or len(node.inputs) != 2:
        return None, None
    for inner, high in (operands(node), operands(node)[::-1]):
        below = maker_of(inner, "Max")
        if below is not None and const_of(high) is not None:
            low = next((const_of(y) for y in below.inputs if const_of(y) is not None), None)
            return low, const_of(high)
    return None, None

"""Borders made of a tensor's own elements, as jnp.pad or ghost cells -> Pad with a mode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import Unknown, evaluate
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.values import complete, const_of, dtype_of, present, size_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need

MODES = ("edge", "reflect", "wrap")
WRAP_OPSET = 19

MOST_ELEMENTS = 1 << 20
"""The elements of larger tensors are not followed: a limit on compile time, not a cost."""

DEEPEST = 24
"""More moves in a row are not followed: a limit on compile time, not a cost."""

Places = np.ndarray
"""The flat position of each element in another tensor."""

_FOLLOWED = RESHAPES | {"Expand", "Identity", "Pad", "Slice", "Transpose"}


class PadModes(Rule):
    """Concat(x[:1], x, x[-1:]) -> Pad(x, mode="edge"), likewise for modes "reflect" and "wrap";
    ScatterND(x, border, Expand(Slice(x))) -> Pad(Slice(x), mode="edge"), in a loop or a branch

    Legal if the elements are moved to constant positions, and those on both sides of a part of x
    are the ones that a mode takes. Done if it saves nodes. A tensor whose border is overwritten, as
    by ghost cells, must be small.
    """

    name = "pad-modes"
    formerly = ("scatter-to-pad", "ghost-cells")
    anchors = frozenset({"Concat", "Pad", "ScatterND"})
    sources = _FOLLOWED | {"Concat", "ScatterND"}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        moves = _Moves(node.graph)
        parts = set(present(_moved(node)))
        may_share = set.intersection(*map(moves.sources, parts)) if parts else None
        need(may_share, "its operands are not parts of one tensor", node)
        need(len(parts) > 1 or node.op_type == "Pad", "it joins a value with itself", node)
        x, places, nodes = moves.origin(node.outputs[0])
        dims = static_shape(x)
        need(x is not node.outputs[0] and places.size, "it is empty or of several tensors", node)
        need(dims is not None and len(dims) == places.ndim, "it has other axes", node)
        assert dims is not None
        rows = list(_rows(places, dims))
        kept = [_kept(taken) for taken in rows]
        starts = [int(taken[part.start]) for taken, part in zip(rows, kept, strict=True)]
        if dims == places.shape:
            need(node.graph is not b.main_graph, "it is not in a loop or branch", node)
            need(places.size <= b.costs.padded_elements, "the tensor is large", node)
            need(starts == [part.start for part in kept], "its inner rows change places", node)
        is_whole = all(len(part) == dim for part, dim in zip(kept, dims, strict=True))
        others = (one for one in nodes if not nodes.issuperset(one.outputs[0].consumers()))
        saved = len(nodes) - len({*others, node})
        need(saved > (0 if is_whole else 1), "it would save no nodes", node)
        for mode in MODES:
            is_known = mode != "wrap" or b.opset >= WRAP_OPSET
            if not is_known or not b.supports(f"Pad[{mode}]", dtype_of(x)):
                continue
            if all(is_padded(*pair, mode) for pair in zip(rows, kept, strict=True)):
                ends = [start + len(part) for start, part in zip(starts, kept, strict=True)]
                behind = [len(taken) - part.stop for taken, part in zip(rows, kept, strict=True)]
                pads = b.i64([part.start for part in kept] + behind)
                return b.Pad(b.slice(x, starts, ends), pads, mode=mode)
        raise Refusal("no mode of Pad makes these elements", node)


def _rows(places: Places, dims: Sequence[int]) -> Iterator[np.ndarray]:
    """The rows of a tensor of this shape that are taken along each axis.

    Raises:
        Refusal: They differ along the other axes.
    """
    for axis, taken in enumerate(np.unravel_index(places, dims)):
        row = np.moveaxis(taken, axis, 0).reshape(places.shape[axis], -1)
        need((row == row[:, :1]).all(), "it does not take whole rows")
        yield row[:, 0]


def _kept(rows: np.ndarray) -> range:
    """The longest range of rows in order."""
    starts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), rows.size]
    runs = [range(start, stop) for start, stop in pairwise(starts)]
    return max(runs, key=len)


def is_padded(rows: np.ndarray, kept: range, mode: str) -> bool:
    """Whether a mode makes these rows of the kept ones, without repeating all."""
    widths = (kept.start, len(rows) - kept.stop)
    most = len(rows) if mode == "edge" else len(kept) - 1
    core = rows[kept.start : kept.stop]
    return max(widths) <= most and np.array_equal(rows, np.pad(core, widths, mode))  # type: ignore[call-overload]


Origin = tuple[oir.Value, Places, frozenset[oir.Node]]
"""A tensor that holds all elements of a value, their positions in it, and the nodes between."""


class _Moves:
    """The sources of elements."""

    def __init__(self, body: oir.Graph | oir.Function | None) -> None:
        self._body = body
        self._known: dict[oir.Value, Origin] = {}

    def sources(self, value: oir.Value) -> set[oir.Value]:
        """The tensors that may hold all elements of a value."""
        found, last = {value}, {value}
        for _ in range(DEEPEST):
            makers = [maker for x in last if (maker := x.producer()) is not None]
            last = {
                x for maker in makers if maker.graph is self._body for x in present(_moved(maker))
            }
            if last <= found:
                break
            found |= last
        return found

    def origin(self, value: oir.Value, depth: int = DEEPEST) -> Origin:
        """The first tensor that holds all elements of a value."""
        if value not in self._known:
            self._known[value] = self._found(value, depth)
        return self._known[value]

    def _found(self, value: oir.Value, depth: int) -> Origin:
        node, shape = value.producer(), static_shape(value)
        need(_is_small(value), "it is large, or its shape is dynamic", value)
        assert shape is not None
        itself = value, np.arange(math.prod(shape)).reshape(shape), frozenset[oir.Node]()
        if node is None or node.graph is not self._body or node.domain or not depth:
            return itself
        moved = set(present(_moved(node)))
        if not moved or not all(map(_is_small, moved)):
            return itself
        found = {x: self.origin(x, depth - 1) for x in moved}
        arrays = (found[x][1] if x in found else const_of(x) for x in present(node.inputs))
        inputs = complete(arrays)
        sources = {source for source, _, _ in found.values()}
        if len(sources) > 1 or inputs is None:
            return itself
        try:
            places = evaluate(node, inputs)
        except Unknown:
            return itself
        nodes = frozenset({node}).union(*(nodes for _, _, nodes in found.values()))
        return sources.pop(), places.reshape(shape), nodes


def _is_small(x: oir.Value) -> bool:
    size = size_of(x)
    return size is not None and size <= MOST_ELEMENTS


def _moved(node: oir.Node) -> Sequence[oir.Value | None]:
    """The operands that the elements of a node's output come from."""
    if node.op_type == "Concat":
        return node.inputs
    if node.op_type == "ScatterND":
        return node.inputs[::2]
    return node.inputs[:1] if node.op_type in _FOLLOWED else ()

"""Ghost cells: borders that a body copies from the tensor itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import Unknown, evaluate
from hlo2onnx.ir.values import complete, const_of, dtype_of, present, size_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES
from hlo2onnx.raising.rules.shapes.pad_modes import MODES, WRAP_OPSET, is_padded

MOST_ELEMENTS = 1 << 18
"""The elements of larger tensors are not followed: a limit on compile time, no cost."""

DEEPEST = 24
"""More moves in a row are not followed: a limit on compile time, no cost."""

Places = np.ndarray
"""The flat position of each element in another tensor."""

_FOLLOWED = RESHAPES | {"Expand", "Identity", "Pad", "Slice", "Transpose"}


class ScatterToPad(Rule):
    """ScatterND(x, border, Expand(Slice(x))) -> Pad(Slice(x), mode="edge"), in a loop or a branch

    Legal if elements of x are written or joined at constant positions and are those that a mode
    takes ("edge", "reflect" or "wrap"), on one side or both. Only for small tensors in the body of
    a loop or branch, and if it saves nodes.
    """

    name = "scatter-to-pad"
    formerly = ("ghost-cells",)
    anchors = frozenset({"Concat", "ScatterND"})
    sources = _FOLLOWED | {"Concat", "ScatterND"}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(node.graph is not b.main_graph, "it is in no body", node)
        moves = _Moves(node.graph, min(MOST_ELEMENTS, b.costs.padded_elements))
        parts = set(present(_moved(node)))
        may_share = set.intersection(*map(moves.sources, parts)) if parts else None
        need(may_share, "it writes other values", node)
        x, places = moves.origin(node.outputs[0])
        need(len(moves.nodes) > 2 and x is not node.outputs[0], "it writes other values", node)
        need(
            static_shape(x) == places.shape and places.size,
            "it is empty, or has another shape",
            node,
        )
        rows = list(_rows(places))
        kept = [_kept(taken) for taken in rows]
        for mode in MODES:
            is_known = mode != "wrap" or b.opset >= WRAP_OPSET
            if not is_known or not b.supports(f"Pad[{mode}]", dtype_of(x)):
                continue
            if all(is_padded(*pair, mode) for pair in zip(rows, kept, strict=True)):
                core = b.slice(x, [part.start for part in kept], [part.stop for part in kept])
                widths = [_widths(*pair) for pair in zip(rows, kept, strict=True)]
                pads = b.i64([low for low, _ in widths] + [high for _, high in widths])
                return b.Pad(core, pads, mode=mode)
        raise Refusal("no mode takes these elements", node)


def _rows(places: Places) -> Iterator[np.ndarray]:
    """The rows of a tensor of the same shape that are taken along each axis.

    Raises:
        Refusal: They differ along the other axes.
    """
    for axis, taken in enumerate(np.unravel_index(places, places.shape)):
        row = np.moveaxis(taken, axis, 0).reshape(places.shape[axis], -1)
        need((row == row[:, :1]).all(), "rows are split")
        yield row[:, 0]


def _kept(rows: np.ndarray) -> range:
    """The rows that keep their position."""
    same = np.flatnonzero(rows == np.arange(rows.size))
    need(same.size and same[-1] - same[0] + 1 == same.size, "inner rows move")
    return range(int(same[0]), int(same[-1]) + 1)


def _widths(rows: np.ndarray, kept: range) -> tuple[int, int]:
    return kept.start, len(rows) - kept.stop


class _Moves:
    """The sources of elements.

    Attributes:
        nodes: The nodes that moved them.
    """

    def __init__(self, body: oir.Graph | oir.Function | None, most: float) -> None:
        self._body = body
        self._most = most
        self._known: dict[oir.Value, tuple[oir.Value, Places]] = {}
        self.nodes: set[oir.Node] = set()

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

    def origin(self, value: oir.Value, depth: int = DEEPEST) -> tuple[oir.Value, Places]:
        """The tensor that holds all elements of a value, and their positions in it."""
        if value not in self._known:
            self._known[value] = self._found(value, depth)
        return self._known[value]

    def _found(self, value: oir.Value, depth: int) -> tuple[oir.Value, Places]:
        node, shape = value.producer(), static_shape(value)
        need(self._is_small(value), "it is large", value)
        assert shape is not None
        itself = value, np.arange(math.prod(shape)).reshape(shape)
        if node is None or node.graph is not self._body or node.domain or not depth:
            return itself
        moved = set(present(_moved(node)))
        if not moved or not all(map(self._is_small, moved)):
            return itself
        found = {x: self.origin(x, depth - 1) for x in moved}
        arrays = (found[x][1] if x in found else const_of(x) for x in present(node.inputs))
        inputs = complete(arrays)
        sources = {source for source, _ in found.values()}
        if len(sources) > 1 or inputs is None:
            return itself
        try:
            places = evaluate(node, inputs)
        except Unknown:
            return itself
        self.nodes.add(node)
        return sources.pop(), places.reshape(shape)

    def _is_small(self, x: oir.Value) -> bool:
        size = size_of(x)
        return size is not None and size <= self._most


def _moved(node: oir.Node) -> Sequence[oir.Value | None]:
    """The operands that the elements of a node's output come from."""
    if node.op_type == "Concat":
        return node.inputs
    if node.op_type == "ScatterND":
        return node.inputs[::2]
    return node.inputs[:1] if node.op_type in _FOLLOWED else ()

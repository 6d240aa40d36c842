"""Ghost cells: borders that a body copies from the tensor itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.shape_rules import slice_of
from hlo2onnx.ir.values import const_ints, const_of, dtype_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES
from hlo2onnx.raising.rules.shapes.pad_modes import MODES, WRAP_OPSET, is_padded

MOST_ELEMENTS = 1 << 14
"""In larger tensors, writing a few elements is faster than copying all."""

DEEPEST = 24
"""Longest chain of moves that is followed."""

Places = np.ndarray
"""The flat position of each element in another tensor."""


class ScatterToPad(Rule):
    """ScatterND(x, border, Expand(Slice(x))) -> Pad(Slice(x), mode="edge"), in a loop or a branch

    Legal if elements of x are written or joined at constant positions and are those that a mode
    takes ("edge", "reflect" or "wrap"), on one side or both. Only for small tensors in the body of
    a loop or branch, and if it saves nodes.
    """

    name = "scatter-to-pad"
    formerly = ("ghost-cells",)
    anchors = frozenset({"Concat", "ScatterND"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(node.graph is not b.main_graph, "it is in no body", node)
        moves = _Moves(node.graph)
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

    def __init__(self, body: oir.Graph | oir.Function | None) -> None:
        self._body = body
        self._known: dict[oir.Value, tuple[oir.Value, Places]] = {}
        self.nodes: set[oir.Node] = set()

    def origin(self, value: oir.Value, depth: int = DEEPEST) -> tuple[oir.Value, Places]:
        """The tensor that holds all elements of a value, and their positions in it."""
        if value not in self._known:
            self._known[value] = self._found(value, depth)
        return self._known[value]

    def _found(self, value: oir.Value, depth: int) -> tuple[oir.Value, Places]:
        node, shape = value.producer(), static_shape(value)
        need(shape is not None and math.prod(shape) <= MOST_ELEMENTS, "it is too large", value)
        assert shape is not None
        itself = value, np.arange(math.prod(shape)).reshape(shape)
        if node is None or node.graph is not self._body or node.domain or not depth:
            return itself
        move, operands = _MOVES.get(node.op_type), _operands(node)
        if move is None or not all(map(_is_small, operands)):
            return itself
        found = [self.origin(x, depth - 1) for x in operands]
        places = (
            move(node, [each for _, each in found]) if len({x for x, _ in found}) == 1 else None
        )
        if places is None:
            return itself
        self.nodes.add(node)
        return found[0][0], places.reshape(shape)


def _is_small(x: oir.Value) -> bool:
    shape = static_shape(x)
    return shape is not None and math.prod(shape) <= MOST_ELEMENTS


def _operands(node: oir.Node) -> list[oir.Value]:
    """The operands that elements come from."""
    taken = {"Concat": node.inputs, "ScatterND": node.inputs[::2]}
    return [x for x in taken.get(node.op_type, node.inputs[:1]) if x is not None]


def _reshaped(node: oir.Node, operands: list[Places]) -> Places:
    return operands[0]


def _transposed(node: oir.Node, operands: list[Places]) -> Places:
    return operands[0].transpose(node.attributes["perm"].as_ints())


def _expanded(node: oir.Node, operands: list[Places]) -> Places:
    return np.broadcast_to(operands[0], static_shape(node.outputs[0]) or ())


def _sliced(node: oir.Node, operands: list[Places]) -> Places | None:
    bounds = [const_ints(x) for x in node.inputs[1:]]
    known = [items for items in bounds if items is not None]
    if len(known) < max(len(bounds), 3):
        return None
    starts, ends, axes, *steps = known
    cuts = [slice(None)] * operands[0].ndim
    rows = zip(starts, ends, axes, steps[0] if steps else (1,) * len(axes), strict=True)
    for start, end, axis, step in rows:
        cuts[axis] = slice_of(operands[0].shape[axis], start, end, step)
    return operands[0][tuple(cuts)]


def _joined(node: oir.Node, operands: list[Places]) -> Places:
    return np.concatenate(operands, node.attributes["axis"].as_int())


def _padded(node: oir.Node, operands: list[Places]) -> Places | None:
    mode = node.attributes.get_string("mode", "constant") or "constant"
    pads = const_ints(node.inputs[1]) if len(node.inputs) == 2 else None
    if mode not in MODES or pads is None or min(pads) < 0:
        return None
    half = len(pads) // 2
    widths = list(zip(pads[:half], pads[half:], strict=True))
    return np.pad(operands[0], widths, mode)  # type: ignore[call-overload,no-any-return]


def _written(node: oir.Node, operands: list[Places]) -> Places | None:
    indices = const_of(node.inputs[1])
    if indices is None or node.attributes.get_string("reduction", "none") != "none":
        return None
    written = operands[0].copy()
    written[tuple(np.moveaxis(indices, -1, 0))] = operands[1]
    return written


_MOVES: dict[str, Callable[[oir.Node, list[Places]], Places | None]] = {
    **dict.fromkeys(RESHAPES | {"Identity"}, _reshaped),
    "Concat": _joined,
    "Expand": _expanded,
    "Pad": _padded,
    "ScatterND": _written,
    "Slice": _sliced,
    "Transpose": _transposed,
}

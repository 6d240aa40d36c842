"""Padding with a tensor's own rows, as jnp.pad writes it -> Pad with a mode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.shapes import slice_of
from hlo2onnx.ir.values import const_ints, dtype_of, shape_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, maker_of
from hlo2onnx.raising.rules.shapes.tile import tiled

MODES = ("edge", "reflect", "wrap")
WRAP_OPSET = 19

DEEPEST = 8
"""Nested Concats and Slices that are followed. Padding every axis needs fewer."""


class PadModes(Rule):
    """Concat(x[:1], x, x[-1:]) -> Pad(x, mode="edge"), and so for mode "reflect" and "wrap"

    Legal if the constant slices and repetitions of x on both sides are the rows of that mode.
    Several of these along different axes become one Pad.
    """

    name = "pad-modes"
    anchors = frozenset({"Concat", "Pad"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        return _composed(node, b) if node.op_type == "Pad" else _padded(node, b)


def _padded(node: oir.Node, b: Rewriter) -> oir.Value:
    axis = node.attributes["axis"].as_int() % len(shape_of(node.outputs[0]))
    parts = list(_parts(node, axis))
    # Take the inner Concat first, so that one Pad takes both sides.
    inside = filter(None, (_inside(part, axis) for part in parts))
    for x in dict.fromkeys([*inside, *parts]):
        found = _mode(x, parts, axis)
        if found is None:
            continue
        mode, before, behind = found
        is_known = mode != "wrap" or b.opset >= WRAP_OPSET
        if not is_known or not b.supports(f"Pad[{mode}]", dtype_of(x)):
            continue
        rank = len(static_shape(x) or ())
        pads = [0] * (2 * rank)
        pads[axis], pads[axis + rank] = before, behind
        return b.Pad(x, b.i64(pads), mode=mode)
    raise Refusal("it does not pad a tensor with its own rows", node)


def _composed(node: oir.Node, b: Rewriter) -> oir.Value:
    inner = needed(maker_of(first(node), "Pad"), "its operand is not padded", node)
    mode = _mode_of(node)
    need(mode in MODES and _mode_of(inner) == mode, "the modes differ", node)
    pairs = list(zip(_pads(node), _pads(inner), strict=False))
    need(pairs, "its pads are computed", node)
    need(not any(any(one) and any(other) for one, other in pairs), "both pad one axis", node)
    sums = [one[side] + other[side] for side in (0, 1) for one, other in pairs]
    return b.Pad(first(inner), b.i64(sums), mode=mode)


def _mode_of(node: oir.Node) -> str:
    return node.attributes.get_string("mode", "constant") or "constant"


def _pads(node: oir.Node) -> list[tuple[int, int]]:
    """The pads of a Pad before and after each axis; empty if they are computed."""
    pads = const_ints(node.inputs[1]) if len(node.inputs) == 2 else None
    half = len(pads or ()) // 2
    return [] if pads is None else list(zip(pads[:half], pads[half:], strict=True))


def _inside(part: oir.Value, axis: int) -> oir.Value | None:
    """The tensor that a Pad pads with its own rows along this axis alone."""
    node = part.producer()
    if node is None or node.op_type != "Pad" or _mode_of(node) not in MODES:
        return None
    others = [pads for place, pads in enumerate(_pads(node)) if place != axis and any(pads)]
    return first(node) if _pads(node) and not others else None


def _parts(node: oir.Node, axis: int, depth: int = DEEPEST) -> Iterator[oir.Value]:
    """The operands of a Concat along an axis, those of nested Concats included."""
    for part in node.inputs:
        assert part is not None
        maker = part.producer()
        is_joined = depth and maker is not None and maker.op_type == "Concat"
        rank = len(shape_of(part))
        if maker is not None and is_joined and maker.attributes["axis"].as_int() % rank == axis:
            yield from _parts(maker, axis, depth - 1)
        else:
            yield part


def _mode(x: oir.Value, parts: Sequence[oir.Value], axis: int) -> tuple[str, int, int] | None:
    """The mode that pads x with these parts, and the number of rows on either side."""
    shape = static_shape(x)
    # ONNX Runtime refuses to wrap empty tensors.
    if shape is None or not math.prod(shape) or all(part is x for part in parts):
        return None
    rows: list[int] = []
    before = 0
    for part in parts:
        taken = _rows(part, x, axis)
        if taken is None:
            return None
        maker = part.producer()
        if part is x:
            before = len(rows)
        elif maker is not None and _inside(part, axis) is x:
            before = len(rows) + _pads(maker)[axis][0]
        rows += taken
    kept = range(before, before + shape[axis])
    if rows[kept.start : kept.stop] != list(range(shape[axis])):
        return None
    for mode in MODES:
        if is_padded(np.array(rows), kept, mode):
            return mode, before, len(rows) - kept.stop
    return None


def is_padded(rows: np.ndarray, kept: range, mode: str) -> bool:
    """Whether a mode makes these rows of the kept ones, without wrapping twice."""
    widths = (kept.start, len(rows) - kept.stop)
    most = {"reflect": len(kept) - 1, "wrap": len(kept)}.get(mode, len(rows))
    core = rows[kept.start : kept.stop]
    return max(widths) <= most and np.array_equal(rows, np.pad(core, widths, mode))  # type: ignore[call-overload]


def _rows(part: oir.Value, x: oir.Value, axis: int, depth: int = DEEPEST) -> list[int] | None:
    """The rows of x in a part."""
    if part is x:
        return list(range((static_shape(x) or ())[axis]))
    if not depth:
        return None
    repeated = tiled(part)
    if repeated is not None:
        row, times = repeated
        rows = _rows(row, x, axis, depth - 1) if math.prod(times) == times[axis] else None
        return None if rows is None else rows * times[axis]
    node = part.producer()
    if node is not None and _inside(part, axis) is not None:
        rows, (low, high) = _rows(first(node), x, axis, depth - 1), _pads(node)[axis]
        if not rows:
            return None
        padded = np.pad(rows, (low, high), _mode_of(node))  # type: ignore[call-overload]
        return [int(row) for row in padded]
    if node is None or node.op_type != "Slice":
        return None
    inner, (start, end, axes, step) = first(node), _bounds(node)
    if axes not in ((axis,), (axis - len(static_shape(part) or ()),)):
        return None
    rows = _rows(inner, x, axis, depth - 1)
    return None if rows is None else rows[slice_of(len(rows), start, end, step)]


def _bounds(node: oir.Node) -> tuple[int, int, tuple[int, ...], int]:
    """Start, end, axes and step of a Slice along one axis; no axes for others."""
    known = [const_ints(x) for x in node.inputs[1:]]
    if len(known) < 3 or any(items is None or len(items) != 1 for items in known):
        return 0, 0, (), 1
    starts, ends, axes, *steps = [items for items in known if items is not None]
    return starts[0], ends[0], axes, steps[0][0] if steps else 1

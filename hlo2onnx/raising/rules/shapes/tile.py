"""Tensors repeated along whole axes, as by jnp.tile -> Tile."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, dtype_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, source_of

_FEWEST_ELEMENTS = 8
"""Elements that Tile must copy at once. One element 65,536 times takes 120 µs, Expand 15 µs; from
this number on, Tile takes half the time of Reshape, Expand and Reshape."""


class TileOperator(Rule):
    """Reshape(Expand(Reshape(x))) -> Tile(x) where whole axes are repeated

    Legal if each axis is repeated as a whole, not each element of it. Expand stays if few elements
    would be copied at once, as it is then faster.
    """

    name = "tile"
    anchors = RESHAPES
    sources = frozenset({"Expand"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found = needed(tiled(node.outputs[0]), "it does not repeat whole axes", node)
        x, repeats = found
        last = max((axis for axis, count in enumerate(repeats) if count != 1), default=0)
        block = math.prod((static_shape(x) or ())[last:])
        need(block >= _FEWEST_ELEMENTS, "Expand repeats small blocks faster", node)
        need(b.supports("Tile", dtype_of(x)), "no Tile for its type", node)
        return b.Tile(x, b.i64(repeats))


def tiled(value: oir.Value) -> tuple[oir.Value, tuple[int, ...]] | None:
    """The operand that is repeated to make this value, by Tile or Reshape(Expand(Reshape(x))), and
    the repeats along each axis."""
    node = value.producer()
    if node is not None and node.op_type == "Tile":
        x, repeats = node.inputs
        times = const_ints(repeats)
        return None if x is None or times is None else (x, times)
    expanded = source_of(value, *RESHAPES)
    view = None if expanded is None else source_of(expanded, "Expand")
    x = None if view is None else source_of(view, *RESHAPES)
    if expanded is None or view is None or x is None:
        return None
    shapes = [dims for dims in map(static_shape, (x, view, expanded, value)) if dims is not None]
    if len(shapes) < 4:
        return None
    one, before, after, whole = shapes
    if len(one) != len(whole) or len(before) != len(after) or not math.prod(whole):
        return None
    times = tuple(many // dim for many, dim in zip(whole, one, strict=True))
    if any(many != dim * count for many, dim, count in zip(whole, one, times, strict=True)):
        return None
    # Expand must grow a 1 right before each repeated axis. Other 1s do not matter.
    wanted = [
        step
        for count, dim in zip(times, one, strict=True)
        for step in ((count, True), (dim, False))
    ]
    grown = [(dim, dim != old) for dim, old in zip(after, before, strict=True)]
    fits = [step for step in wanted if step[0] != 1] == [step for step in grown if step[0] != 1]
    return (x, times) if fits else None

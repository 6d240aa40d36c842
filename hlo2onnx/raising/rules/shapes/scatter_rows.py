"""Scatters to rows that are known: rows read from them, and chains of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import extent_of, first, is_private, maker_of, operands
from hlo2onnx.raising.rules.shapes.slices import ranges_of


class SliceOfScatter(Rule):
    """Slice(ScatterND(x, i, y)) -> Slice(x), where it takes no rows that y has; of rows that y has
    one after the other -> y, or a Slice of y

    Legal for a Slice of rows in steps of 1, and different rows i that are constants.
    """

    name = "slice-of-scatter"
    anchors = frozenset({"Slice"})
    sources = frozenset({"ScatterND"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        scatter = needed(maker_of(first(node), "ScatterND"), "it slices something else", node)
        rows, ranges = rows_of(scatter), ranges_of(node)
        need(ranges is not None and list(ranges) == [0], "it slices other axes than rows", node)
        assert ranges is not None
        taken, (x, _, y) = ranges[0], operands(scatter)
        need(taken.step == 1, "its step is not 1", node)
        if not set(taken) & set(rows):
            return b.slice(x, [taken.start], [taken.stop], axes=[0])
        need(taken.start in rows, "it takes rows of both", node)
        start = rows.index(taken.start)
        end = start + len(taken)
        need(rows[start:end] == list(taken), "it takes rows of both, or in another order", node)
        return y if len(taken) == len(rows) else b.slice(y, [start], [end], axes=[0])


class ComposeScatters(Rule):
    """ScatterND(ScatterND(x, i, y), j, z) -> ScatterND(x, Concat(i, j), Concat(y, z)), without the
    rows of i that j has, too

    Legal if i and j are constants, and each has different rows. The rows of i that stay must be
    consecutive in y. Done if nothing else reads the inner one.
    """

    name = "compose-scatters"
    anchors = frozenset({"ScatterND"})
    sources = frozenset({"ScatterND"})
    # Slices of the inner one are gone.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inner = needed(maker_of(first(node), "ScatterND"), "it scatters to something else", node)
        need(is_private(first(node)), "others read the inner one", inner)
        (x, _, y), (_, _, z), rows = operands(inner), operands(node), rows_of(inner)
        later = rows_of(node)
        kept = [place for place, row in enumerate(rows) if row not in later]
        if not kept:
            return _scattered(b, x, later, z)
        start, end = kept[0], kept[-1] + 1
        need(end - start == len(kept), "the rows that stay are apart", node)
        if len(kept) < len(rows):
            y = b.slice(y, [start], [end], axes=[0])
        return _scattered(b, x, [*rows[start:end], *later], b.concat([y, z], 0))


def rows_of(scatter: oir.Node) -> list[int]:
    """The rows that a ScatterND writes.

    Raises:
        Refusal: They are not known, or not different, or it adds to what is there.
    """
    index = const_of(scatter.inputs[1])
    need(index is not None and index.ndim == 2, "its places are not known", scatter)
    assert index is not None
    extent = needed(extent_of(first(scatter), 0), "its extent is dynamic", scatter)
    need(index.shape[1] == 1, "it does not write whole rows", scatter)
    kind = scatter.attributes.get_string("reduction", "none")
    need(kind == "none", "it adds to what is there", scatter)
    rows = [int(row) + (extent if row < 0 else 0) for row in index[:, 0].tolist()]
    need(len(set(rows)) == len(rows) > 0, "it writes a row twice, or none", scatter)
    return rows


def _scattered(b: Rewriter, x: oir.Value, rows: Sequence[int], y: oir.Value) -> oir.Value:
    """x with other rows."""
    if list(rows) == list(range(extent_of(x, 0) or 0)) and shape_of(y) == shape_of(x):
        return y
    index = b.const(np.array(rows, np.int64).reshape(-1, 1))
    made: oir.Value = b.ScatterND(x, index, y)
    return made

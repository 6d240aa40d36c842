"""Rows read from scatters to rows that are known."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import const_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import extent_of, first, maker_of, operands, ranges_of


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
        rows, ranges = _rows_of(scatter), ranges_of(node)
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


def _rows_of(scatter: oir.Node) -> list[int]:
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

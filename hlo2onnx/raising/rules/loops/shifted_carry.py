"""States that hold a row of the previous trip are read as rows."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import counted, rebuilt, separate
from hlo2onnx.raising.vectorize.batching import batched_body


class ShiftedCarry(Rule):
    """Loop(h = x[i]) -> Loop(h[i]) with h = the state before, then x; so of h = f(x[i])

    Legal if the new state depends only on the number of the trip and on values made before the
    loop, as in `loop-vectorize`. The state is then the row of the previous trip, and values that
    depend on it can be computed for all trips at once. Loops over time keep the next value like
    this when they compute advantages.
    """

    name = "shifted-carry"
    formerly = ("earlier-row",)
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        batcher = batched_body(b, trips)
        after = [origin(value) for value in trips.after]
        found = [k for k, value in enumerate(after) if value in batcher.rows]
        need(found, "no state depends on rows alone", node)
        kept = [k for k in range(len(after)) if k not in found]
        final: dict[int, oir.Value] = {}
        for k in found:
            state, batched = trips.states[k], batcher.rows[after[k]]
            types = [(dtype_of(state), shape_of(state))]
            first = b.unsqueeze(trips.initial[k], [0])
            earlier = b.concat([first, b.slice(batched, [0], [trips.count - 1], axes=[0])], 0)
            final[k] = b.op("Gather", batched, b.i64(trips.count - 1), axis=0, types=types)
            with b.before(trips.body[0]):
                row = b.op("Gather", earlier, trips.number, axis=0, types=types)
            oir.convenience.replace_all_uses_with(state, row, replace_graph_outputs=True)
        left, stacks = rebuilt(b, trips, trips.rows, kept)
        final.update(zip(kept, left, strict=True))
        values = [*(final[k] for k in range(len(after))), *stacks]
        pairs = zip(trips.loop.outputs, values, strict=True)
        return [separate(b, old, value) for old, value in pairs]

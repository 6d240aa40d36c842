"""The parts of `partition-loop` as rules of their own, for near misses of one part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as oir

from hlo2onnx.raising.engine import Rewriter, Rule, needed
from hlo2onnx.raising.match.counted_loop import counted
from hlo2onnx.raising.rules.loops.partition import fixed_states
from hlo2onnx.raising.vectorize.chains import chain_apart
from hlo2onnx.raising.vectorize.constant_states import constant_states
from hlo2onnx.raising.vectorize.early import early_values
from hlo2onnx.raising.vectorize.late import late_values


class Part(Rule):
    """Loop -> what one part makes of it."""

    name = "part"
    anchors = frozenset({"Loop"})

    def __init__(self, part: Callable[[oir.Node, Rewriter], Sequence[oir.Value]]) -> None:
        self._part = part

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        return self._part(node, b)


def _early(node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
    return needed(early_values(b, counted(node)).moved(), "no value is early", node)


def _late(node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
    trips = counted(node)
    return needed(late_values(b, trips, early_values(b, trips).rows), "no value is late", node)


def _chain(node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
    trips = counted(node)
    return needed(chain_apart(b, trips, early_values(b, trips).rows), "there is no chain", node)


FIXED, CONSTANT = Part(fixed_states), Part(constant_states)
EARLY, LATE, CHAIN = Part(_early), Part(_late), Part(_chain)

"""The axes of reductions."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, rank_of
from hlo2onnx.raising.engine import need, needed
from hlo2onnx.raising.match.views import first

REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
"""Reductions that return x over an axis of extent 1."""


def reduced_axes(node: oir.Node) -> tuple[int, ...]:
    """The reduced axes, non-negative and sorted.

    Raises:
        Refusal: They are not constant, or there are none.
    """
    rank = rank_of(first(node))
    given = needed(
        const_ints(node.inputs[1]) if len(node.inputs) > 1 else (),
        "its axes are computed at run time",
        node,
    )
    if not given:
        need(not node.attributes.get_int("noop_with_empty_axes", 0), "it reduces no axis", node)
        return tuple(range(rank))
    return tuple(sorted(axis % rank for axis in given))


def keeps_axes(node: oir.Node) -> bool:
    """Whether a reduction keeps the reduced axes, with extent 1."""
    return bool(node.attributes.get_int("keepdims", 1))

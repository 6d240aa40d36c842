"""Sums of squares and of magnitudes, and norms, as single reductions."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, static_shape
from hlo2onnx.raising.engine import Rule, need
from hlo2onnx.raising.equations import Equation, Equations, Match, runs
from hlo2onnx.raising.match.reductions import reduced_axes

_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


class Row(Equations):
    """A row of this table."""


def _is_exact_and_fast(match: Match) -> None:
    """The kernel supports the type and is exact and fast; x is not empty, or the result would have
    a wrong shape."""
    x, b, node = match["x"], match.b, match["axes"].producer()
    dims = static_shape(x)
    need(dims, "its extents are not known, or it is a scalar", x)
    need(dtype_of(x) in _TYPES, "no kernel for its type", x)
    assert dims and node is not None
    axes = reduced_axes(node)
    need(0 < math.prod(dims) <= b.costs.small_elements, "the kernel is slow, or x may be empty", x)
    terms = math.prod(dims[axis] for axis in axes)
    trailing = axes == tuple(range(rank_of(x) - len(axes), rank_of(x)))
    most = b.costs.inner_sum_terms if trailing else b.costs.outer_sum_terms
    need(not b.target.flags.naive_sums or terms < most, "the kernel loses digits", x)


_WHY = """Legal in f32 and f64, except for sums so long that the target loses digits: those are
split into shorter ones. Done if it is as fast, for at least one element."""

RULES: tuple[Rule, ...] = (
    Row(
        "reduce-sum-square",
        Equation("ReduceSum(x * x, *axes) -> ReduceSumSquare(x, *axes)", runs("ReduceSumSquare")),
        Equation("ReduceSum(Abs(x), *axes) -> ReduceL1(x, *axes)", runs("ReduceL1")),
        guards=[_is_exact_and_fast],
        why=_WHY,
        formerly=["sum-of-terms"],
        phase=1,
    ),
    Row(
        "reduce-l2",
        "Sqrt(ReduceSumSquare(x, *axes)) -> ReduceL2(x, *axes)",
        guards=[runs("ReduceL2"), _is_exact_and_fast],
        why=_WHY,
        formerly=["norm"],
        phase=1,
    ),
)

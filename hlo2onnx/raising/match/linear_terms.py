"""Linear terms of a value in a loop's body: products with matrices, and biases.

Recurrent cells write their gates in many ways: one matrix for all gates or one for each, split
before or after the sum, weights on the left or the right, inputs projected in the loop or before
it, next to the state or joined to it. All are sums of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx_ir as oir

from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import Dim, complete, const_ints, const_number, rank_of, shape_of
from hlo2onnx.raising.match.counted_loop import Trips
from hlo2onnx.raising.match.views import long_axes, ranges_of


@dataclass(frozen=True)
class Turn:
    """A Slice along the axis of the trips.

    Attributes:
        extent: Of the result.
    """

    start: int
    end: int
    step: int
    extent: Dim


@dataclass(frozen=True)
class Part:
    """A range of a value along one axis, its features.

    Attributes:
        axis: The axis of the features.
        low: The first of them.
        high: The one after the last.
        time: The axis of the trips, if the value was made for all of them before the loop.
        turns: Slices to apply along that axis, in order.
    """

    value: oir.Value
    axis: int
    low: int
    high: int
    time: int | None = None
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """Some rows and columns of a matrix from outside the loop: inputs by features.

    Attributes:
        transposed: Whether the value holds features by inputs.
    """

    value: oir.Value
    rows: tuple[int, int]
    columns: tuple[int, int]
    transposed: bool


@dataclass(frozen=True)
class Product:
    """left @ matrix, subtracted if the sign is -1."""

    left: Part
    matrix: Matrix
    sign: int


@dataclass(frozen=True)
class Bias:
    """A vector of features, or one number, from outside the loop: the same in each trip.

    Attributes:
        axis: The axis of its features, counted from the last one.
    """

    value: oir.Value
    axis: int
    low: int
    high: int
    sign: int


@dataclass(frozen=True)
class Other:
    """Anything else."""

    part: Part
    sign: int


Term = Product | Bias | Other


class Sums:
    """Splits sums in a loop's body into terms.

    Args:
        trips: The loop.
    """

    def __init__(self, trips: Trips) -> None:
        self._trips = trips

    def whole(self, value: oir.Value) -> Part | None:
        """All features of a value, which lie along its last axis."""
        extent = shape_of(value)[-1] if rank_of(value) else None
        return Part(value, rank_of(value) - 1, 0, extent) if isinstance(extent, int) else None

    def stripped(self, part: Part) -> Part:
        """The same elements, before moves."""
        while (earlier := self._earlier(part)) is not None:
            part = earlier
        return part

    def terms(self, part: Part, sign: int = 1) -> Iterator[Term]:
        """The terms of this part."""
        part = self.stripped(part)
        node = part.value.producer()
        if self._is_fixed(part):
            yield _bias(part, part.axis - rank_of(part.value), sign)
        elif node is not None and node.op_type in ("Add", "Sub", "Neg"):
            yield from self._sum(part, node, sign)
        elif node is not None and node.op_type in ("MatMul", "Gemm"):
            yield from self._product(part, node, sign)
        else:
            yield Other(part, sign)

    def _is_fixed(self, part: Part) -> bool:
        return part.time is None and self._trips.is_outer(part.value)

    # -- moves ----------------------------------------------------------------------------------

    def _earlier(self, part: Part) -> Part | None:
        node = part.value.producer()
        if node is None or node.domain or not node.inputs or node.inputs[0] is None:
            return None
        if self._is_fixed(part):
            return None
        x = node.inputs[0]
        if node.op_type == "Identity":
            return replace(part, value=x)
        if node.op_type == "Transpose":
            perm = node.attributes["perm"].as_ints()
            time = None if part.time is None else perm[part.time]
            return replace(part, value=x, axis=perm[part.axis], time=time)
        if node.op_type in RESHAPES:
            return _before_reshape(part, x)
        if node.op_type == "Slice":
            return _before_slice(part, node, x)
        if node.op_type in ("Concat", "Split"):
            return _before_joining(part, node)
        turns = self._rows(node) if node.op_type == "Gather" else None
        if turns is not None:
            return replace(part, value=x, axis=part.axis + 1, time=0, turns=turns)
        return None

    def _rows(self, node: oir.Node) -> tuple[Turn, ...] | None:
        """The order in which a Gather takes the rows of a tensor with one row for each trip: first
        to last, or last to first; None for others."""
        x, index = node.inputs
        is_first = node.attributes.get_int("axis", 0) == 0 and self._trips.is_outer(x)
        length = self._trips.length
        if x is None or index is None or not is_first or shape_of(x)[0] != length:
            return None
        if index is self._trips.number:
            return ()
        before = index.producer()
        if before is None or before.op_type != "Sub" or before.inputs[1] is not self._trips.number:
            return None
        backwards = const_number(before.inputs[0]) in (-1, length - 1)
        return (Turn(-1, INT64_MIN, -1, length),) if backwards else None

    # -- sums and products ----------------------------------------------------------------------

    def _sum(self, part: Part, node: oir.Node, sign: int) -> Iterator[Term]:
        signs = (-1, 1) if node.op_type == "Neg" else (1, -1) if node.op_type == "Sub" else (1, 1)
        operands = [self._operand(part, x) for x in node.inputs]
        if None in operands:
            yield Other(part, sign)
            return
        for operand, its in zip(operands, signs, strict=False):
            assert operand is not None
            yield from self._term(operand, part, sign * its)

    def _operand(self, part: Part, x: oir.Value | None) -> Part | None:
        """The part of a sum's operand that is added to a part of the sum; None if it broadcasts and
        is not a bias."""
        assert x is not None
        if shape_of(x) == shape_of(part.value):
            return replace(part, value=x)
        return _aligned(part, x) if self._is_bias(x, part) else None

    def _term(self, operand: Part, part: Part, sign: int) -> Iterator[Term]:
        """The terms of one operand of the sum that contains a part."""
        if operand.time is None and self._trips.is_outer(operand.value):
            axis = part.axis - rank_of(part.value)
            yield _bias(replace(part, value=operand.value), axis, sign)
        else:
            yield from self.terms(operand, sign)

    def _is_bias(self, x: oir.Value, part: Part) -> bool:
        """Whether x varies along the feature axis only, or not at all."""
        if part.time is None and not self._trips.is_outer(x):
            return False
        return _is_vector(x, part.axis - rank_of(part.value))

    def _product(self, part: Part, node: oir.Node, sign: int) -> Iterator[Term]:
        left, right, *added = node.inputs
        assert left is not None and right is not None
        rank = rank_of(part.value)
        is_plain = node.op_type == "MatMul" or _is_plain(node)
        biases = [self._operand(part, x) for x in added]
        swapped = part.axis == rank - 2 and node.op_type == "MatMul"
        data, weight = (right, left) if swapped else (left, right)
        fits = is_plain and (swapped or part.axis == rank - 1) and rank_of(weight) == 2
        fits = fits and None not in biases
        if not fits or not (part.time is not None or self._trips.is_outer(weight)):
            yield Other(part, sign)
            return
        axis = rank - (
            2 if swapped else 1
        )  # a product with a matrix has the rank of its left operand
        extent = shape_of(data)[axis]
        if not isinstance(extent, int):
            yield Other(part, sign)
            return
        transposed = swapped or bool(node.attributes.get_int("transB", 0))
        given = Part(data, axis, 0, extent, part.time, part.turns)
        for piece, first in self._pieces(given):
            rows = (first, first + piece.high - piece.low)
            yield Product(piece, Matrix(weight, rows, (part.low, part.high), transposed), sign)
        for bias in biases:
            assert bias is not None
            yield from self._term(bias, part, sign)

    def _pieces(self, part: Part) -> Iterator[tuple[Part, int]]:
        """The pieces that were joined to make a part, and where each one starts in it."""
        part = self.stripped(part)
        node = part.value.producer()
        # A Concat for all trips is one input.
        is_joined = part.time is None and not self._is_fixed(part)
        is_joined = is_joined and node is not None and node.op_type == "Concat"
        axis = 0
        if node is not None and is_joined:
            axis = node.attributes.get_int("axis", 0) % rank_of(part.value)
        if node is None or not is_joined or axis != part.axis:
            yield part, 0
            return
        start = 0
        for x in node.inputs:
            assert x is not None
            extent = shape_of(x)[axis]
            if not isinstance(extent, int):
                return
            low, high = max(part.low - start, 0), min(part.high - start, extent)
            if low < high:
                offset = start + low - part.low
                for piece, first in self._pieces(replace(part, value=x, low=low, high=high)):
                    yield piece, offset + first
            start += extent


def _is_plain(node: oir.Node) -> bool:
    """Whether a Gemm is just a product and a sum."""
    scales = {node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")}
    return scales == {1.0} and not node.attributes.get_int("transA", 0)


def _bias(part: Part, axis: int, sign: int) -> Term:
    """The bias that is added from outside the loop, if it is the same for the whole batch."""
    if _is_vector(part.value, axis):
        return Bias(part.value, axis, part.low, part.high, sign)
    return Other(part, sign)


def _is_vector(x: oir.Value, features: int) -> bool:
    """Whether x varies along one axis only, counted from the last one, or not at all."""
    place = features + rank_of(x)
    return all(dim == 1 for axis, dim in enumerate(shape_of(x)) if axis != place)


def _aligned(part: Part, x: oir.Value) -> Part:
    """The part of an operand that broadcasts."""
    return Part(x, part.axis - rank_of(part.value) + rank_of(x), part.low, part.high)


def _before_reshape(part: Part, x: oir.Value) -> Part | None:
    """Legal where a Reshape only makes or drops axes of 1."""
    moved = long_axes(shape_of(part.value), shape_of(x)) or {}
    if part.axis not in moved or (part.time is not None and part.time not in moved):
        return None
    time = None if part.time is None else moved[part.time]
    return replace(part, value=x, axis=moved[part.axis], time=time)


def _before_slice(part: Part, node: oir.Node, x: oir.Value) -> Part | None:
    """Legal for a range of the features, or of the trips in any order."""
    axes = const_ints(node.inputs[3]) if len(node.inputs) > 3 else None
    if axes is not None and part.time is not None and [a % rank_of(x) for a in axes] == [part.time]:
        bounds = complete(map(const_ints, (*node.inputs[1:3], *node.inputs[4:])))
        if bounds is None:
            return None
        start, end, step = (*(bound[0] for bound in bounds), 1)[:3]
        turn = Turn(start, end, step, shape_of(part.value)[part.time])
        return replace(part, value=x, turns=(turn, *part.turns))
    ranges = ranges_of(node)
    if ranges is None or list(ranges) != [part.axis] or ranges[part.axis].step != 1:
        return None
    start = ranges[part.axis].start
    return replace(part, value=x, low=part.low + start, high=part.high + start)


def _before_joining(part: Part, node: oir.Node) -> Part | None:
    """The piece of a Concat that holds the part, or the operand of a Split."""
    rank = rank_of(part.value)
    if node.attributes.get_int("axis", 0) % rank != part.axis:
        return None
    pieces = list(node.inputs if node.op_type == "Concat" else node.outputs)
    start = 0
    for piece in pieces:
        extent = shape_of(piece)[part.axis] if piece is not None else None
        if piece is None or not isinstance(extent, int):
            return None
        if node.op_type == "Split" and piece is part.value:
            x = node.inputs[0]
            assert x is not None
            return replace(part, value=x, low=part.low + start, high=part.high + start)
        if node.op_type == "Concat" and start <= part.low and part.high <= start + extent:
            return replace(part, value=piece, low=part.low - start, high=part.high - start)
        start += extent
    return None

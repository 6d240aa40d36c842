"""Products of two tensors that are linear in each: contraction as MatMul, accumulation types,
complex numbers as four real products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

T = oir.DataType


@dataclass(frozen=True)
class Operand:
    """One operand of a contraction; its k-th batch and contracting axes pair with the other's."""

    value: oir.Value
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The axes that are neither batch nor contracting, in order."""
        taken = {*self.batch, *self.contracting}
        return tuple(axis for axis in range(len(shape_of(self.value))) if axis not in taken)

    def dims(self, axes: Sequence[int]) -> tuple[Dim, ...]:
        """Extents of these axes."""
        return tuple(shape_of(self.value)[axis] for axis in axes)


def contract(
    em: Emitter, lhs: Operand, rhs: Operand, readers_perm: Sequence[int] | None = None
) -> oir.Value:
    """The contraction, with axes batch + free of lhs + free of rhs.

    Among the MatMuls that compute it (either operand on the left, contracting axes in the order
    of either operand, free axes in the operand's order or the reader's) the one with the fewest
    transposes is emitted. Among equals, operands are transposed and not the result, which for two
    sequences is larger than both, or the result keeps its last axis.

    Args:
        lhs: Left operand.
        rhs: Right operand, of the same element type.
        readers_perm: The permutation by which the program transposes the result. It merges with a
            transpose of the result here.
    """
    dims = lhs.dims(lhs.batch) + lhs.dims(lhs.free) + rhs.dims(rhs.free)
    if 0 in (*dims, *lhs.dims(lhs.contracting)):
        return zeros(em, dtype_of(lhs.value), dims)
    if not lhs.contracting:
        return _outer(em, lhs, rhs)
    readers_perm = range(len(dims)) if readers_perm is None else readers_perm
    places = [readers_perm.index(axis) for axis in range(len(lhs.batch), len(dims))]
    first, second = places[: len(lhs.free)], places[len(lhs.free) :]
    plans = [
        plan
        for order in _orders(lhs, rhs)
        for lhs_free in _free_orders(lhs, first)
        for rhs_free in _free_orders(rhs, second)
        for plan in (
            _Plan(lhs, rhs, order, lhs_free, rhs_free, False),
            _Plan(rhs, lhs, order, rhs_free, lhs_free, True),
        )
    ]
    return min(plans, key=lambda plan: plan.transposes(em, readers_perm)).emit(em)


def _free_orders(operand: Operand, places: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """The free axes in their own order and in that of their places."""
    by_place = (axis for _, axis in sorted(zip(places, operand.free, strict=True)))
    return dict.fromkeys((operand.free, tuple(by_place)))


def zeros(em: Emitter, dtype: oir.DataType, dims: Sequence[Dim]) -> oir.Value:
    """A tensor of zeros, which an empty sum gives."""
    return em.expand(em.scalar(0, dtype), dims)


@dataclass(frozen=True)
class _Plan:
    """MatMul(left as batch + free + contracting, right as batch + contracting + free).

    `order` lists the pairs of contracting axes in the order in which they are joined, `left_free`
    and `right_free` the free axes; `swapped` says that left is the rhs of the contraction.
    """

    left: Operand
    right: Operand
    order: tuple[int, ...]
    left_free: tuple[int, ...]
    right_free: tuple[int, ...]
    swapped: bool

    def _contracting(self, operand: Operand) -> tuple[int, ...]:
        return tuple(operand.contracting[pair] for pair in self.order)

    @property
    def left_perm(self) -> tuple[int, ...]:
        return self.left.batch + self.left_free + self._contracting(self.left)

    @property
    def right_perm(self) -> tuple[int, ...]:
        return self.right.batch + self._contracting(self.right) + self.right_free

    @property
    def result_perm(self) -> tuple[int, ...]:
        """From batch + free of left + free of right to the contraction's own order."""
        batch = len(self.left.batch)
        rows = [self.left.free.index(axis) for axis in self.left_free]
        columns = [self.right.free.index(axis) for axis in self.right_free]
        starts = (len(columns), 0) if self.swapped else (0, len(rows))
        axes = [*range(batch)]
        for start, part in zip(starts, (rows, columns), strict=True):
            axes += [batch + start + axis for axis in part]
        return tuple(axes.index(axis) for axis in range(len(axes)))

    def transposes(self, em: Emitter, readers_perm: Sequence[int]) -> tuple[int, bool, bool]:
        """How many tensors computed at run time this plan moves around, whether the result is one
        of them, and whether its last axis moves."""
        result = self.left.dims(self.left.batch + self.left_free) + self.right.dims(self.right_free)
        final = [self.result_perm[axis] for axis in readers_perm]
        result_moves = _moves(result, final)
        count = (
            (_moves(shape_of(self.left.value), self.left_perm) and _runtime(em, self.left))
            + (_moves(shape_of(self.right.value), self.right_perm) and _runtime(em, self.right))
            + result_moves
        )
        return count, result_moves, final[-1:] != [len(final) - 1]

    def emit(self, em: Emitter) -> oir.Value:
        """The nodes.

        The rows of left stay several axes where MatMul takes them, which is without batch axes:
        then right is a matrix and MatMul broadcasts it.
        """
        batch, rows, columns = self.left.batch, self.left_free, self.right_free
        row_groups = [1] * len(rows) if rows and not batch else [len(rows)]
        pairs, singles = len(self.order), [1] * len(batch)
        left = em.transpose(self.left.value, self.left_perm)
        left = _join(em, left, [*singles, *row_groups, pairs])
        right = em.transpose(self.right.value, self.right_perm)
        right = _join(em, right, [*singles, pairs, len(columns)])
        # The program knows dynamic extents of left and right to be equal; inference does not.
        shape = (*shape_of(left)[:-1], shape_of(right)[-1])
        product = em.MatMul(left, right, types=[(dtype_of(left), shape)])
        dims = self.left.dims(batch + rows) + self.right.dims(columns)
        product = _part(em, product, [*singles, *row_groups, len(columns)], dims)
        return em.transpose(product, self.result_perm)


def _orders(lhs: Operand, rhs: Operand) -> list[tuple[int, ...]]:
    """Orders of the contracting pairs in which the axes of an operand ascend.

    The order of lhs, usually the activations, comes first: among equal costs the weights are
    transposed."""
    pairs = range(len(lhs.contracting))
    return [tuple(sorted(pairs, key=operand.contracting.__getitem__)) for operand in (lhs, rhs)]


def _runtime(em: Emitter, operand: Operand) -> bool:
    return em.facts.constant(operand.value) is None


def _moves(dims: Sequence[Dim], perm: Sequence[int]) -> bool:
    """Whether the permutation changes the order of elements in memory."""
    moved = [axis for axis in perm if dims[axis] != 1]
    return moved != sorted(moved)


def _join(em: Emitter, x: oir.Value, groups: Sequence[int]) -> oir.Value:
    """Joins adjacent axes, `groups` saying how many make up each of the result; none make a 1."""
    if all(size <= 1 for size in groups):
        return em.unsqueeze(x, [axis for axis, size in enumerate(groups) if size == 0])
    dims = iter(shape_of(x))
    return em.reshape(x, [product(islice(dims, size)) for size in groups])


def _part(em: Emitter, x: oir.Value, groups: Sequence[int], dims: Sequence[Dim]) -> oir.Value:
    """The inverse of `_join`: the axes of `dims` again."""
    if all(size <= 1 for size in groups):
        return em.squeeze(x, [axis for axis, size in enumerate(groups) if size == 0])
    return em.reshape(x, dims)


def _outer(em: Emitter, lhs: Operand, rhs: Operand) -> oir.Value:
    """No axis to sum over: Mul (And for booleans) with broadcasting."""
    batch, rows, columns = len(lhs.batch), len(lhs.free), len(rhs.free)
    left = em.transpose(lhs.value, lhs.batch + lhs.free)
    left = em.unsqueeze(left, range(batch + rows, batch + rows + columns))
    right = em.transpose(rhs.value, rhs.batch + rhs.free)
    right = em.unsqueeze(right, range(batch, batch + rows))
    return em.Mul(left, right)


# -- element types ----------------------------------------------------------------------------


def accumulate(
    em: Emitter,
    product: Callable[[oir.Value, oir.Value], oir.Value],
    lhs: oir.Value,
    rhs: oir.Value,
    result: oir.DataType,
) -> oir.Value:
    """product(lhs, rhs) in an element type that loses nothing that XLA keeps, then in `result`.

    Integers wrap in the result's type. Sums of booleans are OR: a count in f32, at least 1.
    Floats of unlike types meet in the widest and are rounded once, at the end.
    """
    if result == T.BOOL and dtype_of(lhs) not in FLOATS and dtype_of(rhs) not in FLOATS:
        lhs, rhs = (em.cast(em.cast(x, T.BOOL), T.FLOAT) for x in (lhs, rhs))
        count = product(lhs, rhs)
        return em.Greater(count, em.scalar_like(0.5, count))
    types = {dtype_of(lhs), dtype_of(rhs), result}
    if result not in FLOATS:
        if types & FLOATS:
            raise unsupported("integer sum of float products")
        common = result
    elif len(types) == 1:
        common = result
    else:
        common = T.DOUBLE if T.DOUBLE in types else T.FLOAT
    return em.cast(product(em.cast(lhs, common), em.cast(rhs, common)), result)


def complex_product(
    em: Emitter, product: Callable[[oir.Value, oir.Value], oir.Value], lhs: Parts, rhs: Parts
) -> Parts:
    """The product of two real tensors, or of two complex ones:
    (a + bi)(c + di) = ac - bd + (ad + bc)i."""
    if len(lhs) != len(rhs):
        raise unsupported("mixed parts")
    if len(lhs) == 1:
        return (product(lhs[0], rhs[0]),)
    (a, b), (c, d) = lhs, rhs
    return (
        em.Sub(product(a, c), product(b, d)),
        em.Add(product(a, d), product(b, c)),
    )

"""Systems of equations that a program solves by an LU factorization and two triangles.

`jax.numpy.linalg.solve` is lowered to a factorization, the permutation of the right-hand side, and
two triangular systems. If nothing else reads the factors, one function solves the system in fewer
operations: see `linalg.solve`. Several right-hand sides are a batch of vectors, which JAX permutes
and moves to the columns of a matrix.
"""

from __future__ import annotations

import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.linalg.solve import solve, suits
from hlo2onnx.frontend.mlir.block_functions import callee_in_module
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.ranges import RANGE
from hlo2onnx.ir.values import present, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CUSTOM_CALL, Op

_FACTORIZATION = "hlo2onnx.factorization"
"""Key of `onnx_ir.Value.meta` of LU factors: the matrix, and the order of its rows."""
_RIGHT_SIDE = "hlo2onnx.right_side"
"""The same of X with L X = B: the factors, and B."""


_MANY = 100
"""Readers of factors: more than the two systems that `solve` replaces."""


def note_factorization(op: Op, packed: Parts, a: Parts, order: oir.Value) -> None:
    """Notes the matrix that factors belong to, and the order of its rows, if the factors are for
    one system only."""
    if len(a) == 1 and _systems(op.results[0], op.operation.block) == 2:
        packed[0].meta[_FACTORIZATION] = a[0], order


def note_right_side(x: Parts, packed: Parts, b: Parts) -> None:
    """Notes the system L X = B of the unit lower triangle of factors."""
    if len(x) == 1:
        x[0].meta[_RIGHT_SIDE] = packed[0], b[0]


def solved_at_once(em: Emitter, op: Op) -> Parts | None:
    """X of the system A X = B, for the op that solves U X = L \\ (P B).

    Returns:
        None for other systems, and for factors that serve more than one.
    """
    packed, (x, *imaginary) = em.parts(op.operands[0])[0], em.parts(op.operands[1])
    source = x if imaginary else _before_reshapes(x)
    found = source.meta.get(_RIGHT_SIDE)
    if found is None or imaginary or found[0] is not packed or shape_of(source) != shape_of(x):
        return None
    factors = _without_check(em, packed)
    noted = factors.meta.get(_FACTORIZATION)
    if noted is None:
        return None
    a, order = noted
    b = _before_permutation(em, found[1], order)
    if b is None or not suits(shape_of(a), shape_of(b)):
        return None
    (result,) = em.through_jax(solve, (a,), (b,))
    return result


def _systems(value: MlirValue, block: ir.Block) -> int:
    """How many triangular systems read factors, in their block or in functions called there.
    Other readers, and loops, count as many."""
    total = 0
    for use in value.uses:
        reader, place = use.owner.operation, use.operand_number
        if reader.block != block:
            return _MANY
        if reader.name == "stablehlo.select" and place == 1:
            total += _systems(reader.results[0], block)
        elif reader.name == "func.call":
            function = callee_in_module(reader)
            assert function is not None
            body = function.regions[0].blocks[0]
            total += _systems(body.arguments[place], body)
        elif reader.name == CUSTOM_CALL and place == 0 and _is_triangular(reader):
            total += 1
        else:
            return _MANY
    return total


def _is_triangular(call: ir.Operation) -> bool:
    return ir.StringAttr(call.attributes["call_target_name"]).value.endswith("trsm_ffi")


def _without_check(em: Emitter, packed: oir.Value) -> oir.Value:
    """The factors without JAX's test whether the factorization failed, which is never true."""
    node = packed.producer()
    if node is None or node.op_type != "Where":
        return packed
    condition, factors, _ = node.inputs
    while condition is not None and (test := condition.producer()) is not None:
        if test.op_type == "GreaterOrEqual":
            info, least = test.inputs
            assert info is not None and least is not None and factors is not None
            known, limit = info.meta.get(RANGE), em.facts.constant(least)
            never = known is not None and limit is not None and bool((limit <= known.low).all())
            return factors if never else packed
        if test.op_type not in ("Expand", "Reshape"):
            break
        condition = test.inputs[0]
    return packed


def _before_reshapes(x: oir.Value) -> oir.Value:
    while (node := x.producer()) is not None and node.op_type == "Reshape":
        (x, *_) = present(node.inputs)
    return x


def _before_permutation(em: Emitter, b: oir.Value, order: oir.Value) -> oir.Value | None:
    """B, if b is the rows of B in this order; None if b is something else.

    Gather may take the rows along any axis, if Transpose and Reshape move the axis to the front
    afterwards. B is then what they make of the operand of Gather.
    """
    moves = []
    while (node := b.producer()) is not None and node.op_type in ("Reshape", "Transpose"):
        moves.append(node)
        (b, *_) = present(node.inputs)
    if node is None or node.op_type != "Gather":
        return None
    rows, index = present(node.inputs)
    if shape_of(rows) != shape_of(b) or shape_of(index) != shape_of(order):
        return None
    axis: int | None = node.attributes.get_int("axis", 0) % len(shape_of(b))
    for move in reversed(moves):
        axis = None if axis is None else _axis_after(move, axis)
    if axis != 0 or _unwrapped(em, index) is not order:
        return None
    for move in reversed(moves):
        if move.op_type == "Transpose":
            rows = em.transpose(rows, move.attributes.get_ints("perm"))
        else:
            rows = em.reshape(rows, shape_of(move.outputs[0]))
    return rows


def _axis_after(move: oir.Node, axis: int) -> int | None:
    """The place of an axis after Transpose, or after Reshape if that only adds or removes axes of
    extent 1."""
    if move.op_type == "Transpose":
        return list(move.attributes.get_ints("perm")).index(axis)
    old, new = shape_of(present(move.inputs)[0]), shape_of(move.outputs[0])
    before, after = ([i for i, extent in enumerate(dims) if extent != 1] for dims in (old, new))
    if axis not in before or [old[i] for i in before] != [new[i] for i in after]:
        return None
    return after[before.index(axis)]


def _unwrapped(em: Emitter, index: oir.Value) -> oir.Value:
    """Indices in bounds without what JAX does to others."""
    while (node := index.producer()) is not None:
        first = node.inputs[0]
        assert first is not None
        if node.op_type in ("Reshape", "Clip"):
            index = first
        elif node.op_type == "Where" and (test := first.producer()) is not None:
            x, other = node.inputs[2], test.inputs[0]
            if test.op_type != "Less" or x is None or x is not other:
                return index
            index = x
        else:
            return index
    return index

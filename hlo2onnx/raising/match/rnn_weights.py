"""Gates of a recurrent cell as the weights of ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import MOVES
from hlo2onnx.ir.values import complete, dtype_of, is_constant, present, rank_of, shape_of, size_of
from hlo2onnx.ir.weights import detached
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.linear_terms import Bias, Matrix, Part, Product, Sums, Term, Turn


@dataclass(frozen=True)
class Gate:
    """x @ inputs + h @ recurrent + biases.

    Attributes:
        x: The inputs of all trips.
        inputs: The product of x.
        biases: Added to that product.
        recurrent: The product of the state.
        recurrent_biases: Added to that product, if that makes a difference.
    """

    x: Part
    inputs: Product
    biases: tuple[Bias, ...]
    recurrent: Product
    recurrent_biases: tuple[Bias, ...] = ()
    sign: int = 1


def gate_of(
    sums: Sums,
    terms: Sequence[Term],
    recurrent: Product,
    others: Sequence[Bias] = (),
    sign: int = 1,
) -> Gate:
    """The gate made of these terms and a product with the state.

    Raises:
        Refusal: There is another term, or there is not exactly one product with inputs.
    """
    products = [term for term in terms if isinstance(term, Product)]
    biases = tuple(term for term in terms if isinstance(term, Bias))
    need(len(products) + len(biases) == len(terms), "a gate has another term")
    need(len(products) == 1, "its inputs have no product with a matrix, or several")
    x = sums.stripped(products[0].left)
    need(x.time is not None, "its inputs are not known for all trips")
    return Gate(x, products[0], biases, recurrent, tuple(others), sign)


def constant_of(b: Rewriter, value: oir.Value) -> oir.Value | None:
    """A weight as a constant, if it is one that is only moved: runtimes pack constant weights,
    which makes an LSTM four times faster."""
    node = value.producer()
    if is_constant(value):
        return value
    if node is None or node.op_type not in MOVES or node.domain:
        return None
    inputs = _constants(b, present(node.inputs))
    if inputs is None:
        return None
    copy = detached(node)
    return b.derived(
        lambda *arrays: MOVES[copy.op_type](copy, list(arrays)),
        *inputs,
        is_moved=node.op_type in ("Reshape", "Squeeze", "Transpose", "Unsqueeze"),
    )


def _constants(b: Rewriter, values: Sequence[oir.Value]) -> list[oir.Value] | None:
    """Weights as constants, if all are."""
    return complete(constant_of(b, value) for value in values)


def inputs_of(b: Rewriter, gates: Sequence[Gate]) -> oir.Value:
    """The inputs of all trips: trips, batch, features.

    Raises:
        Refusal: The inputs of the gates differ.
    """
    x = gates[0].x
    need(all(gate.x == x for gate in gates), "the inputs of the gates differ")
    assert x.time is not None
    value = b.slice(x.value, [x.low], [x.high], axes=[x.axis])
    batch = [axis for axis in range(rank_of(value)) if axis not in (x.time, x.axis)]
    long = [axis for axis in batch if shape_of(value)[axis] != 1]
    need(len(long) <= 1, "the inputs have several batch axes", x.value)
    one = long or batch[:1]
    units = [axis for axis in batch if axis not in one]
    value = b.transpose(value, [*units, x.time, *one, x.axis])
    value = b.squeeze(value, range(len(units)))
    for turn in x.turns:
        value = _turned(b, value, turn)
    return value if one else b.unsqueeze(value, [1])


def _turned(b: Rewriter, x: oir.Value, turn: Turn) -> oir.Value:
    """The rows of x after a Slice."""
    bounds = [b.i64([number]) for number in (turn.start, turn.end, 0, turn.step)]
    types = [(dtype_of(x), (turn.extent, *shape_of(x)[1:]))]
    return b.op("Slice", x, *bounds, types=types)


def stacked(b: Rewriter, matrices: Sequence[Matrix], signs: Sequence[int]) -> oir.Value:
    """Matrices of features by inputs, one below the other, with an axis for the direction."""
    known = _constants(b, [matrix.value for matrix in matrices])
    if known is not None:
        return b.derived(partial(_stack, [_cut(matrix) for matrix in matrices], signs), *known)
    values = []
    for matrix, sign in zip(matrices, signs, strict=True):
        order = (
            [matrix.columns, matrix.rows] if matrix.transposed else [matrix.rows, matrix.columns]
        )
        starts, ends = zip(*order, strict=True)
        part = b.slice(matrix.value, starts, ends)
        values.append(part if sign > 0 else b.Neg(part))
    if any(matrix.transposed for matrix in matrices):
        values = [
            value if matrix.transposed else b.transpose(value, [1, 0])
            for value, matrix in zip(values, matrices, strict=True)
        ]
        return b.unsqueeze(b.concat(values, 0), [0])
    return b.unsqueeze(b.transpose(b.concat(values, 1), [1, 0]), [0])


def _cut(matrix: Matrix) -> Callable[[np.ndarray], np.ndarray]:
    """A function that takes the features by inputs of a matrix from its array."""
    rows, columns, transposed = slice(*matrix.rows), slice(*matrix.columns), matrix.transposed
    return lambda array: array[columns, rows] if transposed else array[rows, columns].T


def _stack(
    cuts: Sequence[Callable[[np.ndarray], np.ndarray]], signs: Sequence[int], *arrays: np.ndarray
) -> np.ndarray:
    parts = [
        cut(array) * array.dtype.type(sign)
        for cut, array, sign in zip(cuts, arrays, signs, strict=True)
    ]
    return np.ascontiguousarray(np.concatenate(parts)[None])


def vectors(
    b: Rewriter, biases: Sequence[Sequence[Bias]], signs: Sequence[int], width: int, like: oir.Value
) -> oir.Value | None:
    """Concatenated sums of biases; None if there are no biases."""
    if not any(biases):
        return None
    parts = [_sum(b, part, sign, width, like) for part, sign in zip(biases, signs, strict=True)]
    known = _constants(b, parts)
    if known is not None:
        return b.derived(lambda *arrays: np.concatenate(arrays), *known)
    return b.concat(parts, 0)


def _sum(b: Rewriter, biases: Sequence[Bias], sign: int, width: int, like: oir.Value) -> oir.Value:
    """The sum of some vectors."""
    zero = np.zeros(width, dtype_of(like).numpy())
    values = [_vector(b, bias, width) for bias in biases]
    signs = [bias.sign * sign for bias in biases]
    known = _constants(b, values)
    if known is not None:
        return b.derived(partial(_added, zero, signs), *known)
    total = None
    for value, its in zip(values, signs, strict=True):
        value = value if its > 0 else b.Neg(value)
        total = value if total is None else b.Add(total, value)
    return total if total is not None else b.const(zero)


def _added(zero: np.ndarray, signs: Sequence[int], *arrays: np.ndarray) -> np.ndarray:
    for array, sign in zip(arrays, signs, strict=True):
        zero = zero + array if sign > 0 else zero - array
    return zero


def _vector(b: Rewriter, bias: Bias, width: int) -> oir.Value:
    """The features of a bias."""
    shape = shape_of(bias.value)
    place = len(shape) + bias.axis
    is_scalar = place < 0 or shape[place] == 1
    known = constant_of(b, bias.value)
    if known is not None:
        low, high = bias.low, bias.high
        if size_of(known) == 1:
            return b.derived(lambda array: np.full(width, array.reshape(-1)[0]), known)
        is_whole = (low, high) == (0, shape[place])
        return b.derived(lambda array: array.reshape(-1)[low:high], known, is_moved=is_whole)
    if is_scalar:
        return b.expand(b.reshape(bias.value, (1,)), (width,))
    return b.slice(b.reshape(bias.value, (shape[place],)), [bias.low], [bias.high], axes=[0])

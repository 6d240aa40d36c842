"""Gates as weights: stacked matrices, biases, and the inputs of all trips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model

from hlo2onnx.raising.engine import Refusal, Rewriter
from hlo2onnx.raising.match.linear_terms import Bias, Matrix, Part, Product, Turn
from hlo2onnx.raising.match.rnn_weights import Gate, inputs_of, stacked, vectors
from hlo2onnx.targets import load_target

Value = oir.Value
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 10, size=shape).astype(np.float32)


V, W = normal(3, 8), normal(8, 3)
"""Inputs by features, and features by inputs."""


class Made:
    """What a function makes of arguments and constants, as a model that was run."""

    def __init__(self, make: Callable[..., Value], **arguments: np.ndarray) -> None:
        graph = model_of(lambda b, **values: [], arguments).graph
        model = oir.Model(graph, ir_version=10)
        b = Rewriter(model, load_target("ort-cpu"))
        self.value = make(b, *graph.inputs)
        self.operators = sorted(node.op_type for node in graph)
        graph.outputs.append(self.value if self.value.producer() else b.Identity(self.value))
        (self.array,) = run_model(model, arguments)
        if self.value.producer() is not None:
            assert self.value.shape is not None
            assert tuple(self.value.shape) == self.array.shape


@pytest.mark.parametrize("signs", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("turned", [(False, False), (True, True), (True, False), (False, True)])
@pytest.mark.parametrize("constant", [(True, True), (False, False), (True, False)])
def test_matrices_below_each_other(
    signs: tuple[int, int], turned: tuple[bool, bool], constant: tuple[bool, bool]
) -> None:
    """Rows 1 and 2 of the inputs, features 2 to 5 and 5 to 7."""
    columns = [(2, 5), (5, 7)]

    def make(b: Rewriter, v: Value, w: Value) -> Value:
        matrices = []
        for transposed, known, its in zip(turned, constant, columns, strict=True):
            array, given = (W, w) if transposed else (V, v)
            value = b.const(array) if known else given
            matrices.append(Matrix(value, (1, 3), its, transposed))
        return stacked(b, matrices, signs)

    made = Made(make, v=V, w=W)
    expected = [
        sign * (W[low:high, 1:3] if transposed else V[1:3, low:high].T)
        for sign, transposed, (low, high) in zip(signs, turned, columns, strict=True)
    ]
    np.testing.assert_array_equal(made.array, np.concatenate(expected)[None])
    if all(constant):
        assert not made.operators
    else:
        assert made.operators.count("Neg") == signs.count(-1)


C, D = normal(8), normal(1, 8)
N = np.full((1, 1), 7, np.float32)


def bias(value: Value, sign: int = 1, axis: int = -1) -> Bias:
    """Features 2 to 5."""
    return Bias(value, axis, 2, 5, sign)


Sums = Callable[[Rewriter, Value, Value, Value], Sequence[Sequence[Bias]]]

VECTORS: dict[str, tuple[Sums, tuple[int, ...], list[np.ndarray], bool]] = {
    # biases of each gate, signs of the gates, the result, and whether it is a constant
    "constants": (
        lambda b, c, d, n: [[bias(b.const(C))], [bias(b.const(D))]], (1, 1),
        [C[2:5], D[0, 2:5]], True,
    ),
    "negative-gate": (
        lambda b, c, d, n: [[bias(b.const(C))], [bias(b.const(D), -1)]], (-1, -1),
        [-C[2:5], D[0, 2:5]], True,
    ),
    "sum-of-constants": (
        lambda b, c, d, n: [[bias(b.const(C)), bias(b.const(D), -1)]], (1,),
        [C[2:5] - D[0, 2:5]], True,
    ),
    "none-for-one": (
        lambda b, c, d, n: [[], [bias(b.const(C))]], (1, 1), [np.zeros(3, np.float32), C[2:5]], True
    ),
    "number": (lambda b, c, d, n: [[bias(b.const(N))]], (1,), [np.full(3, 7, np.float32)], True),
    "arguments": (
        lambda b, c, d, n: [[bias(c)], [bias(d)]], (1, 1), [C[2:5], D[0, 2:5]], False
    ),
    "arguments-of-a-negative-gate": (
        lambda b, c, d, n: [[bias(c)], [bias(d, -1)]], (-1, -1), [-C[2:5], D[0, 2:5]], False
    ),
    "sum-of-arguments": (
        lambda b, c, d, n: [[bias(c), bias(d, -1), bias(c)]], (1,), [2 * C[2:5] - D[0, 2:5]], False
    ),
    "sum-with-a-constant": (
        lambda b, c, d, n: [[bias(c), bias(b.const(D))]], (-1,), [-C[2:5] - D[0, 2:5]], False
    ),
    "argument-and-none": (
        lambda b, c, d, n: [[bias(c)], []], (1, 1), [C[2:5], np.zeros(3, np.float32)], False
    ),
    "number-that-is-an-argument": (
        lambda b, c, d, n: [[bias(n)]], (1,), [np.full(3, 7, np.float32)], False
    ),
    "number-beyond-its-axes": (
        lambda b, c, d, n: [[bias(b.reshape(n, (1,)), axis=-2)]], (1,),
        [np.full(3, 7, np.float32)], False,
    ),
    "along-the-first-axis": (
        lambda b, c, d, n: [[bias(b.reshape(c, (8, 1)), axis=-2)]], (1,), [C[2:5]], False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_biases_behind_each_other(name: str) -> None:
    sums, signs, expected, constant = VECTORS[name]

    def make(b: Rewriter, c: Value, d: Value, n: Value) -> Value:
        made = vectors(b, sums(b, c, d, n), signs, 3, c)
        assert made is not None
        return made

    made = Made(make, c=C, d=D, n=N)
    np.testing.assert_array_equal(made.array, np.concatenate(expected))
    assert made.array.dtype == np.float32
    assert (made.value.const_value is not None) == constant


def test_no_biases() -> None:
    b = Rewriter(model_of(lambda b, c: b.Neg(c), {"c": C}), load_target("ort-cpu"))
    assert vectors(b, [[], []], [1, 1], 3, b.main_graph.inputs[0]) is None


# -- what constants were moved ---------------------------------------------------------------------


# -- the inputs of all trips -----------------------------------------------------------------------


def gate(x: Part) -> Gate:
    product = Product(x, Matrix(x.value, (0, 1), (0, 1), False), 1)
    return Gate(x, product, (), product)


def inputs(shape: Sequence[int], axis: int, time: int, *bounds: int, **more: Any) -> Made:
    """What the inputs are made of, a tensor of this shape."""
    low, high = bounds or (0, shape[axis])
    x = normal(*shape)
    return Made(lambda b, x: inputs_of(b, [gate(Part(x, axis, low, high, time, **more))] * 2), x=x)


@pytest.mark.parametrize(
    ("shape", "axis", "time", "expected"),
    [
        ((4, 3, 5), 2, 0, (4, 3, 5)),
        ((3, 4, 5), 2, 1, (4, 3, 5)),
        ((5, 3, 4), 0, 2, (4, 3, 5)),
        ((4, 2, 5), 2, 0, (4, 2, 5)),
        ((4, 1, 5), 2, 0, (4, 1, 5)),
        ((1, 4, 3, 1, 5), 4, 1, (4, 3, 5)),
        ((4, 1, 1, 5), 3, 0, (4, 1, 5)),
        ((4, 5), 1, 0, (4, 1, 5)),
        ((5, 4), 0, 1, (4, 1, 5)),
    ],
)
def test_axes_of_inputs(
    shape: tuple[int, ...], axis: int, time: int, expected: tuple[int, ...]
) -> None:
    made = inputs(shape, axis, time)
    assert made.array.shape == expected


def test_values_of_inputs() -> None:
    x = normal(3, 5, 4)
    turns = (Turn(-1, -9, -1, 4), Turn(0, 4, 2, 2))
    made = Made(lambda b, x: inputs_of(b, [gate(Part(x, 1, 1, 4, 2, turns))]), x=x)
    np.testing.assert_array_equal(made.array, x.transpose(2, 0, 1)[::-1][::2, :, 1:4])


def test_several_batch_axes() -> None:
    with pytest.raises(Refusal):
        inputs((4, 3, 2, 5), 3, 0)


def test_gates_of_other_inputs() -> None:
    def make(b: Rewriter, x: Value) -> Value:
        return inputs_of(b, [gate(Part(x, 2, 0, 3, 0)), gate(Part(x, 2, 1, 4, 0))])

    with pytest.raises(Refusal):
        Made(make, x=normal(4, 3, 5))

"""x + 0, which changes only the sign of a zero: where nothing depends on it, and where something
does."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import foreign, model_of, run_model
from rule_names import rule
from verified import nodes

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.signs import MOST_READERS
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.targets import load_target

Value = oir.Value
X = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf], [-2.0, -0.0, 3.0]], np.float32)
Y = np.array([[-1.0, 2.0, -3.0], [0.0, -0.0, 1.0], [-0.0, -5.0, 0.0]], np.float32)


def plus(b: GraphBuilder, x: Value, number: float = 0.0) -> Value:
    return b.Add(x, b.scalar_like(number, x))


LOST: dict[str, Callable[[GraphBuilder, Value, Value], Value | list[Value]]] = {
    "another sum with 0": lambda b, x, y: plus(b, b.Mul(x, y)),
    "the other operand": lambda b, x, y: b.Add(b.scalar_like(0, x), b.Sub(y, x)),
    "a vector of zeros": lambda b, x, y: b.Add(b.Neg(x), b.const(np.zeros(3, np.float32))),
    "moves": lambda b, x, y: plus(b, b.concat([b.transpose(x, (1, 0)), y], 0)),
    "a part": lambda b, x, y: plus(b, b.slice(x, [0], [2], [1], [0])),
    "a dividend": lambda b, x, y: plus(b, b.Div(x, b.scalar_like(3.0, x))),
    "a product of matrices": lambda b, x, y: plus(b, b.MatMul(x, b.Abs(y))),
    "a selection": lambda b, x, y: plus(b, b.Where(b.Less(x, y), x, y)),
    "an even function": lambda b, x, y: [b.Exp(x), b.Cos(b.Mul(x, y)), b.Abs(b.Sub(x, y))],
    "a comparison": lambda b, x, y: [b.Equal(x, y), b.Less(y, x), b.IsNaN(x)],
    "an integer": lambda b, x, y: b.cast(b.Where(b.IsNaN(x), y, b.Mul(x, y)), oir.DataType.BOOL),
}  # fmt: skip

SEEN: dict[str, Callable[[GraphBuilder, Value, Value], Value | list[Value]]] = {
    "an output": lambda b, x, y: x,
    "an output beside": lambda b, x, y: [plus(b, x), b.Mul(x, y)],
    "a sum with -0": lambda b, x, y: plus(b, b.Mul(x, y), -0.0),
    "a sum with other numbers": lambda b, x, y: b.Add(
        b.Mul(x, y), b.const(np.array([0, 0, -0.0], np.float32))
    ),
    "a difference": lambda b, x, y: b.Sub(x, b.scalar_like(0, x)),
    "a divisor": lambda b, x, y: plus(b, b.Div(y, x)),
    "a reciprocal": lambda b, x, y: b.Abs(plus(b, b.Reciprocal(x))),
    "an odd function": lambda b, x, y: b.Tanh(x),
    "a wider float": lambda b, x, y: b.cast(x, oir.DataType.DOUBLE),
    "another domain": lambda b, x, y: plus(b, foreign(b.Neg(x))),
}  # fmt: skip


def rewritten(build: Callable[[GraphBuilder, Value, Value], Value | list[Value]]) -> oir.Model:
    """The graph of a function of x + 0, after the rule."""
    whole = lambda b, x, y: build(b, plus(b, x), y)  # noqa: E731
    model = model_of(whole, {"x": X, "y": Y})
    apply_rules(model, [rule("fold-identity-operand")], load_target("ort-cpu"))
    remove_unused(model.graph)
    return model


def sums_of_x(model: oir.Model) -> int:
    """How many sums read x."""
    return sum(node.op_type == "Add" for node in model.graph.inputs[0].consumers())


@pytest.mark.parametrize("name", LOST)
def test_a_sign_that_is_lost(name: str) -> None:
    whole = lambda b, x, y: LOST[name](b, plus(b, x), y)  # noqa: E731
    before = run_model(model_of(whole, {"x": X, "y": Y}), {"x": X, "y": Y})
    model = rewritten(LOST[name])
    assert sum(node.op_type == "Add" for node in model.graph) <= 1
    for new, old in zip(run_model(model, {"x": X, "y": Y}), before, strict=True):
        np.testing.assert_array_equal(new, old)
        if new.dtype == np.float32:
            is_number = ~np.isnan(old)
            np.testing.assert_array_equal(np.signbit(new)[is_number], np.signbit(old)[is_number])


@pytest.mark.parametrize("name", SEEN)
def test_a_sign_that_is_seen(name: str) -> None:
    assert sums_of_x(rewritten(SEEN[name])) == 1


def test_a_sum_with_itself_shows_the_sign() -> None:
    model = rewritten(lambda b, x, y: b.Add(x, x))
    assert [node.op_type for node in model.graph] == ["Add", "Add"]


def test_far_readers_are_not_looked_for() -> None:
    def chain(count: int) -> Callable[[GraphBuilder, Value, Value], Value]:
        def build(b: GraphBuilder, x: Value, y: Value) -> Value:
            for _ in range(count):
                x = b.Mul(x, y)
            return b.Abs(x)

        return build

    assert sums_of_x(rewritten(chain(MOST_READERS // 2))) == 0
    assert sums_of_x(rewritten(chain(MOST_READERS + 1))) == 1


def test_associative_scans_add_zero_once() -> None:
    """JAX interleaves the results of each level by a sum of padded arrays."""
    x = np.where(np.arange(32) % 3 == 0, -0.0, np.linspace(-1, 1, 32)).astype(np.float32)
    sums = nodes(lambda x: jax.lax.associative_scan(jnp.multiply, x), x)["Add"]
    assert sums == 1

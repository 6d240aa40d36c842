"""Single LSTM cells, spelled in many ways, and loops that differ from them in one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop, number
from recurrent_graphs import (
    BATCH,
    BIAS,
    INPUTS,
    OTHER,
    TRIPS,
    WIDTH,
    C,
    H,
    R,
    W,
    X,
    cut,
    logistic,
    normal,
    products,
    run,
)
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.nn.rnn import Lstm
from hlo2onnx.targets import load_target

Value = oir.Value
Gates = Callable[[GraphBuilder, Value, Value], Value]


def gemm(b: GraphBuilder, *inputs: Value, **attributes: Any) -> Value:
    made: Value = b.op("Gemm", *inputs, **attributes)
    return made


SUMS: dict[str, tuple[Gates, bool]] = {
    "plain": (products, True),
    "bias": (lambda b, x, h: b.Add(products(b, x, h), b.const(BIAS)), True),
    "bias-first": (lambda b, x, h: b.Add(b.const(BIAS), products(b, x, h)), True),
    "two-biases": (
        lambda b, x, h: b.Add(
            b.Sub(b.MatMul(x, b.const(W)), b.const(OTHER)),
            b.Add(b.MatMul(h, b.const(R)), b.const(BIAS)),
        ),
        True,
    ),
    "negated": (lambda b, x, h: b.Neg(b.Sub(b.const(BIAS), products(b, x, h))), True),
    "differences": (
        lambda b, x, h: b.Sub(
            b.Sub(b.const(BIAS), b.MatMul(x, b.const(W))), b.Neg(b.MatMul(h, b.const(R)))
        ),
        True,
    ),
    "number": (lambda b, x, h: b.Sub(products(b, x, h), number(b, 0.5)), True),
    "gemm": (
        lambda b, x, h: b.Add(gemm(b, x, b.const(W), b.const(BIAS)), b.MatMul(h, b.const(R))),
        True,
    ),
    "gemm-of-the-transpose": (
        lambda b, x, h: b.Add(
            gemm(b, x, b.const(W.T.copy()), transB=1),
            gemm(b, h, b.const(R.T.copy()), b.const(OTHER), transB=1),
        ),
        True,
    ),
    "gemm-scaled": (
        lambda b, x, h: b.Add(
            gemm(b, x, b.const(W), b.const(BIAS), alpha=0.5), b.MatMul(h, b.const(R))
        ),
        False,
    ),
    "gemm-of-a-scaled-bias": (
        lambda b, x, h: b.Add(
            gemm(b, x, b.const(W), b.const(BIAS), beta=0.5), b.MatMul(h, b.const(R))
        ),
        False,
    ),
    "gemm-of-the-left-transposed": (
        lambda b, x, h: b.Add(
            gemm(b, b.transpose(x, [1, 0]), b.const(W), transA=1), b.MatMul(h, b.const(R))
        ),
        False,
    ),
    "gemm-of-a-bias-for-each-row": (
        lambda b, x, h: b.Add(
            gemm(b, x, b.const(W), b.const(H[:, :1].copy())), b.MatMul(h, b.const(R))
        ),
        False,
    ),
    "from-the-left": (
        lambda b, x, h: b.transpose(
            b.Add(
                b.MatMul(b.const(W.T.copy()), b.transpose(x, [1, 0])),
                b.Add(
                    b.MatMul(b.const(R.T.copy()), b.transpose(h, [1, 0])),
                    b.const(BIAS[:, None]),
                ),
            ),
            [1, 0],
        ),
        True,
    ),
    "joined": (
        lambda b, x, h: b.MatMul(b.concat([x, h], 1), b.const(np.concatenate([W, R]))),
        True,
    ),
    "joined-the-other-way": (
        lambda b, x, h: b.MatMul(b.concat([h, x], -1), b.const(np.concatenate([R, W]))),
        True,
    ),
    "some-inputs": (
        lambda b, x, h: b.Add(
            b.MatMul(b.slice(x, [1], [4], axes=[1]), b.const(W[:3])), b.MatMul(h, b.const(R))
        ),
        True,
    ),
    "every-other-input": (
        lambda b, x, h: b.Add(
            b.MatMul(b.slice(x, [0], [5], [2], [1]), b.const(W[:3])), b.MatMul(h, b.const(R))
        ),
        False,
    ),
    "split-inputs": (
        lambda b, x, h: b.Add(
            b.MatMul(
                b.outputs("Split", x, b.i64([2, 3]), axis=1, n_outputs=2)[1], b.const(W[2:].copy())
            ),
            b.MatMul(h, b.const(R)),
        ),
        True,
    ),
    "with-an-axis-of-one": (
        lambda b, x, h: b.squeeze(
            b.Add(
                b.unsqueeze(b.MatMul(x, b.const(W)), [1]), b.unsqueeze(b.MatMul(h, b.const(R)), [1])
            ),
            [1],
        ),
        True,
    ),
    "a-matrix-each": (
        lambda b, x, h: b.concat(
            [
                b.Add(
                    b.MatMul(x, b.const(W[:, k : k + WIDTH].copy())),
                    b.MatMul(h, b.const(R[:, k : k + WIDTH].copy())),
                )
                for k in range(0, 4 * WIDTH, WIDTH)
            ],
            1,
        ),
        True,
    ),
    "no-state": (lambda b, x, h: b.Add(b.MatMul(x, b.const(W)), b.const(BIAS)), False),
    "state-twice": (lambda b, x, h: b.Add(products(b, x, h), b.MatMul(h, b.const(R))), False),
    "bias-for-each-row": (lambda b, x, h: b.Add(products(b, x, h), b.const(H[:, :1])), False),
    "bias-of-all": (
        lambda b, x, h: b.Add(products(b, x, h), b.const(np.ones((BATCH, 8), np.float32))),
        False,
    ),
    "scaled": (lambda b, x, h: b.Mul(products(b, x, h), number(b, 2)), False),
    "of-rows-turned-round": (lambda b, x, h: products(b, b.slice(x, [-1], [-9], [-1], [0]), h),
                             None),
    "other-features": (
        lambda b, x, h: b.Add(
            b.MatMul(x, b.const(W)), b.MatMul(b.slice(h, [-1], [-9], [-1], [1]), b.const(R))
        ),
        False,
    ),
}  # fmt: skip


def lstm(
    gates: Gates, order: str = "ifgo", sigmoid: Any = None, returns: str = "h", tanh: str = "Tanh"
) -> Callable[..., Any]:
    def step(b: GraphBuilder, x: Value, h: Value, c: Value, **rest: Value) -> Any:
        z = gates(b, x, h, **rest) if rest else gates(b, x, h)
        part = {name: cut(b, z, k) for k, name in enumerate(order)}
        act = sigmoid or (lambda b, x: b.Sigmoid(x))
        new = b.Add(b.Mul(act(b, part["f"]), c), b.Mul(act(b, part["i"]), b.op(tanh, part["g"])))
        after = b.Mul(act(b, part["o"]), b.Tanh(new))
        rows = {"h": after, "old": h, "c": new, "x": x, "sum": b.Add(h, after), "z": z}
        return [after, new], [rows[name] for name in returns.split()]

    return step


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_gates(name: str) -> None:
    gates, fires = SUMS[name]
    found = run(lstm(gates), Lstm(), 2)
    assert fires is None or (found.nodes["LSTM"], found.nodes["Loop"]) == (fires, not fires)


@pytest.mark.parametrize("negative", [False, True])
def test_weights_that_are_arguments(negative: bool) -> None:
    """A transposed matrix, and a number as the bias."""

    def gates(b: GraphBuilder, x: Value, h: Value, w: Value, r: Value, n: Value) -> Value:
        total = b.Add(gemm(b, x, w, transB=1), b.Sub(b.MatMul(h, r), n))
        return b.Neg(total) if negative else total  # type: ignore[no-any-return]

    inputs = {"w": W.T.copy(), "r": R, "n": np.full((1, 1), 0.5, np.float32)}
    assert run(lstm(gates), Lstm(), 2, **inputs).nodes["LSTM"] == 1


ACTIVATIONS: dict[str, tuple[Any, bool]] = {
    "logistic": (logistic, True),
    "reciprocal": (lambda b, x: b.Reciprocal(b.Add(b.Exp(b.Neg(x)), number(b, 1))), True),
    "of-two": (lambda b, x: b.Div(number(b, 2), b.Add(number(b, 1), b.Exp(b.Neg(x)))), False),
    "two-and-more": (
        lambda b, x: b.Div(number(b, 1), b.Add(number(b, 2), b.Exp(b.Neg(x)))), False
    ),
    "less": (lambda b, x: b.Div(number(b, 1), b.Sub(number(b, 1), b.Exp(b.Neg(x)))), None),
    "sine": (lambda b, x: b.Div(number(b, 1), b.Add(number(b, 1), b.Abs(b.Neg(x)))), False),
    "not-negated": (lambda b, x: b.Div(number(b, 1), b.Add(number(b, 1), b.Exp(b.Abs(x)))), False),
    "hard": (lambda b, x: b.HardSigmoid(x), False),
    "square": (lambda b, x: b.Div(x, b.Add(number(b, 1), b.Exp(b.Neg(x)))), False),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_gates(name: str) -> None:
    sigmoid, fires = ACTIVATIONS[name]
    if fires is not None:
        assert run(lstm(products, sigmoid=sigmoid), Lstm(), 2).nodes["LSTM"] == fires


@pytest.mark.parametrize("order", ["ifgo", "gofi", "ofig"])
def test_orders_of_gates(order: str) -> None:
    assert run(lstm(products, order), Lstm(), 2).nodes["LSTM"] == 1


@pytest.mark.parametrize(
    ("returns", "fires", "loops"),
    [
        ("h", True, 0),
        ("old", True, 0),
        ("h old", True, 0),
        ("old h", True, 0),
        ("c", False, 1),
        ("h x", True, 1),
        ("x old", True, 1),
        ("sum", True, 1),
        ("h sum old", True, 1),
        ("z", True, 1),
    ],
)
def test_what_is_stacked(returns: str, fires: bool, loops: int) -> None:
    found = run(lstm(products, returns=returns), Lstm(), 2)
    assert (found.nodes["LSTM"], found.nodes["Loop"]) == (fires, loops)


def test_relu_is_no_tanh() -> None:
    assert not run(lstm(products, tanh="Relu"), Lstm(), 2).fired


@pytest.mark.parametrize("zero", [True, False])
def test_first_states_of_zero_are_left_out(zero: bool) -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        first = b.const(np.zeros_like(H) if zero else np.array(H))
        memory = b.const(np.zeros_like(H))
        step = lstm(products)
        return loop(b, TRIPS, [first, memory], lambda i, h, c: step(b, b.Gather(x, i), h, c))

    found = LoopRewrite(build, {"x": X}, Lstm(), tolerance=1e-5)
    (node,) = (node for node in found.model.graph if node.op_type == "LSTM")
    assert len(node.inputs) == (3 if zero else 6)


def test_fewer_trips_than_rows_stay() -> None:
    assert not run(lstm(products), Lstm(), 2, count=TRIPS - 1).fired


def backwards(index: Callable[[GraphBuilder, Value], Value]) -> LoopRewrite:
    def build(b: GraphBuilder, x: Value, h: Value, c: Value) -> Any:
        step = lstm(products)
        return loop(b, TRIPS, [h, c], lambda i, h, c: step(b, b.Gather(x, index(b, i)), h, c))

    return LoopRewrite(build, {"x": X, "h": H, "c": C}, Lstm(), tolerance=1e-5)


@pytest.mark.parametrize(("last", "fires"), [(3, True), (-1, True), (2, False), (0, False)])
def test_from_the_last_row_to_the_first(last: int, fires: bool) -> None:
    found = backwards(lambda b, i: b.Sub(b.i64(last), i))
    assert found.nodes["LSTM"] == fires


def test_other_rows_stay() -> None:
    assert not backwards(lambda b, i: b.Sub(i, b.i64(4))).fired


PROJECTED: dict[str, tuple[Callable[[GraphBuilder, Value], Value], bool]] = {
    "plain": (lambda b, x: b.MatMul(x, b.const(W)), True),
    "with-a-bias": (lambda b, x: b.Add(b.MatMul(x, b.const(W)), b.const(BIAS)), True),
    "with-a-bias-for-each-trip": (
        lambda b, x: b.Add(b.MatMul(x, b.const(W)), b.const(normal(TRIPS, 1, 1))),
        False,
    ),
    "with-another-for-each": (
        lambda b, x: b.Add(b.MatMul(x, b.const(W)), b.const(normal(TRIPS, BATCH, 8))),
        False,
    ),
    "batch-first": (
        lambda b, x: b.transpose(b.MatMul(b.transpose(x, [1, 0, 2]), b.const(W)), [1, 0, 2]),
        True,
    ),
    "backwards": (lambda b, x: b.slice(b.MatMul(x, b.const(W)), [-1], [-9], [-1], [0]), True),
    "backwards-twice": (
        lambda b, x: b.slice(
            b.MatMul(b.slice(x, [-1], [-9], [-1], [0]), b.const(W)), [-1], [-9], [-1], [0]
        ),
        True,
    ),
    "flattened": (
        lambda b, x: b.reshape(
            b.MatMul(b.reshape(x, (TRIPS * BATCH, INPUTS)), b.const(W)), (TRIPS, BATCH, 8)
        ),
        None,
    ),
    "with-an-axis-of-one": (
        lambda b, x: b.squeeze(b.MatMul(b.unsqueeze(x, [1]), b.const(W)), [1]),
        True,
    ),
    "not-at-all": (lambda b, x: b.concat([x, b.slice(x, [0], [3], axes=[2])], 2), False),
}  # fmt: skip


@pytest.mark.parametrize("name", PROJECTED)
def test_inputs_that_are_projected_before(name: str) -> None:
    of, fires = PROJECTED[name]

    def build(b: GraphBuilder, x: Value, h: Value, c: Value) -> Any:
        projected = of(b, x)
        step = lstm(lambda b, x, h: b.Add(x, b.MatMul(h, b.const(R))))
        return loop(b, TRIPS, [h, c], lambda i, h, c: step(b, b.Gather(projected, i), h, c))

    found = LoopRewrite(build, {"x": X, "h": H, "c": C}, Lstm(), tolerance=1e-5)
    assert fires is None or found.nodes["LSTM"] == fires


def test_vectors() -> None:
    """Without a batch."""

    def build(b: GraphBuilder, x: Value, h: Value, c: Value) -> Any:
        def step(i: Value, h: Value, c: Value) -> Any:
            one = b.unsqueeze(b.Gather(x, i), [0])
            z = b.squeeze(products(b, one, b.unsqueeze(h, [0])), [0])
            i, f, g, o = (cut(b, z, k, 0) for k in range(4))
            new = b.Add(b.Mul(b.Sigmoid(f), c), b.Mul(b.Sigmoid(i), b.Tanh(g)))
            after = b.Mul(b.Sigmoid(o), b.Tanh(new))
            return [after, new], [after, h]

        return loop(b, TRIPS, [h, c], step)

    inputs = {"x": X[:, 0].copy(), "h": H[0].copy(), "c": C[0].copy()}
    assert LoopRewrite(build, inputs, Lstm(), tolerance=1e-5).nodes["LSTM"] == 1


def test_a_state_that_the_first_node_reads() -> None:
    """It is taken from the stack before."""

    def build(b: GraphBuilder, x: Value, h: Value, c: Value) -> Any:
        def step(i: Value, h: Value, c: Value) -> Any:
            negative = b.Neg(h)
            states, rows = lstm(products)(b, b.Gather(x, i), h, c)
            return states, [negative, *rows]

        return loop(b, TRIPS, [h, c], step)

    found = LoopRewrite(build, {"x": X, "h": H, "c": C}, Lstm(), tolerance=1e-5)
    assert (found.nodes["LSTM"], found.nodes["Loop"]) == (1, 1)


def test_states_before_each_of_a_free_number_of_trips() -> None:
    trips = symbol("trips", positive=True)

    def build(b: GraphBuilder, x: Value, h: Value, c: Value) -> Any:
        count = b.squeeze(b.op("Shape", x, start=0, end=1), [0])
        step = lstm(products, returns="old h")
        made = loop(b, count, [h, c], lambda i, h, c: step(b, b.Gather(x, i), h, c))
        for stack in made[2:]:
            stack.shape = oir.Shape([trips, BATCH, WIDTH])
        return made

    inputs = {"x": X, "h": H, "c": C}
    model = model_of(build, inputs, dims={"x": (trips, BATCH, INPUTS)})
    before = run_model(model, inputs)
    assert apply_rules(model, [Lstm()], load_target("ort-cpu"))
    remove_unused(model.graph)
    nodes = {node.op_type: node for node in model.graph}
    assert shape_of(nodes["Concat"].outputs[0]) == (trips, BATCH, WIDTH)
    assert "Loop" not in nodes
    for new, old in zip(run_model(model, inputs), before, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)

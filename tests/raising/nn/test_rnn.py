"""Loops over recurrent cells become LSTM and GRU; what is not quite such a cell stays a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.nn import sigmoid
from verified import nodes as verified_nodes

import hlo2onnx

RNG = np.random.default_rng(0)
TRIPS, BATCH, INPUTS, WIDTH = 6, 3, 5, 4
X = RNG.normal(size=(TRIPS, BATCH, INPUTS)).astype(np.float32)
H = RNG.normal(size=(BATCH, WIDTH)).astype(np.float32)
C = RNG.normal(size=(BATCH, WIDTH)).astype(np.float32)
W = RNG.normal(size=(INPUTS, 4 * WIDTH)).astype(np.float32)
R = RNG.normal(size=(WIDTH, 4 * WIDTH)).astype(np.float32)
B = RNG.normal(size=4 * WIDTH).astype(np.float32)
B2 = RNG.normal(size=4 * WIDTH).astype(np.float32)

Step = Callable[[Any, Any], Any]


def nodes(function: Callable[..., Any], *args: Any, **options: Any) -> Counter[str]:
    """The operators of a function's model, after a comparison with XLA."""
    without = {"loop-to-scan", "loop-unroll", *options.pop("without", ())}
    return verified_nodes(function, *args, without=without, **options)


def scanned(step: Step, state: Any = (H, C), **options: Any) -> Callable[[jax.Array], Any]:
    def function(x: jax.Array) -> Any:
        return lax.scan(step, jax.tree.map(jnp.asarray, state), x, **options)

    return function


# -- LSTM -----------------------------------------------------------------------------------------


def lstm(gates: Callable[[Any, Any], Any], order: str = "ifgo", forget: float = 0.0) -> Step:
    """A step of an LSTM with its gates in this order along the last axis."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        part = dict(zip(order, jnp.split(gates(h, x), 4, axis=-1), strict=True))
        c = sigmoid(part["f"] + forget) * c + sigmoid(part["i"]) * jnp.tanh(part["g"])
        h = sigmoid(part["o"]) * jnp.tanh(c)
        return (h, c), h

    return step


GATES: dict[str, Callable[[Any, Any], Any]] = {
    "one-bias": lambda h, x: x @ W + h @ R + B,
    "two-biases": lambda h, x: (x @ W + B) + (h @ R + B2),
    "weights-from-the-left": lambda h, x: (W.T @ x.T + R.T @ h.T + B[:, None]).T,
    "joined": lambda h, x: jnp.concatenate([x, h], -1) @ jnp.concatenate([W, R]) + B,
    "a-matrix-each": lambda h, x: jnp.concatenate(
        [
            x @ W[:, k : k + WIDTH] + B[k : k + WIDTH] + h @ R[:, k : k + WIDTH]
            for k in (0, 4, 8, 12)
        ],
        -1,
    ),
}


# -- GRU ------------------------------------------------------------------------------------------

G = 3 * WIDTH
MIXED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "torch": lambda z, n, h: (1 - z) * n + z * h,
    "haiku": lambda z, n, h: (1 - z) * h + z * n,
    "equinox": lambda z, n, h: n + z * (h - n),
}


def gru(mix: Callable[[Any, Any, Any], Any], after: bool, joint: bool = False) -> Step:
    """A step of a GRU with the reset gate before or after the product."""

    def step(h: Any, x: jax.Array) -> Any:
        given = x @ W[:, :G] + B[:G]
        if joint:  # one activation for both gates, then a split
            both = sigmoid(given[:, : 2 * WIDTH] + h @ R[:, : 2 * WIDTH])
            z, r = jnp.split(both, 2, axis=-1)
        else:
            z = sigmoid(given[:, :WIDTH] + h @ R[:, :WIDTH])
            r = sigmoid(given[:, WIDTH : 2 * WIDTH] + h @ R[:, WIDTH : 2 * WIDTH])
        last, bias = R[:, 2 * WIDTH : G], B2[:WIDTH]
        product = r * (h @ last + bias) if after else (r * h) @ last + bias
        h = mix(z, jnp.tanh(given[:, 2 * WIDTH :] + product), h)
        return h, h

    return step


@pytest.mark.costly
@pytest.mark.parametrize("gates", GATES)
def test_lstm(gates: str) -> None:
    found = nodes(scanned(lstm(GATES[gates])), X)
    assert (found["LSTM"], found["Loop"]) == (1, 0)
    assert sum(found.values()) <= 6


@pytest.mark.parametrize("order", ["ifgo", "iofg", "fgio", "gofi"])
def test_lstm_orders_and_forget_bias(order: str) -> None:
    """haiku's i, g, f, o with a forget gate of + 1 is one of them."""
    found = nodes(scanned(lstm(GATES["two-biases"], order, forget=1.0)), X)
    assert (found["LSTM"], found["Loop"]) == (1, 0)


def test_lstm_of_weights_that_are_arguments() -> None:
    def function(x: Any, w: Any, r: Any, b: Any) -> Any:
        return scanned(lstm(lambda h, x: x @ w + h @ r + b))(x)

    found = nodes(function, X, W, R, B)
    assert (found["LSTM"], found["Loop"]) == (1, 0)


def test_two_layers_in_one_scan() -> None:
    """The second layer's inputs are the first one's stack."""
    deep = np.abs(W[:WIDTH])

    def step(state: Any, x: jax.Array) -> Any:
        first, second = state
        first, h = lstm(GATES["one-bias"])(first, x)
        second, h = lstm(lambda g, x: x @ deep + g @ R + B)(second, h)
        return (first, second), (h, second[0])

    found = nodes(scanned(step, ((H, C), (C, H))), X)
    assert (found["LSTM"], found["Loop"]) == (2, 0)


def test_a_second_layer_that_reads_the_inputs_too() -> None:
    """As haiku's deep networks with skip connections: its inputs are joined for all trips."""
    weights = np.concatenate([W, np.abs(W[:WIDTH]), R])

    def step(state: Any, x: jax.Array) -> Any:
        first, second = state
        first, h = lstm(GATES["one-bias"])(first, x)
        joined = jnp.concatenate([x, h], -1)
        gates = lambda g, x: jnp.concatenate([x, g], -1) @ weights + B  # noqa: E731
        second, h = lstm(gates)(second, joined)
        return (first, second), h

    found = nodes(scanned(step, ((H, C), (C, H))), X)
    assert (found["LSTM"], found["Loop"]) == (2, 0)


def test_what_else_the_body_does_stays_in_a_loop() -> None:
    def step(state: Any, x: jax.Array) -> Any:
        cell, total = state
        new, h = lstm(GATES["one-bias"])(cell, x)
        total = jnp.tanh(total * h - cell[0])
        return (new, total), (cell[0], total, h)

    found = nodes(scanned(step, ((H, C), C)), X)
    assert (found["LSTM"], found["Loop"], found["MatMul"]) == (1, 1, 0)


@pytest.mark.wide
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.OptimizedLSTMCell, nn.GRUCell])
def test_flax(cell: Any) -> None:
    model = nn.RNN(cell(WIDTH), time_major=True)
    shapes = jax.eval_shape(model.init, jax.random.key(0), X)
    params = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32), shapes)
    for keep in (False, True):
        function = lambda x, k=keep: model.apply(params, x, return_carry=k)  # noqa: E731
        found = nodes(function, X)
        assert (found["GRU" if cell is nn.GRUCell else "LSTM"], found["Loop"]) == (1, 0)


@pytest.mark.wide
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("cell", [eqx.nn.LSTMCell, eqx.nn.GRUCell])
def test_equinox(cell: Any, batched: bool) -> None:
    layer = cell(INPUTS, WIDTH, key=jax.random.key(1))
    zeros = jnp.zeros(WIDTH)

    def run(x: jax.Array) -> Any:
        def step(state: Any, row: jax.Array) -> Any:
            state = layer(row, state)
            return state, jax.tree.leaves(state)[0]

        return lax.scan(step, (zeros, zeros) if cell is eqx.nn.LSTMCell else zeros, x)

    found = nodes(jax.vmap(run, 1) if batched else run, X if batched else X[:, 0])
    assert (found["LSTM"] + found["GRU"], found["Loop"]) == (1, 0)


@pytest.mark.costly
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("mix", MIXED)
def test_gru(mix: str, after: bool, joint: bool) -> None:
    found = nodes(scanned(gru(MIXED[mix], after, joint), H), X)
    assert (found["GRU"], found["Loop"]) == (1, 0)


# -- types and shapes -----------------------------------------------------------------------------


def in_type(dtype: Any) -> tuple[Callable[..., Any], np.ndarray]:
    w, r, b = (array.astype(dtype) for array in (W, R, B))
    step = lstm(lambda h, x: x @ w + h @ r + b)
    return scanned(step, (H.astype(dtype), C.astype(dtype))), X.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_without_roundings(dtype: Any) -> None:
    found = nodes(*in_type(dtype), half="fast")
    assert (found["LSTM"], found["Loop"]) == (1, 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_types_without_a_kernel(dtype: Any) -> None:
    with jax.enable_x64(True):
        found = nodes(*in_type(dtype))
    assert (found["LSTM"], found["Loop"]) == (0, 1)


@pytest.mark.parametrize("step", ["lstm", "gru"])
def test_symbolic_batch(step: str) -> None:
    def function(x: jax.Array) -> Any:
        zeros = jnp.zeros((x.shape[1], WIDTH))
        if step == "lstm":
            return scanned(lstm(GATES["one-bias"]), (zeros, zeros))(x)
        return scanned(gru(MIXED["torch"], True), zeros)(x)

    (b,) = jax.export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((TRIPS, b, INPUTS), np.float32)
    program = hlo2onnx.translate(jax.export.export(jax.jit(function))(spec))
    operators = Counter(node.op_type for node in program.model.graph.all_nodes())
    assert (operators["LSTM"] + operators["GRU"], operators["Scan"]) == (1, 0)
    for batch in (1, BATCH):
        assert program.verify(X[:, :batch]).ok


@pytest.mark.wide
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("step", ["lstm", "gru"])
def test_symbolic_trips(step: str, reverse: bool) -> None:
    """From the last to the first, the rows are counted from the end."""

    def function(x: jax.Array) -> Any:
        zeros = jnp.zeros((x.shape[1], WIDTH))
        if step == "lstm":
            cell, state = lstm(GATES["one-bias"]), (zeros, zeros)
            return scanned(cell, state, reverse=reverse)(x)
        cell = gru(MIXED["torch"], True)
        return scanned(cell, zeros, reverse=reverse)(x)

    spec = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("t, b"), INPUTS), np.float32)
    program = hlo2onnx.translate(jax.export.export(jax.jit(function))(spec))
    operators = Counter(node.op_type for node in program.model.graph.all_nodes())
    assert operators["LSTM"] + operators["GRU"] == 1
    assert not operators["Loop"] + operators["Scan"]
    for trips, batch in ((1, 1), (2, BATCH), (TRIPS, 2)):
        assert program.verify(X[:trips, :batch]).ok


@pytest.mark.parametrize(
    ("step", "state"), [(lstm(GATES["one-bias"]), (H, C)), (gru(MIXED["torch"], True), H)]
)
def test_nan_as_in_xla(step: Callable[..., Any], state: Any) -> None:
    """The kernels of LSTM and GRU give numbers for NaN."""
    function = jax.jit(scanned(step, state))
    x = X.copy()
    x[1, 0, 1] = np.nan
    program = hlo2onnx.translate(function.lower(x), nan="xla")
    for have, want in zip(*map(jax.tree.leaves, (program(x), function(x))), strict=True):
        np.testing.assert_array_equal(np.isnan(have), np.isnan(want))
    assert {"lstm", "gru"}.isdisjoint(program.report.rules)


def test_trips_not_known() -> None:
    def function(x: jax.Array, n: jax.Array) -> Any:
        step = lstm(GATES["one-bias"])
        return lax.fori_loop(0, n, lambda i, s: step(s, x[i])[0], (jnp.asarray(H), jnp.asarray(C)))

    for trips in (0, 4):
        found = nodes(function, X, np.int32(trips))
        assert (found["LSTM"], found["Loop"]) == (0, 1)


@pytest.mark.wide
def test_rnn_is_for_other_runtimes() -> None:
    """ONNX Runtime's Loop is faster than its RNN."""

    def step(h: Any, x: jax.Array) -> Any:
        h = jnp.tanh(x @ W[:, :WIDTH] + h @ R[:, :WIDTH] + B[:WIDTH])
        return h, h

    def rectified(h: Any, x: jax.Array) -> Any:
        h = jax.nn.relu(x @ W[:, :WIDTH] + h @ R[:, :WIDTH])
        return h, h

    for function in (scanned(step, H), scanned(rectified, H)):
        assert nodes(function, X)["Loop"] == 1
        found = nodes(function, X, target="onnx")
        assert (found["RNN"], found["Loop"]) == (1, 0)


def test_shapes_are_those_of_the_loop() -> None:
    program = hlo2onnx.translate(jax.jit(scanned(lstm(GATES["one-bias"]))).lower(X))
    shapes = [tuple(value.shape or ()) for value in program.model.graph.outputs]
    assert shapes == [(BATCH, WIDTH), (BATCH, WIDTH), (TRIPS, BATCH, WIDTH)]

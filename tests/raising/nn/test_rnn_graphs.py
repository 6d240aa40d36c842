"""Single recurrent cells, spelled in many ways, and loops that differ from them in one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.rnn import Gru, Lstm

RNG = np.random.default_rng(0)
TRIPS, BATCH, INPUTS, WIDTH = 4, 3, 5, 2
Value = oir.Value


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X, H, C = normal(TRIPS, BATCH, INPUTS), normal(BATCH, WIDTH), normal(BATCH, WIDTH)
W, R = normal(INPUTS, 4 * WIDTH), normal(WIDTH, 4 * WIDTH)
BIAS, OTHER = normal(4 * WIDTH), normal(1, 4 * WIDTH)


def number(b: GraphBuilder, x: float) -> Value:
    return b.const(np.float32(x))


def logistic(b: GraphBuilder, x: Value) -> Value:
    made: Value = b.Div(number(b, 1), b.Add(number(b, 1), b.Exp(b.Neg(x))))
    return made


def cut(b: GraphBuilder, x: Value, k: int, axis: int = 1) -> Value:
    return b.slice(x, [k * WIDTH], [(k + 1) * WIDTH], axes=[axis])


def run(
    step: Callable[..., Any], rule: Any, states: int, count: int = TRIPS, **inputs: np.ndarray
) -> LoopRewrite:
    """The loop whose body is `step(b, x of the trip, *states)`."""

    def build(b: GraphBuilder, x: Value, **rest: Value) -> Any:
        given = [rest.pop("h"), rest.pop("c")][:states]

        def body(trip: Value, *states: Value) -> Any:
            return step(b, b.Gather(x, trip, axis=0), *states, **rest)

        return [b.Neg(value) for value in loop(b, count, given, body)]

    return LoopRewrite(build, {"x": X, "h": H, "c": C, **inputs}, rule, tolerance=1e-5)


# -- the sums of gates -------------------------------------------------------------------------

Gates = Callable[[GraphBuilder, Value, Value], Value]


def products(b: GraphBuilder, x: Value, h: Value) -> Value:
    made: Value = b.Add(b.MatMul(x, b.const(W)), b.MatMul(h, b.const(R)))
    return made


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


# -- GRU ---------------------------------------------------------------------------------------


def less(b: GraphBuilder, x: Value, of: float = 1) -> Value:
    made: Value = b.Sub(number(b, of), x)
    return made


MIXED: dict[str, tuple[Any, bool]] = {
    "plain": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, h)), True),
    "turned": (lambda b, z, n, h: b.Add(b.Mul(h, z), b.Mul(n, less(b, z))), True),
    "opposite": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), h), b.Mul(z, n)), True),
    "opposite-turned": (lambda b, z, n, h: b.Add(b.Mul(n, z), b.Mul(h, less(b, z))), True),
    "step": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(h, n))), True),
    "step-turned": (lambda b, z, n, h: b.Add(b.Mul(b.Sub(h, n), z), n), True),
    "step-from-the-state": (lambda b, z, n, h: b.Add(h, b.Mul(z, b.Sub(n, h))), True),
    "of-two": (lambda b, z, n, h: b.Add(b.Mul(less(b, z, 2), n), b.Mul(z, h)), False),
    "another-gate": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, b.Relu(z)), n), b.Mul(b.Abs(z), h)), False
    ),
    "opposite-of-another": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, b.Abs(z)), h), b.Mul(b.Relu(z), n)), False
    ),
    "no-state": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, b.Neg(h))), False),
    "opposite-no-state": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, z), b.Neg(h)), b.Mul(z, n)), False
    ),
    "step-of-another": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(h, b.Abs(n)))), False),
    "step-no-state": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(b.Abs(h), n))), False),
    "step-back": (lambda b, z, n, h: b.Add(h, b.Mul(z, b.Sub(h, n))), False),
    "step-from-neither": (lambda b, z, n, h: b.Add(b.Abs(h), b.Mul(z, b.Sub(n, h))), False),
    "difference": (lambda b, z, n, h: b.Sub(b.Mul(less(b, z), n), b.Mul(z, h)), False),
    "of-the-candidate-alone": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, n)), False),
}  # fmt: skip

CANDIDATES: dict[str, tuple[Any, bool]] = {
    "after": (lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.MatMul(h, m))), True),
    "after-turned": (lambda b, x, r, h, m: b.Add(b.Mul(b.MatMul(h, m), r), x), True),
    "after-with-a-bias": (
        lambda b, x, r, h, m: b.Add(
            x, b.Mul(r, b.Add(b.MatMul(h, m), b.const(BIAS[:WIDTH].copy())))
        ),
        True,
    ),
    "before": (lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(r, h), m)), True),
    "before-turned": (lambda b, x, r, h, m: b.Add(b.MatMul(b.Mul(h, r), m), x), True),
    "subtracted": (lambda b, x, r, h, m: b.Sub(x, b.Mul(r, b.MatMul(h, m))), False),
    "subtracted-before": (lambda b, x, r, h, m: b.Sub(x, b.MatMul(b.Mul(r, h), m)), True),
    "no-gate": (lambda b, x, r, h, m: b.Add(x, b.MatMul(h, m)), False),
    "another-gate": (lambda b, x, r, h, m: b.Add(x, b.Mul(b.Abs(r), b.MatMul(h, m))), False),
    "another-gate-before": (
        lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(b.Abs(r), h), m)), False
    ),
    "of-another-state": (lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(r, b.Abs(h)), m)), False),
    "inputs-scaled": (
        lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.Add(b.MatMul(h, m), x))), False
    ),
    "two-products": (
        lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.Add(b.MatMul(h, m), b.MatMul(h, m)))), False
    ),
}  # fmt: skip


def gru(mix: Any, candidate: Any, tanh: str = "Tanh", sigmoid: Any = None) -> LoopRewrite:
    def step(b: GraphBuilder, x: Value, h: Value) -> Any:
        w, r = (b.const(m[:, : 2 * WIDTH].copy()) for m in (W, R))
        act = sigmoid or (lambda b, x: b.Sigmoid(x))
        both = act(b, b.Add(b.MatMul(x, w), b.MatMul(h, r)))
        given = b.MatMul(x, b.const(W[:, -WIDTH:].copy()))
        new = candidate(b, given, cut(b, both, 1), h, b.const(R[:, -WIDTH:].copy()))
        after = mix(b, cut(b, both, 0), b.op(tanh, new), h)
        return [after], [after]

    return run(lambda b, x, h: step(b, x, h), Gru(), 1)


@pytest.mark.parametrize("name", MIXED)
def test_mixtures(name: str) -> None:
    mix, fires = MIXED[name]
    assert gru(mix, CANDIDATES["after"][0]).nodes["GRU"] == fires


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates(name: str) -> None:
    candidate, fires = CANDIDATES[name]
    found = gru(MIXED["plain"][0], candidate)
    assert found.nodes["GRU"] == fires
    for node in found.model.graph:
        if node.op_type == "GRU":
            after = node.attributes.get_int("linear_before_reset", 0)
            assert after == (not name.startswith(("before", "subtracted-before")))


def test_other_activations_are_no_gru() -> None:
    assert not gru(MIXED["plain"][0], CANDIDATES["after"][0], tanh="Relu").fired
    hard = lambda b, x: b.HardSigmoid(x)  # noqa: E731
    assert not gru(MIXED["plain"][0], CANDIDATES["after"][0], sigmoid=hard).fired


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

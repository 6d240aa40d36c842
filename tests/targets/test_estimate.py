"""The time of a call, estimated from the costs of the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.targets import load_target
from hlo2onnx.targets.estimate import work_of

X = np.ones((64, 64), np.float32)
COSTS = load_target("ort-cpu").costs


def seconds(function: Callable[..., Any], *args: Any, **options: Any) -> float | None:
    return hlo2onnx.translate(function, *args, **options).report.call_seconds


def trips(count: int) -> Callable[..., Any]:
    return lambda x: lax.fori_loop(0, count, lambda _, x: jnp.tanh(x @ x + 1), x)


def test_a_product_takes_its_multiplications() -> None:
    large = np.ones((1024, 1024), np.float32)
    found = seconds(jnp.matmul, large, large)
    assert found == pytest.approx(1024**3 * COSTS.product_picoseconds * 1e-12, rel=0.01)


def test_time_is_linear_in_trips() -> None:
    many, few = seconds(trips(2000), X), seconds(trips(1000), X)
    assert many == pytest.approx(2 * (few or 0), rel=0.01)


def test_of_branches_the_mean_time_counts() -> None:
    def one(p: Any, x: jax.Array) -> Any:
        return lax.cond(p, trips(100), trips(50), x)

    program = hlo2onnx.translate(one, np.True_, X)
    long, short = (seconds(trips(count), X) or 0 for count in (100, 50))
    assert program.report.call_seconds == pytest.approx((long + short) / 2, rel=0.01)
    assert work_of(program.model.graph, COSTS).nodes >= 300


def test_a_recurrent_network_takes_its_steps_and_products() -> None:
    w, u = (np.ones((64, 256), np.float32) for _ in range(2))

    def network(xs: jax.Array) -> Any:
        def step(carry: Any, x: jax.Array) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((4, 64))
        return lax.scan(step, (zero, zero), xs)[1]

    program = hlo2onnx.translate(network, np.ones((100, 4, 64), np.float32))
    assert program.report.nodes["LSTM"] == 1
    time = 100 * 4 * 2 * 64 * 256 * COSTS.product_picoseconds * 1e-12
    time += 100 * COSTS.node_nanoseconds * 1e-9
    assert program.report.call_seconds == pytest.approx(time, rel=0.03)


@pytest.mark.parametrize(
    ("function", "args", "options"),
    [
        (lambda n, x: lax.fori_loop(0, n, lambda _, x: jnp.sin(x), x), (np.int32(3), X), {}),
        (jnp.sin, ("n",), {}),
        (jnp.sin, (X,), {"target": "onnx"}),
    ],
    ids=["trips", "sizes", "costs"],
)
def test_what_is_unknown_gives_no_estimate(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    program = hlo2onnx.translate(function, *args, **options)
    assert program.report.call_seconds is None
    assert "on one core" not in str(program.report)


def test_unknown_sizes_still_count_nodes() -> None:
    work = work_of(hlo2onnx.translate(trips(1000), "n, n").model.graph, COSTS)
    assert (work.nodes, work.has_known_trips, work.has_known_sizes) == (3001, True, False)


def test_the_report_says_it() -> None:
    program = hlo2onnx.translate(trips(1000), X)
    assert "call     about 1" in str(program.report)
    assert program.report.as_dict()["call_seconds"] == program.report.call_seconds


def test_functions_of_a_model_are_no_operators_of_that_name() -> None:
    """Their work is not known."""

    @jax.jit
    def Conv(x: jax.Array) -> jax.Array:  # noqa: N802 - the name of an operator
        return jnp.sin(x) @ x

    program = hlo2onnx.translate(lambda x: Conv(x) + Conv(2 * x), X, functions="keep")
    assert any(node.op_type == "Conv" and node.domain for node in program.model.graph)
    assert program.report.call_seconds is None

"""Rows of a state that are computed apart and joined are computed at once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.runtime.sessions import OrtProgram

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 28.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
Field = Callable[[Any], Any]


def lorenz(s: Any) -> Any:
    x, y, z = s
    return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z])


def roessler(s: Any) -> Any:
    x, y, z = s
    return jnp.stack([-1.0 * y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)])


def lotka_volterra(s: Any) -> Any:
    x, y = s
    return jnp.stack([1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y])


def epidemic(s: Any) -> Any:
    susceptible, infected, _ = s
    new, healed = 0.3 * susceptible * infected, 0.1 * infected
    return jnp.stack([-1.0 * new, new - healed, healed])


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, whatever ran before it."""
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(0))


def rotation(s: Any) -> Any:
    x, y = s
    return jnp.stack([0.0 - y, x - 0.0])


def euler(field: Field, step: float = 0.01) -> Field:
    return lambda s: s + step * field(s)


def midpoint(field: Field) -> Field:
    return lambda s: s + 0.01 * field(s + 0.005 * field(s))


def states(rows: int, members: int = 5, dtype: Any = np.float32) -> np.ndarray:
    return RNG.normal(size=(rows, members)).astype(dtype)


class Looped:
    """A step in a scan that keeps all states, with the rule and without it: bit by bit the same.

    ONNX Runtime does not optimise the graphs: it takes 0 + x for x, which is wrong for -0, only
    where the 0 is one element.
    """

    def __init__(self, step: Field, x: np.ndarray, trips: int = 20) -> None:
        def run(x: Any) -> Any:
            return lax.scan(lambda s, _: (step(s), (s, step(s))), x, length=trips)

        lowered = jax.jit(run).lower(x)
        self.program = hlo2onnx.translate(lowered)
        plain = hlo2onnx.translate(lowered, without={"slp-vectorize"})
        self.fired = self.program.report.rules["slp-vectorize"]
        special = RNG.choice(SPECIAL, x.shape).astype(x.dtype)
        for given in (x, special):
            for one, other in zip(
                _results(self.program, given), _results(plain, given), strict=True
            ):
                np.testing.assert_array_equal(_bits(one), _bits(other))
        self.nodes = Counter(node.op_type for node in self.program.model.graph.all_nodes())
        self.saved = plain.report.nodes.total() - self.program.report.nodes.total()


def _results(program: hlo2onnx.OnnxProgram, x: np.ndarray) -> list[np.ndarray]:
    session = OrtProgram(program.model_proto.SerializeToString(), optimize=False).session
    results: list[np.ndarray] = session.run(None, {program.input_names[0]: x})
    return results


def _bits(x: np.ndarray) -> np.ndarray:
    """All NaN alike."""
    return np.where(np.isnan(x), np.float32(np.nan), x).view(np.int32)


PACKED = {
    "lorenz": (lorenz, 3),
    "roessler": (roessler, 3),
    "lotka-volterra": (lotka_volterra, 2),
    "epidemic": (epidemic, 3),
}


@pytest.mark.parametrize("members", [(), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("name", PACKED)
def test_rows_are_computed_at_once(name: str, members: tuple[int, ...]) -> None:
    field, rows = PACKED[name]
    x = RNG.normal(size=(rows, *members)).astype(np.float32)
    looped = Looped(midpoint(field), x)
    assert looped.fired
    assert not looped.nodes["Split"]
    assert looped.program.verify(x).ok, looped.program.verify(x)


def test_as_many_operators_as_by_hand() -> None:
    looped = Looped(euler(lorenz), states(3))
    # One sum is what the second result adds after the loop.
    expected = {"Add": 3, "Gather": 2, "Mul": 5, "Sub": 1, "Split": 0}
    assert {op: looped.nodes[op] for op in expected} == expected


def test_rows_that_stay_rows_need_no_constants() -> None:
    looped = Looped(euler(lambda s: jnp.stack([s[1] * s[0], s[0] * s[1]])), states(2))
    assert looped.fired
    assert not looped.nodes["Concat"]


def test_a_field_of_a_derivative() -> None:
    """Rows of constants are 0 in a derivative: a 28 cannot be taken from there."""
    Looped(lambda s: s + 0.01 * lorenz(lorenz(s)), states(3))


def test_double_precision() -> None:
    with jax.enable_x64(True):
        x = states(3, dtype=np.float64)
        lowered = jax.jit(lambda x: lax.scan(lambda s, _: (midpoint(lorenz)(s), s), x, length=20))
        lowered = lowered.lower(x)
        program = hlo2onnx.translate(lowered)
        assert program.report.rules["slp-vectorize"]
        assert program.verify(x).ok


OTHERS: dict[str, tuple[Field, np.ndarray]] = {
    "a-function": (lambda s: jnp.stack([s[1], -9.81 * jnp.sin(s[0])]), states(2)),
    "large-rows": (lorenz, states(3, 200)),
    "many-rows": (lambda s: jnp.stack([s[k - 1] * s[k] - s[k - 2] for k in range(7)]), states(7)),
    "a-sum-of-all-rows": (lambda s: jnp.stack([s[0], s[1]]) * s.sum(), states(2)),
    "joined-in-another-shape": (lambda s: jnp.concatenate([s[:2] * 2.0, s[2:] * s[0]]), states(3)),
    "along-the-columns": (lambda s: jnp.roll(s, 1, 1) * jnp.stack([s[0], s[2], s[1]]), states(3)),
    "not-finite": (lambda s: jnp.stack([s[1] - np.inf, s[0] * np.inf - s[1]]), states(2)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_left_alone(name: str) -> None:
    field, x = OTHERS[name]
    assert not Looped(euler(field), x, 12).fired


def test_a_row_that_is_read_elsewhere() -> None:
    def run(x: Any) -> Any:
        return lax.scan(lambda s, _: (euler(lorenz)(s), s[0] * (28.0 - s[2])), x, length=20)

    x = states(3)
    program = hlo2onnx.translate(jax.jit(run).lower(x))
    assert not program.report.rules["slp-vectorize"]
    assert program.verify(x).ok


def test_a_step_that_is_an_argument() -> None:
    """0 times an unknown step might be NaN, and the constants with it."""
    run = jax.jit(lambda x, dt: lax.fori_loop(0, 20, lambda _, s: euler(lorenz, dt)(s), x))
    args = (states(3), np.float32(0.01))
    program = hlo2onnx.translate(run.lower(*args))
    assert not program.report.rules["slp-vectorize"]
    assert program.verify(*args).ok


def test_another_state_beside() -> None:
    def run(x: Any, y: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            s, total = carry
            return (euler(lorenz)(s), total * 0.5 + 1.0), total

        return lax.scan(step, (x, y), length=20)

    args = (states(3), np.float32(1))
    program = hlo2onnx.translate(jax.jit(run).lower(*args))
    assert program.report.rules["slp-vectorize"]
    assert program.verify(*args).ok


def random_row(rng: np.random.Generator, rows: Any, depth: int) -> Any:
    """Sums and products of rows and numbers."""
    if not depth or rng.random() < 0.2:
        number = rng.choice([0.0, 1.0, -0.0, 2.0, 0.3, -1.0])
        return rows[rng.integers(len(rows))] if rng.random() < 0.75 else number
    left, right = random_row(rng, rows, depth - 1), random_row(rng, rows, depth - 1)
    return [lambda: left + right, lambda: left - right, lambda: left * right][rng.integers(3)]()


@pytest.mark.parametrize("seed", range(25))
def test_random_fields(seed: int) -> None:
    count = 2 + seed % 3

    def field(s: Any) -> Any:
        rng = np.random.default_rng(seed)
        return jnp.stack([random_row(rng, s, 3) + 0.0 * s[k] for k in range(count)])

    Looped(midpoint(field), states(count, 7), 12)


def test_random_fields_are_packed_at_all() -> None:
    fired = 0
    for seed in range(6):

        def field(s: Any, seed: int = seed) -> Any:
            rng = np.random.default_rng(200 + seed)
            return jnp.stack([random_row(rng, s, 3) * s[0] - s[k] for k in range(3)])

        fired += Looped(euler(field), states(3), 12).fired
    assert fired >= 3

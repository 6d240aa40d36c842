"""The inputs that a verification makes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify import trial as trial_module
from hlo2onnx.verify.inputs import private_generator
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.settings import Settings

X = np.ones((4, 3), np.float32)


def trials(function: Any, *args: np.ndarray, **options: Any) -> list[list[np.ndarray]]:
    source = load(jax.jit(function).lower(*args), (), {}, None)
    return [list(trial.arrays) for trial in Judge(source, None, Settings(**options)).trials]


def test_no_seed_of_a_user_gives_the_inputs() -> None:
    ((x,), *_) = trials(jnp.sin, X)
    for seed in range(100):
        users = [np.random.default_rng(seed).normal(size=X.shape)]
        users.append(np.random.RandomState(seed).normal(size=X.shape))
        assert not any(np.isin(x, user.astype(np.float32)).any() for user in users)
    assert (private_generator(0).normal(size=3) != private_generator(1).normal(size=3)).all()


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (trials(jnp.sin, X, seed=3, samples=5) for _ in range(2))
    assert len(first) == 5
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
    (other, *_) = trials(jnp.sin, X, seed=4, samples=1)
    assert (other[0] != first[0][0]).all()


def test_indices_take_their_whole_range_and_more() -> None:
    table = np.zeros((1000, 2), np.float32)
    every = trials(lambda a, i: a[i], table, np.zeros(40, np.int32), samples=24)
    first = every[0][1]
    assert first.min() >= -1 and first.max() < 1001 and np.ptp(first) > 100
    seen = np.concatenate([indices for _, indices in every])
    assert {-1, 1000, -(2**31), 2**31 - 1} <= set(seen.tolist())


@pytest.mark.parametrize("index", [1, slice(1, 2)])
def test_indices_behind_an_update(index: Any) -> None:
    """One update is a scatter, and one a dynamic_update_slice."""

    def search(table: jax.Array, start: jax.Array) -> jax.Array:
        tokens = jnp.zeros(3, jnp.int32).at[index].set(start)
        return lax.dynamic_index_in_dim(table, tokens[1], keepdims=False) + table[tokens]

    every = trials(search, np.zeros((1000, 2), np.float32), np.array(1, np.int32), samples=24)
    assert {-1, 999} & {int(start) for _, start in every}


def test_thresholds_behind_arithmetic() -> None:
    every = trials(lambda x: jnp.where(2 * x - 100 > 0, x, -x), X)
    seen = np.concatenate([x.reshape(-1) for (x,) in every])
    assert (seen > 50).any() and ((seen < 50) & (seen > 49)).any()


def test_conditions_of_loops_get_no_extreme_values() -> None:
    def count(n: jax.Array) -> jax.Array:
        return lax.fori_loop(0, n, lambda _, x: x + 1, 0) // (n + 1)

    for (n,) in trials(count, np.array(2, np.int32)):
        assert -1000 <= n <= 1000


def test_loops_that_do_not_end_are_left_out() -> None:
    """Doubling 0 and negative numbers never exceeds the limit."""

    def double(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: jnp.abs(x) < 1000, lambda x: 2 * x * (x > 0), x)

    every = trials(double, np.array(1, np.float32))
    assert len(every) > 2
    assert all(x > 0 or x <= -1000 for (x,) in every)

    def forever(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: jnp.isfinite(x), lambda x: x * 0, x)

    with pytest.raises(hlo2onnx.VerificationError, match="trips on random inputs"):
        trials(forever, np.array(1, np.float32))


def test_keys_have_random_bits() -> None:
    key = np.array([0, 1], np.uint32)
    every = trials(lambda key: jax.random.normal(key, (3,)), key)
    assert max(int(array.max()) for (array,) in every) > 1 << 30


def test_matrices_of_cholesky_are_positive_definite() -> None:
    found = hlo2onnx.translate(jax.jit(jnp.linalg.cholesky).lower(X[:3] + np.eye(3))).verify()
    assert found.ok
    assert not found.says_little


def test_every_symbol_at_several_sizes() -> None:
    b, s = jax.export.symbolic_shape("b, s")
    exported = jax.export.export(jax.jit(lambda x: x @ x.T))(
        jax.ShapeDtypeStruct((b, s), jnp.float32)
    )
    program = hlo2onnx.translate(exported)
    note = program.verify().notes[0]
    for sizes in ("b = 3, s = 4", "b = 1, s = 1", "b = 2, s = 2"):
        assert sizes in note
    note = program.verify(sizes=[{"b": 7}, {"s": 9}]).notes[0]
    assert "b = 7, s = 3" in note
    assert "b = 3, s = 9" in note


def test_sizes_that_the_program_does_not_take_are_left_out() -> None:
    (s,) = jax.export.symbolic_shape("s", constraints=["s >= 3"])
    exported = jax.export.export(jax.jit(lambda x: x[2:] * 2))(
        jax.ShapeDtypeStruct((s,), jnp.float32)
    )
    found = hlo2onnx.translate(exported).verify()
    assert found.ok
    assert any("does not take s = 1" in note for note in found.notes)


@pytest.mark.parametrize("count", [1, 7])
def test_samples(count: int) -> None:
    assert hlo2onnx.translate(jax.jit(jnp.sin).lower(X)).verify(samples=count).samples == count


def test_slow_programs_get_few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "SHARE", -1e9)
    assert len(trials(jnp.sin, X)) == 2


def test_xla_runs_once_for_many_models() -> None:
    lowered = jax.jit(jnp.sin).lower(X)
    program = hlo2onnx.translate(lowered)
    judge = Judge(load(lowered, (), {}, None))

    def refuse(arrays: Any) -> Any:
        raise AssertionError

    judge.reference = refuse  # type: ignore[assignment]
    from hlo2onnx.verify.runners import Candidate

    content = program.model_proto.SerializeToString()
    for _ in range(2):
        assert judge(Candidate(content, program.input_names)).ok


CACHE = """
func.func @main(%c: tensor<?x3xf32>, %y: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.concatenate %c, %y, dim = 0
      : (tensor<?x3xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


def test_sizes_include_0_where_the_program_allows_it():
    def grown(cache, y):
        return jnp.concatenate([cache, y])

    y = np.ones((2, 3), np.float32)
    programs = [hlo2onnx.translate(grown, dims, y) for dims in ("p - 1, 3", "p, 3")]
    for program, least in zip([hlo2onnx.translate(CACHE), *programs], (0, 0, 1), strict=True):
        judge = Judge(program._source)
        assert min(trial.arrays[0].shape[0] for trial in judge.trials) == least
        assert not any("does not take" in note for note in judge._notes)


def test_moments_of_an_optimizer_are_not_negative() -> None:
    """Their terms are added before the root, in a function of their own."""

    @jax.jit
    def scaled(moment: jax.Array, gradient: jax.Array, count: jax.Array) -> jax.Array:
        squares = 0.999 * moment + 0.001 * gradient * gradient
        return gradient / (jnp.sqrt(squares / (1 - 0.999**count)) + 1e-8)

    def step(w: jax.Array, moment: jax.Array, count: jax.Array) -> jax.Array:
        return w - scaled(moment, jnp.sin(w), count + 1)

    x = np.zeros((16, 16), np.float32)
    program = hlo2onnx.translate(step, x, x, np.int32(0))
    judge = Judge(program._source, None, Settings(samples=12))
    for trial in judge.trials:
        if trial.is_ordinary:
            assert np.isfinite(trial.expected[0]).all(), trial.kind
            assert trial.arrays[1].min() >= 0 and trial.arrays[2] >= 0
    assert judge.trials[0].arrays[0].min() < 0
    assert any(trial.arrays[1].min() < 0 for trial in judge.trials)


def test_the_text_is_a_table() -> None:
    program = hlo2onnx.translate(jnp.sin, "b, s")
    lines = str(program.verify(samples=4)).splitlines()
    (first,) = (index for index, line in enumerate(lines) if line.startswith("note"))
    assert lines[first:] == [
        "note     8 samples of random inputs, seed 0",
        "                       ordinary",
        "         b = 3, s = 4         4",
        "         b = 1, s = 1         2",
        "         b = 2, s = 2         2",
    ]

"""Programs that amplify rounding errors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Candidate
from hlo2onnx.verify.sensitivity import movements
from hlo2onnx.verify.settings import Settings


def logistic(arrays: list[np.ndarray], steps: int) -> list[np.ndarray]:
    (x,) = arrays
    for _ in range(steps):
        x = np.float32(3.9) * x * (1 - x)
    return [x]


X = np.linspace(0.1, 0.9, 64, dtype=np.float32)


def test_a_chaotic_program_moves_as_much_as_its_results() -> None:
    (moved,) = next(movements([lambda a: logistic(a, 60)], [X], logistic([X], 60)))
    assert np.median(moved.limit) > 0.1


def test_noise_excuses_noise_alone() -> None:
    """The mean of centered numbers has no digits; another number is wrong all the same."""
    program = hlo2onnx.translate(jax.jit(lambda x: jnp.mean(x - jnp.mean(x))).lower(X))
    wrong = hlo2onnx.translate(jax.jit(lambda x: jnp.mean(x - jnp.mean(x)) + 0.5).lower(X))
    judge = Judge(program._source, None, Settings(samples=3))
    assert program.verify(X).ok
    assert judge(Candidate(wrong.model_proto.SerializeToString(), wrong.input_names)).differing


def test_a_tame_program_moves_by_roundings() -> None:
    (moved,) = next(movements([lambda a: logistic(a, 1)], [X], logistic([X], 1)))
    assert moved.limit.max() < 2e-5
    assert moved.count <= 1 and moved.most < 1e-5


def test_without_floats_nothing_is_known() -> None:
    integers = np.arange(3)
    assert not list(movements([lambda a: [a[0]]], [integers], [integers]))


def test_runs_miss_elements_by_chance() -> None:
    """As many elements as a run may differ as much as it does, if the others judge it."""
    rng = np.random.default_rng(0)
    x = np.ones(100_000, np.float32)

    def noise(_: object) -> list[np.ndarray]:
        return [x + rng.uniform(-1, 1, x.size) ** 61]

    (moved,) = next(movements([noise], [x], [x]))
    right = np.zeros(x.size, bool)
    other = np.abs(noise(x)[0] - x)
    assert 0 < (other > moved.limit).sum() <= 1.5 * moved.count
    assert moved.accepts(right, np.minimum(other, moved.limit)).all()
    low = np.argsort(moved.limit)
    few = np.zeros(x.size)
    few[low[: moved.count]] = moved.most
    assert moved.accepts(right, few).all()
    assert not moved.accepts(right, few * 1.01).all()
    few[low[moved.count]] = moved.most
    assert not moved.accepts(right, few).all()


def test_jumps_of_few_elements_excuse_no_others() -> None:
    rng = np.random.default_rng(0)
    x = np.zeros(1000, np.int32)
    (moved,) = next(movements([lambda _: [x + (rng.random(1000) > 0.99)]], [X], [x]))
    assert (moved.limit > 0).any() and moved.count == 0


def test_rounding_inside_of_a_program() -> None:
    """1 - tanh(x)² has no digits left. Its inputs do not tell: the tanh is saturated."""
    x = np.full(4, 8, np.float32)
    source = load(
        jax.jit(lambda x: (1 - jnp.tanh(x) ** 2, jnp.floor(x / 4))).lower(x), (), {}, None
    )
    reference = Reference(source)
    variants = reference.at([x]).variants
    assert variants
    loss, _ = next(movements([reference, *variants], [x], reference([x])))
    assert loss.limit.max() > 1e-7
    for variant in variants:  # integers stay
        np.testing.assert_array_equal(variant([x])[1], 2)


def test_rounding_of_running_sums() -> None:
    """Beyond 2^24, all f32 are whole. That does not make them exact."""
    for x in (np.full(4, 1 / 3, np.float32), np.full(4, 1 << 26, np.float32)):
        reference = Reference(load(jax.jit(jnp.cumsum).lower(x), (), {}, None))
        for variant in reference.at([x]).variants:
            assert (variant([x])[0] != reference([x])[0]).any()


def test_rounding_differs_from_trip_to_trip() -> None:
    """The second difference of a slowly growing function: errors of one sign would cancel."""

    def second_difference(x: jax.Array) -> jax.Array:
        y = jax.lax.map(lambda step: jnp.tanh(x + step * 1e-6), jnp.arange(9.0))
        return y[2:] - 2 * y[1:-1] + y[:-2]

    x = np.full(3, 0.5, np.float32)
    reference = Reference(load(jax.jit(second_difference).lower(x), (), {}, None))
    differences = [np.abs(variant([x])[0]).max() for variant in reference.at([x]).variants]
    assert min(differences) > 3e-7


def test_rounding_of_a_program_without_floats_among_its_inputs() -> None:
    """Numbers that are drawn within the program."""

    def drawn(seed: jax.Array) -> jax.Array:
        x = jnp.sin(seed.astype(jnp.float32))
        return jax.lax.fori_loop(0, 40, lambda _, x: 3.9 * x * (1 - x), x * x)

    seed = np.int32(7)
    reference = Reference(load(jax.jit(drawn).lower(seed), (), {}, None))
    runs = [reference, *reference.at([seed]).variants]
    (moved,) = next(movements(runs, [seed], reference([seed])))
    assert moved.limit > 1e-3


def test_errors_of_fourier_transforms() -> None:
    """They are relative to the largest result."""
    x = np.full(64, 1, np.float32) + np.arange(64, dtype=np.float32) % 3 * 1e-6
    reference = Reference(load(jax.jit(lambda x: jnp.abs(jnp.fft.fft(x))).lower(x), (), {}, None))
    (expected,) = reference([x])
    for variant in reference.at([x]).variants:
        (found,) = variant([x])
        assert abs(found - expected)[1:].max() > 1e-8 * expected[0]


def test_phases_of_large_integers() -> None:
    """FM synthesis of notes: the phases are whole numbers, and inexact."""

    def voice(notes: jax.Array) -> jax.Array:
        frequency = 440 * 2.0 ** ((notes.astype(jnp.float32) - 69) / 12)
        time = jnp.arange(8000) / 16000.0
        carried = jnp.cumsum(frequency * 1000 * time)
        return jnp.sin(2 * jnp.pi * (carried + 100 * jnp.sin(2 * jnp.pi * frequency * time)))

    notes = np.int32(69)
    found = hlo2onnx.translate(jax.jit(voice), notes).verify(notes)
    assert found.ok, found

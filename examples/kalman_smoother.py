"""A Kalman smoother (Rauch, Tung and Striebel): a scan forwards and one backwards, with solves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from gallery import Example, main


class Model(NamedTuple):
    """A linear system: x' = transition x + noise, with measurements observe x + noise."""

    transition: jax.Array
    observe: jax.Array
    process_noise: jax.Array
    measurement_noise: jax.Array


class Belief(NamedTuple):
    """A normal distribution over states."""

    mean: jax.Array
    covariance: jax.Array


def smooth(model: Model, start: Belief, measurements: jax.Array) -> Belief:
    """The beliefs about all states ``[step, ...]`` given all measurements ``[step, axis]``."""

    def predict(belief: Belief) -> Belief:
        f = model.transition
        return Belief(f @ belief.mean, f @ belief.covariance @ f.T + model.process_noise)

    def forward(belief: Belief, measurement: jax.Array) -> tuple[Belief, tuple[Belief, Belief]]:
        predicted = predict(belief)
        h = model.observe
        innovation = h @ predicted.covariance @ h.T + model.measurement_noise
        factor = jsl.cho_factor(innovation, lower=True)
        gain = jsl.cho_solve(factor, h @ predicted.covariance).T
        mean = predicted.mean + gain @ (measurement - h @ predicted.mean)
        kept = jnp.eye(len(mean), dtype=mean.dtype) - gain @ h
        # Joseph's form stays symmetric and positive definite in rounded arithmetic.
        covariance = kept @ predicted.covariance @ kept.T + gain @ model.measurement_noise @ gain.T
        filtered = Belief(mean, covariance)
        return filtered, (filtered, predicted)

    def backward(after: Belief, beliefs: tuple[Belief, Belief]) -> tuple[Belief, Belief]:
        filtered, predicted = beliefs
        gain = jnp.linalg.solve(predicted.covariance, model.transition @ filtered.covariance).T
        mean = filtered.mean + gain @ (after.mean - predicted.mean)
        difference = after.covariance - predicted.covariance
        smoothed = Belief(mean, filtered.covariance + gain @ difference @ gain.T)
        return smoothed, smoothed

    last, (filtered, predicted) = jax.lax.scan(forward, start, measurements)
    # The belief about a state is corrected by the smoothed belief about the next one.
    pairs = (
        jax.tree.map(lambda x: x[:-1], filtered),
        jax.tree.map(lambda x: x[1:], predicted),
    )
    _, smoothed = jax.lax.scan(backward, last, pairs, reverse=True)
    return Belief(
        jnp.concatenate([smoothed.mean, last.mean[None]]),
        jnp.concatenate([smoothed.covariance, last.covariance[None]]),
    )


def build(
    steps: int = 100, axes: int = 3, dtype: Any = jnp.float32
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the smoother, and the noisy positions of a body that is pushed about."""
    rng = np.random.default_rng(0)
    dt, eye = 0.1, np.eye(axes)
    transition = np.kron([[1, dt], [0, 1]], eye)
    impulse = np.kron([[dt**2 / 2], [dt]], eye)
    model = Model(
        *(
            jnp.asarray(array, dtype)
            for array in (
                transition,
                np.kron([[1, 0]], eye),
                impulse @ impulse.T + 1e-3 * np.eye(2 * axes),
                0.04 * eye,
            )
        )
    )
    pushes = rng.normal(size=(steps, axes)) @ impulse.T
    state, track = np.zeros(2 * axes), []
    for push in pushes:
        state = transition @ state + push
        track.append(state[:axes] + 0.2 * rng.normal(size=axes))
    start = Belief(jnp.zeros(2 * axes, dtype), jnp.eye(2 * axes, dtype=dtype))
    return smooth, (model, start, jnp.asarray(np.array(track), dtype))


EXAMPLE = Example(
    name="kalman_smoother",
    summary="Kalman smoother with solves inside scans",
    build=build,
    tolerance=2e-5,
    small={"steps": 12, "axes": 2},
    gradient=(2,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

"""One training step of a small CNN with Adam: gradients, moments and statistics in the graph.

The model takes the state and returns the next one, so it trains in ONNX Runtime step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
from gallery import Example, main, trained

CLASSES = 4
SIDE = 16

Batch = tuple[np.ndarray, np.ndarray]
Step = Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]]


class Classifier(nn.Module):
    """Two convolutions, one of them with batch norm, and a dense layer."""

    features: int = 16

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        # A bias would have no effect. Its gradient would be pure rounding, which Adam magnifies.
        x = nn.Conv(self.features, (3, 3), use_bias=False)(images)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(self.features, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(CLASSES)(x.reshape((x.shape[0], -1)))


def batches(size: int, seed: int = 0) -> Iterator[Batch]:
    """Endless images of noisy stripes, labelled with one of four directions."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    angles = np.pi * np.arange(CLASSES) / CLASSES
    while True:
        labels = rng.integers(0, CLASSES, size)
        phases = rng.uniform(0, 2 * np.pi, size)
        along = np.cos(angles)[:, None, None] * x + np.sin(angles)[:, None, None] * y
        images = np.sin(along[labels] + phases[:, None, None])
        images = images + rng.normal(0, 1.0, images.shape)
        yield images[..., None].astype(np.float32), labels.astype(np.int32)


def make_step(model: nn.Module, optimizer: optax.GradientTransformation) -> Step:
    """Return ``step(state, images, labels) -> (state, loss)``."""

    def loss_of(params: Any, statistics: Any, images: jax.Array, labels: jax.Array) -> Any:
        variables = {"params": params, "batch_stats": statistics}
        logits, updated = model.apply(variables, images, mutable=["batch_stats"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), updated["batch_stats"]

    def step(state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, jax.Array]:
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        (loss, statistics), grads = gradient(state["params"], state["batch_stats"], images, labels)
        updates, moments = optimizer.update(grads, state["moments"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "batch_stats": statistics, "moments": moments}, loss

    return step


def build(features: int = 16, batch: int = 32) -> tuple[Step, tuple[Any, ...]]:
    """Return the training step, a state in the midst of training and a batch.

    Adam divides by the size of past gradients. In the very first step there are none, and it
    would magnify the rounding of the smallest gradients.
    """
    model, optimizer = Classifier(features), optax.adam(3e-3)
    stream = batches(batch)
    images, labels = next(stream)
    variables = trained(jax.eval_shape(model.init, jax.random.key(0), images))
    state = {**variables, "moments": optimizer.init(variables["params"])}
    step = make_step(model, optimizer)
    for _ in range(2):
        state, _ = jax.jit(step)(state, *next(stream))
    return step, (state, images, labels)


EXAMPLE = Example(
    name="train_step",
    summary="One training step of a CNN with Adam (optax), the state as argument and result",
    build=build,
    tolerance=1e-5,
    small={"features": 4, "batch": 8},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

"""Writes StableHLO programs of JAX's libraries to ``tests/producers/``.

    python -m tools.producers             all of them
    python -m tools.producers haiku linen

It needs Keras (with its JAX backend), Haiku, Flax, Equinox and Optax. Weights are small constants
of the program; the training step takes its weights as arguments.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import numpy as np

from tools import ROOT

FOLDER = ROOT / "tests" / "producers"

IMAGE = np.zeros((2, 12, 12, 3), np.float32)
TOKENS = np.zeros((2, 6), np.int32)
SEQUENCE = np.zeros((2, 5, 4), np.float32)


def keras_cnn() -> Any:
    """Convolutions, batch normalization, pooling; inference through `stateless_call`."""
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(6, 3, activation="swish"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.5),
            layers.Dense(3, activation="softmax"),
        ]
    )
    variables = [[item.value for item in group] for group in _variables(model)]
    return jax.jit(lambda x: model.stateless_call(*variables, x)[0]).lower(IMAGE)


def _variables(model: Any) -> tuple[Any, Any]:
    return model.trainable_variables, model.non_trainable_variables


def keras_text() -> Any:
    """Embedding, attention, layer normalization, a bidirectional LSTM and a GRU."""
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    tokens = keras.Input((6,), dtype="int32")
    x = layers.Embedding(16, 8)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    model = keras.Model(tokens, layers.Dense(2)(layers.GRU(4)(x)))
    variables = [[item.value for item in group] for group in _variables(model)]
    return jax.jit(lambda x: model.stateless_call(*variables, x)[0]).lower(TOKENS)


def haiku() -> Any:
    """An unrolled LSTM, batch normalization with state, and dropout with a key."""
    import haiku as hk

    def network(x: jax.Array, is_training: bool) -> jax.Array:
        core = hk.LSTM(6)
        y, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)
        y = hk.BatchNorm(True, True, 0.9)(y, is_training)
        y = hk.dropout(hk.next_rng_key(), 0.25, y) if is_training else y
        return hk.nets.MLP([5, 3])(y)

    transformed = hk.transform_with_state(network)
    params, state = transformed.init(jax.random.PRNGKey(0), SEQUENCE, True)
    apply = jax.jit(lambda key, x: transformed.apply(params, state, key, x, True))
    return apply.lower(jax.random.PRNGKey(1), SEQUENCE)


def linen() -> Any:
    """Convolution, group normalization and attention of flax.linen."""
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = nn.gelu(nn.GroupNorm(2)(nn.Conv(8, (3, 3), strides=2)(x)))
            x = x.reshape(x.shape[0], -1, x.shape[-1])
            x = x + nn.SelfAttention(num_heads=2)(nn.LayerNorm()(x))
            return nn.Dense(3)(nn.avg_pool(x, (4,), (4,)).mean(1))

    network = Network()
    params = network.init(jax.random.PRNGKey(0), IMAGE)
    return jax.jit(lambda x: network.apply(params, x)).lower(IMAGE)


def nnx() -> Any:
    """A causal transformer block of flax.nnx, split into graph and state."""
    from flax import nnx as nn

    class Block(nn.Module):
        def __init__(self, rngs: nn.Rngs) -> None:
            self.embed = nn.Embed(16, 8, rngs=rngs)
            self.norm = nn.RMSNorm(8, rngs=rngs)
            self.attention = nn.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.out = nn.Linear(8, 16, rngs=rngs)

        def __call__(self, tokens: jax.Array) -> jax.Array:
            x = self.embed(tokens)
            mask = nn.make_causal_mask(tokens)
            x = x + self.attention(self.norm(x), mask=mask)
            return jax.nn.log_softmax(self.out(x))

    graph, state = nn.split(Block(nn.Rngs(0)))
    return jax.jit(lambda tokens: nn.merge(graph, state)(tokens)).lower(TOKENS)


def equinox() -> Any:
    """A GRU cell scanned over a sequence and an MLP, mapped over the batch."""
    import equinox as eqx

    keys = jax.random.split(jax.random.PRNGKey(0))
    cell = eqx.nn.GRUCell(4, 6, key=keys[0])
    mlp = eqx.nn.MLP(6, 3, 8, 2, activation=jax.nn.silu, key=keys[1])

    def network(xs: jax.Array) -> jax.Array:
        state, _ = jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(6), xs)
        return mlp(state)

    return jax.jit(jax.vmap(network)).lower(SEQUENCE)


def optax() -> Any:
    """A training step: gradient, clipping by norm, AdamW under a schedule; all of it donated."""
    import optax as ox

    optimizer = ox.chain(ox.clip_by_global_norm(1.0), ox.adamw(ox.cosine_decay_schedule(1e-2, 100)))

    def loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        logits = jnp.tanh(x @ params["w"] + params["b"]) @ params["out"]
        return ox.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params: Any, state: Any, x: jax.Array, labels: jax.Array) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x, labels)
        updates, state = optimizer.update(grads, state, params)
        return ox.apply_updates(params, updates), state, value

    params = {"w": jnp.zeros((4, 6)), "b": jnp.zeros(6), "out": jnp.zeros((6, 8))}
    x, labels = np.zeros((3, 4), np.float32), np.zeros(3, np.int32)
    jitted = jax.jit(step, donate_argnums=(0, 1))
    return jitted.lower(params, optimizer.init(params), x, labels)


PRODUCERS: dict[str, tuple[Callable[[], Any], str]] = {
    "keras_cnn": (keras_cnn, "keras"),
    "keras_text": (keras_text, "keras"),
    "haiku": (haiku, "dm-haiku"),
    "linen": (linen, "flax"),
    "nnx": (nnx, "flax"),
    "equinox": (equinox, "equinox"),
    "optax": (optax, "optax"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.producers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help=f"default: all of {', '.join(PRODUCERS)}")
    for name in parser.parse_args().names or PRODUCERS:
        make, package = PRODUCERS[name]
        versions = f"{package} {version(package)}, jax {jax.__version__}"
        text = f"// python -m tools.producers {name}: {versions}\n{make().as_text()}\n"
        (FOLDER / f"{name}.mlir").write_text(text)
        print(f"{name}.mlir: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()

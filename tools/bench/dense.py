"""Dense networks, and programs with loops, draws and sorts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from tools.bench.benchmark import Benchmark, Built
from tools.examples import load

CLASSES = 10
GPT2 = {"layers": 6, "width": 384, "heads": 6, "tokens": 128, "vocab": 512}


def training_step(
    size: int = 28, batch: int = 32, rate: float = 0.05, momentum: float = 0.9
) -> Built:
    """A step of gradient descent with momentum of a CNN; the state goes in and comes out."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, np.prod(shape[:-1]) ** -0.5, shape), jnp.float32)

    params = {
        "conv_1": normal(3, 3, 1, 32),
        "conv_2": normal(3, 3, 32, 64),
        "dense": normal((size // 4) ** 2 * 64, 128),
        "head": normal(128, CLASSES),
    }

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)
        return nn.avg_pool(nn.relu(x), (2, 2), strides=(2, 2))

    def loss(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        x = convolved(convolved(images, params["conv_1"]), params["conv_2"])
        x = nn.relu(x.reshape(batch, -1) @ params["dense"]) @ params["head"]
        chosen = jnp.take_along_axis(nn.log_softmax(x), labels[:, None], axis=1)
        return -chosen.mean()

    def step(params: Any, speed: Any, images: jax.Array, labels: jax.Array) -> Any:
        value, slope = jax.value_and_grad(loss)(params, images, labels)
        speed = jax.tree.map(lambda v, g: momentum * v - rate * g, speed, slope)
        return value, jax.tree.map(jnp.add, params, speed), speed

    speed = jax.tree.map(lambda leaf: normal(*leaf.shape) * 0.01, params)
    images = jnp.asarray(rng.normal(size=(batch, size, size, 1)), jnp.float32)
    return step, (params, speed, images, jnp.asarray(rng.integers(0, CLASSES, batch), jnp.int32))


def draws(count: int = 20, batch: int = 8, classes: int = 1000, size: int = 64) -> Built:
    """Categorical draws, each with a key of its own (threefry), and an image of normals."""

    def draw(key: jax.Array, logits: jax.Array) -> tuple[jax.Array, jax.Array]:
        *keys, last = jax.random.split(key, count + 1)
        drawn = jnp.stack([jax.random.categorical(key, logits) for key in keys])
        return drawn, jax.random.normal(last, (size, size))

    logits = np.random.default_rng(0).normal(size=(batch, classes))
    return draw, (jax.random.PRNGKey(0), jnp.asarray(logits, jnp.float32))


def search(
    queries: int = 64, points: int = 512, features: int = 16, near: int = 10, groups: int = 8
) -> Built:
    """Points in the order of their distance, the nearest ones' mean, and totals by group."""

    def find(asked: jax.Array, known: jax.Array, group: jax.Array) -> dict[str, jax.Array]:
        distances = jnp.sum(jnp.square(asked[:, None] - known[None]), axis=-1)
        order = jnp.argsort(distances, axis=1)
        least, nearest = jax.lax.top_k(-distances, near)
        totals = jax.ops.segment_sum(distances.T, group, groups)
        return {
            "order": order,
            "least": -least,
            "mean": known[nearest].mean(1),
            "totals": totals,
            "reached": jnp.cumsum(jnp.take_along_axis(distances, order, axis=1), axis=1),
        }

    rng = np.random.default_rng(0)
    asked = jnp.asarray(rng.normal(size=(queries, features)), jnp.float32)
    known = jnp.asarray(rng.normal(size=(points, features)), jnp.float32)
    return find, (asked, known, jnp.asarray(rng.integers(0, groups, points), jnp.int32))


def example(name: str, **sizes: Any) -> Callable[[], Built]:
    """The program of an example, with these sizes."""
    return partial(load(name).build, **sizes)


BENCHMARKS: Mapping[str, Benchmark] = {
    "resnet18": Benchmark("ResNet-18, NHWC, 224²", example("resnet18", size=224)),
    "mobilenet": Benchmark("MobileNet-like, swish, 128²", example("mobilenet", size=128)),
    "vit": Benchmark("ViT-S/16, 6 layers", example("vit", layers=6, width=384, heads=6, size=224)),
    "gpt2_prefill": Benchmark("GPT-2 prefill, 6 × 384, 128 tokens",
                              example("gpt2_prefill", **GPT2), binds=True),
    "gpt2_decode": Benchmark("its decode step with a KV cache",
                             example("gpt2_decode", **GPT2), binds=True),
    "decoder": Benchmark("rotary/RMSNorm/GQA/SwiGLU, 4 × 512, 64 tokens",
                         example("decoder", layers=4, width=512, tokens=64)),
    "lstm": Benchmark("LSTM, 256 steps, batch 4, width 128",
                      example("lstm", steps=256, batch=4, width=128), binds=True),
    "unet": Benchmark("U-Net, 64²", example("unet", size=64)),
    "mlp": Benchmark("RL policy, MLP 512/256/128", example("mlp", hidden=(512, 256, 128)), 0.4),
    "rk4": Benchmark("RK4, Lorenz (64, 3), 1,000 steps", example("rk4", steps=1000), 28),
    "sod": Benchmark("Sod tube, 256 cells, 200 steps", example("sod", frames=1, steps=200), 8),
    "training_step": Benchmark("CNN training step, 28², batch 32", training_step, 1.2),
    "draws": Benchmark("20 draws of 8 × 1,000, 64² normals", draws, 3),
    "search": Benchmark("64 × 512 distances, sorted, summed", search, 1.2),
}  # fmt: skip

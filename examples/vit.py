"""A vision transformer in Flax NNX; the defaults are a quarter of a ViT-S/16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from gallery import Example, main, trained


class EncoderBlock(nnx.Module):
    """Self-attention and an MLP, each after a layer norm and with a residual connection."""

    def __init__(self, width: int, heads: int, dtype: Any, *, rngs: nnx.Rngs) -> None:
        types = {"dtype": dtype, "param_dtype": dtype}
        self.attention_norm = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **types)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs, **types)
        self.mlp_norm = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **types)
        self.expand = nnx.Linear(width, 4 * width, rngs=rngs, **types)
        self.project = nnx.Linear(4 * width, width, rngs=rngs, **types)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.attention_norm(x))
        # ViT uses the exact GELU with erf, not Flax's default, the tanh approximation.
        return x + self.project(nnx.gelu(self.expand(self.mlp_norm(x)), approximate=False))


class ViT(nnx.Module):
    """Patch embedding, class token, encoder and a linear classifier on the class token."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        size: int,
        patch: int,
        classes: int,
        dtype: Any,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        types = {"dtype": dtype, "param_dtype": dtype}
        tokens = (size // patch) ** 2 + 1
        window = (patch, patch)
        self.embed = nnx.Conv(3, width, window, window, padding="VALID", rngs=rngs, **types)
        self.class_token = nnx.Param(jnp.zeros((1, 1, width), dtype))
        self.positions = nnx.Param(jnp.zeros((1, tokens, width), dtype))
        self.blocks = nnx.List(
            [EncoderBlock(width, heads, dtype, rngs=rngs) for _ in range(layers)]
        )
        self.norm = nnx.LayerNorm(width, epsilon=1e-6, rngs=rngs, **types)
        self.head = nnx.Linear(width, classes, rngs=rngs, **types)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = self.embed(images)
        batch, width = x.shape[0], x.shape[-1]
        x = x.reshape(batch, -1, width)
        class_token = jnp.broadcast_to(self.class_token[...], (batch, 1, width))
        x = jnp.concatenate([class_token, x], axis=1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def build(
    layers: int = 4,
    width: int = 192,
    heads: int = 3,
    size: int = 96,
    patch: int = 16,
    classes: int = 1000,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the classifier and a batch of images.

    ViT-S/16 itself is ``build(layers=12, width=384, heads=6, size=224)``. There is no f16 variant:
    JAX cannot lower the attention of Flax in f16 for a CPU.
    """

    def create() -> ViT:
        return ViT(layers, width, heads, size, patch, classes, dtype, rngs=nnx.Rngs(0))

    # NNX restores a checkpoint like this: first an abstract model, then its values.
    graph, state = nnx.split(nnx.eval_shape(create))
    nnx.replace_by_pure_dict(state, trained(nnx.to_pure_dict(state)))
    model = nnx.merge(graph, state)
    images = jnp.asarray(np.random.default_rng(0).normal(size=(batch, size, size, 3)), dtype)

    def predict(images: jax.Array) -> jax.Array:
        return model(images)

    return predict, (images,)


EXAMPLE = Example(
    name="vit",
    summary="Flax NNX vision transformer with exact GELU",
    build=build,
    small={"layers": 2, "width": 32, "heads": 2, "size": 32, "patch": 8, "classes": 10},
    dynamic={0: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

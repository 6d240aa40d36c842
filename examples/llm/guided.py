"""Images from prompts by diffusion with classifier-free guidance, as one model.

A loop of denoising steps (DDIM). Each asks a transformer in flax nnx for the noise twice, in one
batch: with the prompt, and with none. Run it: `python examples/llm/guided.py` writes guided.onnx.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


class Block(nnx.Module):
    """Attention of patches to patches, and to a text."""

    def __init__(self, width, heads, rngs):
        linear, norm = partial(nnx.Linear, rngs=rngs), partial(nnx.LayerNorm, width, rngs=rngs)
        attention = partial(nnx.MultiHeadAttention, heads, width, decode=False, rngs=rngs)
        self.before, self.between, self.own, self.cross = norm(), norm(), attention(), attention()
        widen, narrow = linear(width, 4 * width), linear(4 * width, width)
        self.mlp = nnx.Sequential(norm(), widen, nnx.gelu, narrow)

    def __call__(self, x, text):
        x = x + self.own(self.before(x))
        x = x + self.cross(self.between(x), text)
        return x + self.mlp(x)


class Painter(nnx.Module):
    def __init__(self, rngs, vocab=1000, size=16, patch=4, width=64, heads=4, layers=2):
        self.count, self.patch, block = size // patch, patch, partial(Block, width, heads, rngs)
        self.words = nnx.Embed(vocab, width, rngs=rngs)
        self.patches = nnx.Linear(3 * patch**2, width, rngs=rngs)
        self.places = nnx.Param(rngs.normal((self.count**2, width)))
        self.times = nnx.Linear(width, width, rngs=rngs)
        self.blocks = nnx.List([block() for _ in range(layers)])
        self.out = nnx.Linear(width, 3 * patch**2, rngs=rngs)

    def noise(self, images, signal, text):
        """The noise in images f32[batch, size, size, 3], of whose variance `signal` is theirs."""
        count, patch = self.count, self.patch
        parts = images.reshape(-1, count, patch, count, patch, 3).swapaxes(2, 3)
        angles = signal * 1000 * 1e4 ** -jnp.linspace(0, 1, text.shape[-1] // 2)
        time = self.times(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)]))
        x = self.patches(parts.reshape(-1, count**2, 3 * patch**2)) + self.places[...] + time
        for block in self.blocks:
            x = block(x, text)
        return self.out(x).reshape(parts.shape).swapaxes(2, 3).reshape(images.shape)

    def paint(self, prompts, images, guidance, steps=8):
        """Images f32[batch, size, size, 3] of i32[batch, count], from normal noise of that shape.

        Args:
            guidance: How far to go away from images without a prompt, f32[]; 1 is no guidance.
        """
        text = self.words(jnp.concatenate([prompts, jnp.zeros_like(prompts)]))
        signals = np.cos(np.linspace(0.02, 0.98, steps + 1, dtype=np.float32) * np.pi / 2) ** 2

        def step(images, now):
            signal, before = now
            both = self.noise(jnp.concatenate([images, images]), signal, text)
            prompted, free = jnp.split(both, 2)
            noise = free + guidance * (prompted - free)
            clean = (images - jnp.sqrt(1 - signal) * noise) / jnp.sqrt(signal)
            clean = jnp.clip(clean, -1, 1)
            return jnp.sqrt(before) * clean + jnp.sqrt(1 - before) * noise, None

        return jax.lax.scan(step, images, (signals[:0:-1], signals[-2::-1]))[0]


if __name__ == "__main__":
    import hlo2onnx

    inputs = ["int32[b, s]", "float32[b, 16, 16, 3]", "float32[]"]
    hlo2onnx.translate(Painter(nnx.Rngs(0)).paint, *inputs, opset=24).save("guided.onnx")

"""A small Whisper in flax nnx: features of sound in, tokens out, as one model.

The encoder runs once, and so do the keys and values that the decoder takes from it. Those of
tokens are in a cache of fixed size. Run it: `python examples/llm/whisper.py` writes whisper.onnx.
"""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

START, STOP = 1, 2


class Attention(nnx.Module):
    def __init__(self, width, heads, rngs):
        split = partial(nnx.LinearGeneral, width, (heads, width // heads), rngs=rngs)
        self.query, self.key, self.value = (split() for _ in range(3))
        self.out = nnx.LinearGeneral((heads, width // heads), width, axis=(-2, -1), rngs=rngs)

    def memory(self, x):
        """Keys and values, f32[batch, position, head, feature] twice."""
        return self.key(x), self.value(x)

    def __call__(self, x, memory, mask=None):
        return self.out(jax.nn.dot_product_attention(self.query(x), *memory, mask=mask))


class Layer(nnx.Module):
    def __init__(self, width, heads, rngs):
        linear, norm = partial(nnx.Linear, rngs=rngs), partial(nnx.LayerNorm, width, rngs=rngs)
        widen, narrow = linear(width, 4 * width), linear(4 * width, width)
        self.before, self.own = norm(), Attention(width, heads, rngs)
        self.mlp = nnx.Sequential(norm(), widen, nnx.gelu, narrow)

    def __call__(self, x):
        normed = self.before(x)
        x = x + self.own(normed, self.own.memory(normed))
        return x + self.mlp(x)


class DecoderLayer(Layer):
    def __init__(self, width, heads, rngs):
        super().__init__(width, heads, rngs)
        self.between, self.cross = nnx.LayerNorm(width, rngs=rngs), Attention(width, heads, rngs)

    def __call__(self, x, place, cache, sound):
        normed = self.before(x)
        write = partial(lax.dynamic_update_slice_in_dim, start_index=place, axis=1)
        cache = jax.tree.map(write, cache, self.own.memory(normed))
        x = x + self.own(normed, cache, (jnp.arange(cache[0].shape[1]) <= place)[None, None, None])
        x = x + self.cross(self.between(x), sound)
        return x + self.mlp(x), cache


class Whisper(nnx.Module):
    def __init__(self, rngs, vocab=1000, width=64, layers=2, heads=4, bands=80):
        conv, norm = partial(nnx.Conv, rngs=rngs), partial(nnx.LayerNorm, width, rngs=rngs)
        halve = conv(width, width, 3, strides=2)
        self.ears = nnx.Sequential(conv(bands, width, 3), nnx.gelu, halve, nnx.gelu)
        self.encoder = nnx.Sequential(*(Layer(width, heads, rngs) for _ in range(layers)))
        self.decoder = nnx.List([DecoderLayer(width, heads, rngs) for _ in range(layers)])
        self.times, self.places = (nnx.Embed(500, width, rngs=rngs) for _ in range(2))
        self.tokens, self.encoded = nnx.Embed(vocab, width, rngs=rngs), norm()
        self.head = nnx.Sequential(norm(), nnx.Linear(width, vocab, use_bias=False, rngs=rngs))

    def encode(self, features):
        """What each layer of the decoder takes from sound, f32[batch, time, bands]."""
        x = self.ears(features)
        x = self.encoded(self.encoder(x + self.times(jnp.arange(x.shape[1]))))
        return [layer.cross.memory(x) for layer in self.decoder]

    def transcribe(self, features, length=32):
        """The likeliest token each time: i32[batch, length]; STOP after the end."""
        sound, batch = self.encode(features), features.shape[0]
        tokens = jnp.full((batch, length), STOP, jnp.int32).at[:, 0].set(START)
        buffer = jnp.zeros((batch, length, *sound[0][0].shape[2:]))

        def step(state):
            place, tokens, caches = state
            last = tokens[:, place, None]
            x, caches = self.tokens(last) + self.places(place), list(caches)
            for index, layer in enumerate(self.decoder):
                x, caches[index] = layer(x, place, caches[index], sound[index])
            new = jnp.where(last == STOP, STOP, jnp.argmax(self.head(x), axis=-1).astype(jnp.int32))
            return place + 1, tokens.at[:, place + 1].set(new[:, 0]), caches

        def goes_on(state):
            return (state[0] < length - 1) & jnp.any(state[1][:, state[0]] != STOP)

        start = jnp.int32(0), tokens, [(buffer, buffer)] * len(sound)
        return lax.while_loop(goes_on, step, start)[1]


if __name__ == "__main__":
    import hlo2onnx

    program = hlo2onnx.translate(Whisper(nnx.Rngs(0)).transcribe, "float32[b, 200, 80]", opset=24)
    program.save("whisper.onnx")

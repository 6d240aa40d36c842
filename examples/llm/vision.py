"""A vision-language model: an image and a prompt in, tokens out, as one model.

A vision transformer in flax nnx gives a vector for each patch. These stand in the prompt in place
of the token IMAGE, as in LLaVA. The rest is the Llama of llama.py in a loop of generate.py.
Run it: `python examples/llm/vision.py` writes vision.onnx.
"""

from functools import partial

import generate
import jax.numpy as jnp
import llama
from flax import nnx

IMAGE = 3


class Block(nnx.Module):
    def __init__(self, width, heads, rngs):
        linear, norm = partial(nnx.Linear, rngs=rngs), partial(nnx.LayerNorm, width, rngs=rngs)
        widen, narrow = linear(width, 4 * width), linear(4 * width, width)
        self.norm = norm()
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.mlp = nnx.Sequential(norm(), widen, nnx.gelu, narrow)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class VisionTransformer(nnx.Module):
    def __init__(self, rngs, size=32, patch=8, width=64, heads=4, layers=2, out=512):
        self.patches = nnx.Conv(3, width, (patch, patch), strides=patch, rngs=rngs)
        self.places = nnx.Param(rngs.normal((size // patch, size // patch, width)))
        self.blocks = nnx.Sequential(*(Block(width, heads, rngs) for _ in range(layers)))
        self.project = nnx.Linear(width, out, rngs=rngs)

    def __call__(self, images):
        """A vector for each patch, f32[batch, patches, out]."""
        x = self.patches(images) + self.places[...]
        return self.project(self.blocks(x.reshape(images.shape[0], -1, x.shape[-1])))


def describe(config, params, vision, images, prompts, mask, *, length):
    """The prompts and the likeliest tokens after them: i32[batch, length].

    Args:
        vision: A `VisionTransformer`.
        images: f32[batch, height, width, 3].
        prompts: With IMAGE once for each patch, padded on the left, i32[batch, count].
        mask: 1 for a token, 0 for padding, i32[batch, count].
    """
    patches = vision(images)

    def model(ids, *context):
        is_image = (ids == IMAGE)[:, :, None]
        places = jnp.maximum(jnp.cumsum(is_image, axis=1) - 1, 0)
        seen = jnp.take_along_axis(patches, places, axis=1)
        x = jnp.where(is_image, seen, params["embed_tokens"][ids])
        return llama.decoder(config, params, x, *context)

    return generate.greedy(config, model, prompts, mask, length=length)


if __name__ == "__main__":
    import hlo2onnx

    sizes = llama.Config(vocab=1000, layers=2)
    graph, weights = nnx.split(VisionTransformer(nnx.Rngs(0)))

    def whole(params, state, *inputs):
        return describe(sizes, params, nnx.merge(graph, state), *inputs, length=64)

    given = ["float32[b, 32, 32, 3]", "int32[b, s]", "int32[b, s]"]
    options = {"bind": (0, 1), "constraints": ["s <= 63"], "opset": 24}
    program = hlo2onnx.translate(whole, llama.create_params(sizes), weights, *given, **options)
    program.save("vision.onnx")

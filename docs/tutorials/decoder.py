# %% [markdown]
"""# A decoder with a cache

A decoder generates a text token by token. Each step reads the keys and values of all earlier tokens
from a cache, and adds its own. We write such a step in JAX, translate it, and generate in ONNX
Runtime. The cache stays there.
"""

# %%
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort

import hlo2onnx

VOCABULARY, WIDTH, HEADS, LENGTH = 50, 32, 4, 16
FEATURES = WIDTH // HEADS

# %% [markdown]
"""One attention layer. The cache holds keys and values, shape [2, position, head, feature].
Positions that are not written yet are masked.
"""


# %%
def step(params, cache, position, token):
    """The next token after `token` at `position`, and the cache with its key and value."""
    x = params["embedding"][token] + params["positions"][position]
    query, key, value = (x @ params["qkv"]).reshape(3, HEADS, FEATURES)
    cache = cache.at[:, position].set(jnp.stack([key, value]))
    scores = jnp.einsum("hf,thf->ht", query, cache[0]) / math.sqrt(FEATURES)
    scores = jnp.where(jnp.arange(LENGTH) <= position, scores, -jnp.inf)
    mixed = jnp.einsum("ht,thf->hf", jax.nn.softmax(scores), cache[1])
    x = x + mixed.reshape(WIDTH) @ params["out"]
    logits = x @ params["embedding"].T
    return cache, position + 1, jnp.argmax(logits).astype(jnp.int32)


# %%
rng = np.random.default_rng(0)
shapes = {
    "embedding": (VOCABULARY, WIDTH),
    "positions": (LENGTH, WIDTH),
    "qkv": (WIDTH, 3 * WIDTH),
    "out": (WIDTH, WIDTH),
}
params = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
cache = np.zeros((2, LENGTH, HEADS, FEATURES), np.float32)
zero = np.int32(0)

# %% [markdown]
"""Donate the cache in JAX. The translation then knows that the first result is its next value, and
`program.step` does not copy it.
"""

# %%
lowered = jax.jit(step, donate_argnums=1).lower(params, cache, zero, zero)
program = hlo2onnx.translate(lowered, bind={"params": params})
print(program.verify().ok)
print(program.report)

# %%
# Generate in ONNX Runtime.
state, position, token, tokens = cache, zero, np.int32(7), []
for _ in range(LENGTH):
    state, position, token = program.step(state, position, token)
    tokens.append(int(token))
print(tokens)

# %%
# The same in JAX.
state, position, token, expected = cache, zero, np.int32(7), []
for _ in range(LENGTH):
    state, position, token = jax.jit(step)(params, state, position, token)
    expected.append(int(token))
assert tokens == expected

# %% [markdown]
"""The saved file is enough for other programs. Its metadata say which output is the next value of
which input; the [guide about state](../state_and_weights.md) shows the same loop without a copy.
"""

# %%
program.save("decoder.onnx")
session = ort.InferenceSession("decoder.onnx")
print(json.loads(session.get_modelmeta().custom_metadata_map["hlo2onnx.states"]))
feeds = {"cache": cache, "position": np.array(0, np.int32), "token": np.array(7, np.int32)}
tokens = []
for _ in range(LENGTH):
    feeds["cache"], feeds["position"], feeds["token"] = session.run(None, feeds)
    tokens.append(int(feeds["token"]))
assert tokens == expected

# %% [markdown]
"""# A small flax network to the browser

We train a Flax network to tell the two arms of a spiral apart, save it for onnxruntime-web, and
call it from JavaScript. The weights go into the file; the number of points stays free.
"""

# %%
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import hlo2onnx


class Classifier(nn.Module):
    """Two hidden layers; gives the probability of the second arm, shape [b]."""

    @nn.compact
    def __call__(self, points):
        """Maps points of shape [b, 2] to probabilities of shape [b]."""
        x = nn.gelu(nn.Dense(32)(points))
        x = nn.gelu(nn.Dense(32)(x))
        return nn.sigmoid(nn.Dense(1)(x)[:, 0])


# %%
# 200 points on each arm, with noise.
rng = np.random.default_rng(0)
angle = rng.uniform(0.5, 6, 400)
arm = np.arange(400) % 2
points = np.stack([np.cos(angle + np.pi * arm), np.sin(angle + np.pi * arm)], axis=1)
points = (points * angle[:, None] / 6 + rng.normal(0, 0.03, (400, 2))).astype(np.float32)

# %%
# Training is plain Optax. hlo2onnx does not take part in it.
model, optimizer = Classifier(), optax.adam(1e-2)
params = model.init(jax.random.key(0), points)
state = optimizer.init(params)


@jax.jit
def train(params, state):
    """One step of Adam on all points."""

    def loss_of(params):
        found = jnp.clip(model.apply(params, points), 1e-6, 1 - 1e-6)
        return -jnp.mean(jnp.where(arm == 1, jnp.log(found), jnp.log(1 - found)))

    loss, gradient = jax.value_and_grad(loss_of)(params)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(params, updates), state, loss


for _ in range(500):
    params, state, loss = train(params, state)
print(f"loss {loss:.3f}, right: {np.mean((model.apply(params, points) > 0.5) == arm):.0%}")

# %% [markdown]
"""Translate it for the kernels of onnxruntime-web. `bind` stores the weights in the model;
`dynamic` names the first dimension `b`, so that the page may ask for any number of points.
"""

# %%
program = hlo2onnx.translate(
    model.apply, params, points, bind="variables", dynamic={"points": "b, ..."}, target="ort-web"
)
print(program.report)

# %% [markdown]
"""`verify` compares the model with XLA. It runs in onnxruntime-web if that is installed for Node,
and in ONNX Runtime otherwise; the result says where.
"""

# %%
found = program.verify()
print(found.ok, found.max_error)
program.save("spiral.onnx")
print(program.input_names, program.output_names, Path("spiral.onnx").stat().st_size, "bytes")

# %% [markdown]
"""In the page, next to `spiral.onnx` and a `node_modules` with onnxruntime-web:

```js
import * as ort from "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs";

const session = await ort.InferenceSession.create("spiral.onnx");
const points = new ort.Tensor("float32", [0.5, 0.1, -0.5, -0.1], [2, 2]);
const { result } = await session.run({ points });
console.log(...result.data);
```

[In the browser](../browser.md) has all types, states between frames, WebGPU and times.
"""

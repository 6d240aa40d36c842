# %% [markdown]
"""# A training step in ONNX Runtime

A training step is a function like any other: it takes parameters and a batch, and returns the next
parameters. So a device without JAX can train. We fit a small network to a curve; Optax's Adam is in
the graph.
"""

# %%
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hlo2onnx
import hlo2onnx.runtime

optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


# %%
def predict(params, x):
    """A perceptron: x of shape [b, 1] to y of shape [b, 1]."""
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def train_step(state, x, y):
    """The next state and the loss before the step."""
    params, moments = state

    def loss_of(params):
        return jnp.mean((predict(params, x) - y) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(params)
    updates, moments = optimizer.update(gradient, moments, params)
    return (optax.apply_updates(params, updates), moments), loss


# %%
rng = np.random.default_rng(0)
sizes = [1, 32, 32, 1]
params = [
    {"w": (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32), "b": np.zeros(b, np.float32)}
    for a, b in pairwise(sizes)
]
state = (params, optimizer.init(params))


def batch():
    """Noisy samples of the curve."""
    x = rng.uniform(-2, 2, (64, 1))
    y = np.sin(3 * x) + rng.normal(0, 0.05, x.shape)
    return x.astype(np.float32), y.astype(np.float32)


# %% [markdown]
"""Donate the state: parameters and Adam's moments stay in ONNX Runtime between the steps."""

# %%
lowered = jax.jit(train_step, donate_argnums=0).lower(state, *batch())
program = hlo2onnx.translate(lowered)
print(len(program.input_names), "inputs, such as", program.input_names[:3])
print(program.verify(state, *batch()).ok)

# %% [markdown]
"""Save the step. `hlo2onnx.runtime` loads it in a process without JAX, and knows the pytrees. Such
a process would make the first state itself, or read it from a file.
"""

# %%
program.save("train_step.onnx")
trainer = hlo2onnx.runtime.load("train_step.onnx")
running = jax.tree.map(np.asarray, state)
for index in range(1001):
    running, loss = trainer.step(running, *batch())
    if index % 250 == 0:
        print(f"step {index:4d}: loss {float(loss):.4f}")
assert loss < 0.05

# %% [markdown]
"""States come back as `StateArray`s. `numpy` copies one out of the runtime, to keep the trained
weights or to give them to the network that predicts.
"""

# %%
trained = [{name: array.numpy() for name, array in layer.items()} for layer in running[0]]
x = np.array([[-1.0], [0.0], [1.0]], np.float32)
print(np.c_[x, predict(trained, x), np.sin(3 * x)])

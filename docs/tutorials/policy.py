# %% [markdown]
"""# A policy to C++

A controller for a robot is a small network behind a normalizer: observations are scaled by the mean
and the variance that training has seen. We put both into one file, and run that file without JAX.
Brax, MuJoCo Playground and Stable Baselines JAX make policies of this form.
"""

# %%
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort

import hlo2onnx

OBSERVATIONS, ACTIONS = 27, 8


# %%
def policy(params, observation):
    """Actions in [-1, 1], shape [b, 8], from observations of shape [b, 27]."""
    normal = params["normalizer"]
    deviation = jnp.sqrt(jnp.maximum(normal["variance"], 1e-6))
    x = jnp.clip((observation - normal["mean"]) / deviation, -5, 5)
    for layer in params["hidden"]:
        x = jax.nn.swish(x @ layer["kernel"] + layer["bias"])
    mean, _ = jnp.split(x @ params["head"]["kernel"] + params["head"]["bias"], 2, axis=-1)
    return {"action": jnp.tanh(mean)}  # the mode of a squashed normal distribution


# %%
# Weights of the form that training gives; yours come from a checkpoint.
rng = np.random.default_rng(0)


def dense(inputs, outputs):
    """A layer with random weights."""
    kernel = rng.normal(0, 1 / np.sqrt(inputs), (inputs, outputs))
    return {"kernel": kernel.astype(np.float32), "bias": np.zeros(outputs, np.float32)}


params = {
    "normalizer": {
        "mean": rng.normal(0, 2, OBSERVATIONS).astype(np.float32),
        "variance": rng.uniform(0, 9, OBSERVATIONS).astype(np.float32),
    },
    "hidden": [dense(OBSERVATIONS, 256), dense(256, 256)],
    "head": dense(256, 2 * ACTIONS),
}
observation = rng.normal(0, 3, (1, OBSERVATIONS)).astype(np.float32)

# %% [markdown]
"""The batch stays free, so the same file serves one robot and a simulation of thousands."""

# %%
program = hlo2onnx.translate(
    policy, params, observation, bind="params", dynamic={"observation": "b, ..."}
)
print(program.verify())
program.save("policy.onnx")

# %% [markdown]
"""Plain ONNX Runtime, on 1,000 observations, beside JAX. One thread is fastest for a network of
this size.
"""

# %%
options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession("policy.onnx", options)
for port in (*session.get_inputs(), *session.get_outputs()):
    print(port.name, port.type, port.shape)
many = rng.normal(0, 3, (1000, OBSERVATIONS)).astype(np.float32)
(found,) = session.run(None, {"observation": many})
print("largest difference", np.abs(found - policy(params, many)["action"]).max())

# %% [markdown]
"""The same call in C++. [Runtimes](../runtimes.md#c) says where headers and library come from, and
has other languages.

```cpp
#include <onnxruntime_cxx_api.h>

#include <array>
#include <vector>

int main() {
  Ort::Env env;
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  Ort::Session session(env, "policy.onnx", options);
  std::vector<float> observation(27);
  std::array<int64_t, 2> shape = {1, 27};
  auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  auto tensor = Ort::Value::CreateTensor<float>(
      memory, observation.data(), observation.size(), shape.data(), shape.size());
  const char* inputs[] = {"observation"};
  const char* outputs[] = {"action"};
  auto found = session.Run(Ort::RunOptions(), inputs, &tensor, 1, outputs, 1);
  const float* action = found[0].GetTensorData<float>();  // 8 numbers
}
```
"""

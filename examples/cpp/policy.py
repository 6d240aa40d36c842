"""The policy of a robot: normalized observations, an LSTM, the previous action, and joint data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import hlo2onnx.policy
import hlo2onnx.runtime

JOINTS = [f"{leg}_{part}" for leg in ("left", "right") for part in ("hip", "knee", "ankle")]
ROBOT = {
    "joint_names": JOINTS,
    "default_joint_pos": [0.1, -0.4, 0.2] * 2,
    "joint_stiffness": [40.0, 40.0, 20.0] * 2,
    "joint_damping": [1.0, 1.0, 0.5] * 2,
    "action_scale": 0.25,
    "observation_units": {"observation/joint_pos": "rad", "observation/gyro": "rad/s"},
    "observation_ranges": {"observation/command": [-1.5, 1.5]},
    "control_period": 0.02,
}
OBSERVATION = {
    name: np.zeros(size, np.float32)
    for name, size in {"command": 3, "gyro": 3, "joint_pos": 6, "joint_vel": 6}.items()
}
MEMORY = {"carry": (np.zeros(64, np.float32),) * 2, "last_action": np.zeros(6, np.float32)}


class Policy(nnx.Module):
    """The normalizer is a part of it: its means and deviations are weights."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.mean = nnx.Variable(jnp.full(18, 0.1))
        self.deviation = nnx.Variable(jnp.full(18, 2.0))
        self.cell = nnx.OptimizedLSTMCell(24, 64, rngs=rngs)
        self.head = nnx.Linear(64, 6, rngs=rngs)

    def __call__(self, observation: Any, memory: Any) -> tuple[jax.Array, Any]:
        """Returns the action and the next memory."""
        x = jnp.concatenate([observation[name] for name in sorted(observation)])
        x = jnp.clip((x - self.mean[...]) / self.deviation[...], -5, 5)
        x = jnp.concatenate([x, memory["last_action"]])
        carry, y = self.cell(memory["carry"], x)
        action = jnp.tanh(self.head(y))
        return action, {"carry": carry, "last_action": action}


if __name__ == "__main__":
    program = hlo2onnx.policy.translate(Policy(nnx.Rngs(0)), OBSERVATION, MEMORY, metadata=ROBOT)
    assert program.verify(rtol=1e-5, atol=1e-5).ok  # also for inputs far out of range
    program.save("policy.onnx")
    policy = hlo2onnx.runtime.Policy("policy.onnx", joints=JOINTS)
    print([policy.step(OBSERVATION)[:2].tolist() for _ in range(3)])

"""Policies of sbx-rl as ONNX files: their actions beside those of `model.predict`."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import sbx
from gymnasium import spaces
from timing import microseconds

import hlo2onnx

COUNT = 1000
"""Observations on which the actions are compared."""
STEPS = 300
"""Steps of training."""


def export(model, path):
    """Writes the actions of `model.predict(observation, deterministic=True)` as an ONNX file."""
    policy, seen, actions = model.policy, model.observation_space, model.action_space

    @jax.vmap  # the distributions of TFP refuse a batch of free size
    def predict(observation):
        if isinstance(observation, dict):
            observation = jnp.concatenate([observation[key].ravel() for key in seen])
        action = policy._predict(observation[None], deterministic=True).reshape(actions.shape)
        if not isinstance(actions, spaces.Box):
            return action
        if policy.squash_output:
            return policy.unscale_action(jnp.clip(action, -1, 1))
        return jnp.clip(action, actions.low, actions.high)

    example = jax.tree.map(lambda x: np.stack([x, x]), seen.sample())
    program = hlo2onnx.translate(predict, example, dynamic="b, ...", output_names=["action"])
    program.save(path)


class Reach(gym.Env):
    """A point moves to a goal; what it sees and does is given by the spaces."""

    def __init__(self, observations: spaces.Space, actions: spaces.Space) -> None:
        self.observation_space = observations
        self.action_space = actions
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        reward = -float(np.square(action).sum())
        return self.observation_space.sample(), reward, False, self.steps == 50, {}


VECTOR = spaces.Box(-3, 3, (17,), np.float32)
PARTS = spaces.Dict({"velocity": spaces.Box(-1, 1, (3,)), "angles": spaces.Box(-3, 3, (5,))})
PIXELS = spaces.Box(0, 255, (3, 40, 40), np.uint8)
TORQUES = spaces.Box(np.float32([-2, -1, 0]), np.float32([2, 3, 5]))
CASES: dict[str, tuple[Any, str, spaces.Space, spaces.Space, dict[str, Any]]] = {
    "PPO": (sbx.PPO, "MlpPolicy", VECTOR, TORQUES, {"n_steps": 128}),
    "PPO, discrete": (sbx.PPO, "MlpPolicy", VECTOR, spaces.Discrete(5), {"n_steps": 128}),
    "PPO, several choices": (
        sbx.PPO,
        "MlpPolicy",
        VECTOR,
        spaces.MultiDiscrete([3, 2, 4]),
        {"n_steps": 128},
    ),
    "PPO, pixels": (sbx.PPO, "CnnPolicy", PIXELS, TORQUES, {"n_steps": 128}),
    "SAC": (sbx.SAC, "MlpPolicy", VECTOR, TORQUES, {}),
    "SAC, dictionary": (sbx.SAC, "MultiInputPolicy", PARTS, TORQUES, {}),
    "SAC, simba": (sbx.SAC, "SimbaPolicy", VECTOR, TORQUES, {}),
    "TQC": (sbx.TQC, "MlpPolicy", VECTOR, TORQUES, {}),
    "TD3": (sbx.TD3, "MlpPolicy", VECTOR, TORQUES, {}),
    "DDPG": (sbx.DDPG, "MlpPolicy", VECTOR, TORQUES, {}),
    "CrossQ": (sbx.CrossQ, "MlpPolicy", VECTOR, TORQUES, {}),
    "DQN": (sbx.DQN, "MlpPolicy", VECTOR, spaces.Discrete(5), {}),
}


def compare(case: str, folder: Path) -> dict[str, float]:
    """Trains a policy, exports it, and compares its actions."""
    algorithm, policy, observations, actions, options = CASES[case]
    model = algorithm(policy, Reach(observations, actions), seed=0, **options)
    model.learn(STEPS)
    path = folder / "policy.onnx"
    export(model, path)
    session = onnxruntime.InferenceSession(path)
    observations.seed(1)
    samples = [observations.sample() for _ in range(COUNT)]
    seen = jax.tree.map(lambda *parts: np.stack(parts), *samples)
    expected, _ = model.predict(seen, deterministic=True)

    def run(observation: Any) -> np.ndarray:
        leaves = jax.tree.leaves(observation)
        names = [port.name for port in session.get_inputs()]
        assert len(names) == len(leaves)
        return session.run(["action"], dict(zip(names, leaves, strict=True)))[0]

    found = run(seen)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    single = jax.tree.map(lambda leaf: leaf[:1], seen)
    return {
        "error": float(np.abs(found - expected).max()),
        "bytes": path.stat().st_size,
        "ort_us": microseconds(lambda: run(single)),
        "predict_us": microseconds(lambda: model.predict(single, deterministic=True)),
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
    versions = {name: version(name) for name in ("sbx-rl", "jax", "onnxruntime")}
    print(json.dumps({"versions": versions, **figures}))
    return max(figure["error"] for figure in figures.values()) > 1e-5


if __name__ == "__main__":
    sys.exit(main())

"""Policies of sbx-rl as ONNX files: their actions beside those of `model.predict`."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import closed_loop
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import sbx
from gymnasium import spaces
from timing import microseconds

import hlo2onnx.policy

COUNT = 1000
"""Observations on which the actions are compared."""
STEPS = 300
"""Steps of training."""


def export(model, path, *, batch=True):
    """Writes the actions of `model.predict(observation, deterministic=True)` as an ONNX file.

    Without a batch, it is for one robot and the runners of `hlo2onnx.policy`.
    """
    policy, seen, actions = model.policy, model.observation_space, model.action_space

    def predict(observation):
        if isinstance(observation, dict):
            observation = jnp.concatenate([observation[key].ravel() for key in seen])
        action = policy._predict(observation[None], deterministic=True).reshape(actions.shape)
        if not isinstance(actions, spaces.Box):
            return action
        if policy.squash_output:
            return policy.unscale_action(jnp.clip(action, -1, 1))
        return jnp.clip(action, actions.low, actions.high)

    if not batch:
        return hlo2onnx.policy.translate(predict, seen.sample()).save(path)
    example = jax.tree.map(lambda x: np.stack([x, x]), seen.sample())
    predict = jax.vmap(predict)  # the distributions of TFP refuse a batch of free size
    program = hlo2onnx.translate(predict, example, dynamic="b, ...", output_names=["action"])
    return program.save(path)


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


def balance(folder: Path) -> dict[str, Any]:
    """Trains SAC to balance a pole in MuJoCo, which then runs with the ONNX file only."""
    env = gym.make("InvertedPendulum-v5", reset_noise_scale=0.05)
    options = {"learning_rate": 3e-3, "gamma": 0.98, "tau": 0.02, "learning_starts": 500}
    model = sbx.SAC("MlpPolicy", env, seed=0, policy_kwargs={"net_arch": [64, 64]}, **options)
    model.learn(9000)
    export(model, folder / "pole.onnx", batch=False)
    robot = closed_loop.Robot(
        model=env.unwrapped.model,
        observe=lambda data: np.float32(np.concatenate([data.qpos, data.qvel])),
        control=lambda action: action,
        reward=lambda data: 1 - data.qpos[0] ** 2 - data.qpos[1] ** 2,
        start=np.array([0, 0.05]),
        substeps=2,
        push=0.3,
    )
    return closed_loop.compare(
        robot, folder / "pole.onnx", lambda seen: model.predict(seen, deterministic=True)[0]
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
        pole = balance(Path(folder))
    versions = {name: version(name) for name in ("sbx-rl", "mujoco", "jax", "onnxruntime")}
    print(json.dumps({"versions": versions, **figures, "SAC on a pole": pole}))
    # Actions are up to 5, and those on pixels are behind sums of thousands of products.
    fails = max(figure["error"] for figure in figures.values()) > 2e-5
    return fails or not closed_loop.passes(pole)


if __name__ == "__main__":
    sys.exit(main())

"""Policies of skrl's JAX agents as ONNX files: their actions beside those of the agents."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from skrl.agents.jax.ddpg import DDPG, DDPG_CFG
from skrl.agents.jax.ppo import PPO, PPO_CFG
from skrl.agents.jax.sac import SAC, SAC_CFG
from skrl.envs.wrappers.jax import wrap_env
from skrl.memories.jax import RandomMemory
from skrl.models.jax import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.trainers.jax import SequentialTrainer
from timing import microseconds

import hlo2onnx

COUNT = 1000
"""Observations on which the actions are compared."""
STEPS = 100
"""Steps of training."""


def export(agent, path):
    """Writes the actions of an evaluation as an ONNX file, for a batch of any size.

    A categorical policy gives the most probable action. The preprocessors are part of the file.
    """
    policy = agent.policy

    def act(observations, states=None):
        inputs = {"observations": agent._observation_preprocessor(observations)}
        if states is not None:
            inputs["states"] = agent._state_preprocessor(states)
        actions, outputs = policy.act(inputs, role="policy")
        if "net_output" in outputs:
            return jnp.argmax(outputs["net_output"], axis=-1, keepdims=True)
        return outputs.get("mean_actions", actions)

    inputs = [f"b, {policy.num_observations}"]
    if policy.state_space is not None:
        inputs.append(f"b, {policy.num_states}")
    hlo2onnx.translate(act, *inputs, output_names=["actions"]).save(path)


class Body(nn.Module):
    """Hidden layers."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.elu(nn.Dense(64)(x))
        return x


class Gaussian(GaussianMixin, Model):
    """A policy with a mean and a deviation for each action."""

    def __init__(self, **options: Any) -> None:
        Model.__init__(self, **options)
        GaussianMixin.__init__(self, clip_mean_actions=True)

    @nn.compact
    def __call__(self, inputs: dict[str, Any], role: str) -> tuple[jax.Array, dict[str, Any]]:
        mean = nn.Dense(self.num_actions)(Body()(inputs["observations"]))
        return mean, {"log_std": self.param("log_std", lambda _: jnp.zeros(self.num_actions))}


class Categorical(CategoricalMixin, Model):
    """A policy that chooses one of some actions."""

    def __init__(self, **options: Any) -> None:
        Model.__init__(self, **options)
        CategoricalMixin.__init__(self)

    @nn.compact
    def __call__(self, inputs: dict[str, Any], role: str) -> tuple[jax.Array, dict[str, Any]]:
        return nn.Dense(self.num_actions)(Body()(inputs["observations"])), {}


class Actor(DeterministicMixin, Model):
    """A policy without noise."""

    def __init__(self, **options: Any) -> None:
        Model.__init__(self, **options)
        DeterministicMixin.__init__(self, clip_actions=True)

    @nn.compact
    def __call__(self, inputs: dict[str, Any], role: str) -> tuple[jax.Array, dict[str, Any]]:
        return nn.Dense(self.num_actions)(Body()(inputs["observations"])), {}


class Value(DeterministicMixin, Model):
    """The value of an observation, or of an observation and an action."""

    def __init__(self, **options: Any) -> None:
        Model.__init__(self, **options)
        DeterministicMixin.__init__(self)

    @nn.compact
    def __call__(self, inputs: dict[str, Any], role: str) -> tuple[jax.Array, dict[str, Any]]:
        x = inputs["observations"]
        if role != "value":
            x = jnp.concatenate([x, inputs["taken_actions"]], axis=-1)
        return nn.Dense(1)(Body()(x)), {}


CRITICS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
LATE = {"learning_starts": STEPS - 2}
"""Updates without a GPU are slow: there are few."""
CASES: dict[str, tuple[str, Any, Any, type[Model], tuple[str, ...], dict[str, Any]]] = {
    "PPO": ("Pendulum-v1", PPO, PPO_CFG, Gaussian, ("value",), {"rollouts": 50}),
    "PPO, discrete": ("CartPole-v1", PPO, PPO_CFG, Categorical, ("value",), {"rollouts": 50}),
    "SAC": ("Pendulum-v1", SAC, SAC_CFG, Gaussian, CRITICS, LATE),
    "DDPG": ("Pendulum-v1", DDPG, DDPG_CFG, Actor, ("critic", "target_critic"), LATE),
}


def trained(case: str) -> Any:
    """An agent after some steps, in evaluation mode."""
    name, algorithm, config, policy, values, options = CASES[case]
    env = wrap_env(gym.make(name), verbose=False)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    models: dict[str, Any] = {"policy": policy(**spaces)}
    if algorithm is DDPG:
        models["target_policy"] = policy(**spaces)
    models |= {role: Value(**spaces) for role in values}
    for role, model in models.items():
        model.init_state_dict(role=role)
    cfg = config(**options)
    cfg.observation_preprocessor = RunningStandardScaler
    cfg.observation_preprocessor_kwargs = {"size": env.observation_space}
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=options.get("rollouts", STEPS), num_envs=1)
    agent = algorithm(models=models, memory=memory, cfg=cfg, **spaces)
    trainer = {"timesteps": STEPS, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=trainer).train()
    agent.enable_training_mode(False, apply_to_models=True)
    return agent


def compare(case: str, folder: Path) -> dict[str, float]:
    """Exports a trained agent, and compares its actions."""
    agent = trained(case)
    path = folder / "policy.onnx"
    export(agent, path)
    session = onnxruntime.InferenceSession(path)
    size = agent.policy.num_observations
    seen = np.random.default_rng(0).normal(0, 3, (COUNT, size)).astype(np.float32)

    def act(observations: np.ndarray) -> np.ndarray:
        actions, outputs = agent.act(observations, None, timestep=STEPS, timesteps=STEPS)
        if "net_output" in outputs:  # an evaluation of skrl draws the action
            return np.argmax(outputs["net_output"], axis=-1, keepdims=True).astype(np.int32)
        return np.asarray(outputs.get("mean_actions", actions))

    expected = act(seen)
    (found,) = session.run(["actions"], {"observations": seen})
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert len(np.unique(expected)) > 1, case
    return {
        "error": float(np.abs(found - expected).max()),
        "bytes": path.stat().st_size,
        "ort_us": microseconds(lambda: session.run(["actions"], {"observations": seen[:1]})),
        "act_us": microseconds(lambda: act(seen[:1])),
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
    versions = {name: version(name) for name in ("skrl", "jax", "onnxruntime")}
    print(json.dumps({"versions": versions, **figures}))
    return max(figure["error"] for figure in figures.values()) > 1e-5


if __name__ == "__main__":
    sys.exit(main())

"""Trains the policies of tests/clients/brax: python examples/robots/train.py, with brax 0.14.

PPO of brax balances a pole (5 minutes on two cores). An LSTM that sees positions only learns to do
the same from it. pendulum.npz has both.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import optax
from brax import envs
from brax.training.agents.ppo import networks as ppo_networks
from brax.training.agents.ppo import train as ppo
from flax.traverse_util import flatten_dict

FILE = Path(__file__).parent / "pendulum.npz"
ASSETS = Path(envs.__file__).parent / "assets"
ROUNDS, EPISODES, STEPS, UPDATES = 6, 12, 250, 400
WIDTH = 16


class Lstm(nn.Module):
    """An action in [-1, 1] from the position of the cart and the angle of the pole."""

    @nn.compact
    def __call__(self, observation: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        memory, y = nn.OptimizedLSTMCell(WIDTH)(memory, observation * jnp.array([2.0, 10.0]))
        return jnp.tanh(nn.Dense(1)(y)), memory


ZEROS = (np.zeros(WIDTH, np.float32),) * 2
"""The initial memory of the LSTM."""


def trained() -> tuple[Any, Any]:
    """The policy of brax' PPO, and its parameters."""
    if not hasattr(jax, "device_put_replicated"):  # brax 0.14 needs it, JAX 0.10 has removed it
        jax.device_put_replicated = lambda tree, devices: jax.tree.map(
            lambda leaf: jnp.stack([leaf] * len(devices)), tree
        )
    make_policy, params, _ = ppo.train(
        environment=envs.get_environment("inverted_pendulum", backend="generalized"),
        num_timesteps=2_000_000,
        episode_length=1000,
        num_envs=256,
        unroll_length=5,
        batch_size=128,
        num_minibatches=32,
        num_updates_per_batch=4,
        reward_scaling=10,
        discounting=0.97,
        learning_rate=3e-4,
        entropy_cost=1e-2,
        normalize_observations=True,
        network_factory=partial(
            ppo_networks.make_ppo_networks,
            policy_hidden_layer_sizes=(32, 32),
            value_hidden_layer_sizes=(64, 64),
        ),
        num_eval_envs=16,
        num_evals=6,
        progress_fn=lambda step, metrics: print(step, metrics["eval/episode_reward"]),
        seed=1,
    )
    return make_policy(params, deterministic=True), params


def imitated(teacher: Any) -> Any:
    """Parameters of an LSTM: it acts, the teacher says what would have been right."""
    model = mujoco.MjModel.from_xml_path(str(ASSETS / "inverted_pendulum.xml"))
    lstm, rng = Lstm(), np.random.default_rng(0)
    params = lstm.init(jax.random.key(0), np.zeros(2, np.float32), ZEROS)
    optimizer = optax.adam(optax.cosine_decay_schedule(5e-3, ROUNDS * UPDATES))
    state = optimizer.init(params)
    act = jax.jit(lstm.apply)
    teach = jax.jit(lambda seen: teacher(seen, None)[0])

    def loss(params: Any, seen: jax.Array, right: jax.Array) -> jax.Array:
        def step(memory: Any, observation: jax.Array) -> Any:
            action, memory = lstm.apply(params, observation, memory)
            return memory, action

        actions = jax.vmap(lambda episode: jax.lax.scan(step, ZEROS, episode)[1])(seen)
        return jnp.mean(jnp.square(actions - right))

    @jax.jit
    def update(params: Any, state: Any, seen: jax.Array, right: jax.Array) -> Any:
        value, slope = jax.value_and_grad(loss)(params, seen, right)
        changes, state = optimizer.update(slope, state)
        return optax.apply_updates(params, changes), state, value

    seen, right = [], []
    for turn in range(ROUNDS):
        for _ in range(EPISODES):
            data, memory, episode = mujoco.MjData(model), ZEROS, []
            data.qpos[:] = rng.uniform(-0.1, 0.1, 2)
            data.qvel[:] = rng.uniform(-0.5, 0.5, 2)
            for _ in range(STEPS):
                episode.append(np.float32(np.concatenate([data.qpos, data.qvel])))
                action, memory = act(params, episode[-1][:2], memory)
                if turn == 0 or abs(data.qpos[1]) > 0.3:  # the teacher shows how
                    action = teach(episode[-1])
                data.ctrl[:] = 3 * action
                mujoco.mj_step(model, data, 2)
            seen.append(np.stack(episode)[:, :2])
            right.append(np.asarray(teach(np.stack(episode))))
        for _ in range(UPDATES):
            chosen = rng.choice(len(seen), EPISODES)
            batch = np.stack(seen)[chosen], np.stack(right)[chosen]
            params, state, value = update(params, state, *batch)
        print(turn, float(value))
    return params


if __name__ == "__main__":
    teacher, (normalizer, network, *_) = trained()
    arrays = {
        "ppo/mean": normalizer.mean,
        "ppo/std": normalizer.std,
        **flatten_dict({"ppo": network, "lstm": imitated(teacher)}, sep="/"),
    }
    np.savez(FILE, **{name: np.asarray(value) for name, value in arrays.items()})

"""Policies on a pole that brax has trained: the loop is closed by MuJoCo and the ONNX file only."""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
from brax.training.acme import running_statistics
from brax.training.agents.ppo import networks as ppo_networks
from closed_loop import Robot, compare, passes, remembering
from flax.traverse_util import unflatten_dict

import hlo2onnx.policy

EXAMPLE = Path(__file__).parents[3] / "examples" / "robots"
TRAIN = runpy.run_path(str(EXAMPLE / "train.py"))
PARAMS = unflatten_dict(dict(np.load(EXAMPLE / "pendulum.npz")), sep="/")


def export(make_policy, params, observation, path):
    """Writes the deterministic policy of `train` as an ONNX file, with its normalizer."""
    act = make_policy(params, deterministic=True)

    def policy(observation):
        return act(observation, None)[0]

    hlo2onnx.policy.translate(policy, observation).save(path)


def make_ppo() -> tuple[Any, Any]:
    """What `train` of brax returns: a function that makes policies, and parameters."""
    networks = ppo_networks.make_ppo_networks(
        4, 1, running_statistics.normalize, policy_hidden_layer_sizes=(32, 32)
    )
    stored = dict(PARAMS["ppo"])
    normalizer = running_statistics.init_state(np.zeros(4, np.float32))
    normalizer = normalizer.replace(mean=stored.pop("mean"), std=stored.pop("std"))
    return ppo_networks.make_inference_fn(networks), (normalizer, stored)


def pole(seen: int) -> Robot:
    """The pole, of which a policy sees the first numbers of the position and the speed."""
    return Robot(
        model=mujoco.MjModel.from_xml_path(str(TRAIN["ASSETS"] / "inverted_pendulum.xml")),
        observe=lambda data: np.float32(np.concatenate([data.qpos, data.qvel])[:seen]),
        control=lambda action: 3 * action,
        reward=lambda data: 1 - data.qpos[0] ** 2 - data.qpos[1] ** 2,
        start=np.array([0, 0.08]),
        substeps=2,
        push=0.5,
    )


def recurrent(observation: Any, memory: Any) -> Any:
    """The LSTM, which sees positions only: an action and the next memory."""
    return TRAIN["Lstm"]().apply(PARAMS["lstm"], observation, memory)


def main() -> int:
    make_policy, params = make_ppo()
    act = make_policy(params, deterministic=True)
    zeros = TRAIN["ZEROS"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(make_policy, params, np.zeros(4, np.float32), folder / "ppo.onnx")
        program = hlo2onnx.policy.translate(recurrent, np.zeros(2, np.float32), zeros)
        program.save(folder / "lstm.onnx")
        figures = {
            "PPO": compare(
                pole(4), folder / "ppo.onnx", jax.jit(lambda seen: act(seen, None)[0]), in_c=True
            ),
            "LSTM": compare(
                pole(2), folder / "lstm.onnx", remembering(recurrent, zeros), in_c=True
            ),
        }
    versions = {name: version(name) for name in ("brax", "mujoco", "jax", "onnxruntime")}
    print(json.dumps({"versions": versions, **figures}))
    return not all(passes(figure) for figure in figures.values())


if __name__ == "__main__":
    sys.exit(main())

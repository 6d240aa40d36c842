"""A policy of mujoco_playground in MuJoCo: readings of sensors in, targets of joints out.

The network has random weights, the file has the environment's own observation function with its
noise. The robot is a Go1.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax.training.acme import running_statistics
from brax.training.agents.ppo import networks as ppo_networks
from closed_loop import Robot, compare, passes, remembering
from mujoco_playground import locomotion
from mujoco_playground._src import mjx_env
from mujoco_playground.config import locomotion_params

import hlo2onnx.policy

NAME = "Go1JoystickFlatTerrain"


def export(env, act, state, path):
    """Writes a policy as an ONNX file, with the observation function of its environment.

    It reads arrays of MuJoCo and the command. The key of the noise and the last action are memory.
    """
    names = ("qpos", "qvel", "sensordata", "site_xmat", "actuator_force", "xfrc_applied")
    observation = {name: getattr(state.data, name) for name in names}
    observation["command"] = state.info["command"]
    memory = {name: state.info[name] for name in ("rng", "last_act")}

    def policy(observation, memory):
        info = state.info | {"command": observation["command"]} | memory
        action, _ = act(env._get_obs(SimpleNamespace(**observation), info), None)
        return action, {"rng": info["rng"], "last_act": action}

    metadata = {
        "joint_names": [env.mj_model.joint(i + 1).name for i in range(env.action_size)],
        "default_joint_pos": env._default_pose.tolist(),
        "action_scale": float(env._config.action_scale),
        "control_period": float(env.dt),
    }
    hlo2onnx.policy.translate(policy, observation, memory, metadata=metadata).save(path)
    return policy, memory


def environment() -> Any:
    """The environment. A tetrahedron replaces each mesh: they do not collide, and need git."""
    corners = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) / 100
    faces = corners[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    record = [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")]
    triangles = np.zeros(4, record)
    triangles["corners"] = faces
    content = bytes(80) + np.uint32(4).tobytes() + triangles.tobytes()
    with tempfile.TemporaryDirectory() as name:
        mjx_env.MENAGERIE_PATH = Path(name)
        meshes = Path(name) / "unitree_go1" / "assets"
        meshes.mkdir(parents=True)
        for mesh in ("trunk", "hip", "thigh", "thigh_mirror", "calf"):
            (meshes / f"{mesh}.stl").write_bytes(content)
        return locomotion.load(NAME, config_overrides={"impl": "jax"})


def go1(env: Any) -> Robot:
    """The robot with a command to walk, and rewards for its speed and height."""
    command = np.float32([0.5, 0, 0.2])
    pose, scale = np.asarray(env._default_pose), float(env._config.action_scale)

    def observe(data: Any) -> dict[str, np.ndarray]:
        arrays = {
            "qpos": data.qpos,
            "qvel": data.qvel,
            "sensordata": data.sensordata,
            "site_xmat": data.site_xmat.reshape(-1, 3, 3),
            "actuator_force": data.actuator_force,
            "xfrc_applied": data.xfrc_applied,
        }
        return {name: np.float32(array) for name, array in arrays.items()} | {"command": command}

    return Robot(
        model=env.mj_model,
        observe=observe,
        control=lambda action: pose + action * scale,
        reward=lambda data: float(data.qpos[2] - (data.qvel[0] - command[0]) ** 2),
        start=np.asarray(env._init_q),
        substeps=env.n_substeps,
    )


def actor(env: Any, state: Any) -> Any:
    """The network that the environment's own configuration describes, with random weights."""
    config = locomotion_params.brax_ppo_config(NAME).network_factory
    sizes = {name: array.shape for name, array in state.obs.items()}
    networks = ppo_networks.make_ppo_networks(
        sizes, env.action_size, running_statistics.normalize, **config
    )
    params = networks.policy_network.init(jax.random.key(0))
    normalizer = running_statistics.init_state(state.obs)
    return ppo_networks.make_inference_fn(networks)((normalizer, params), deterministic=True)


def main() -> int:
    env = environment()
    shapes = jax.eval_shape(env.reset, jax.random.PRNGKey(0))  # compiles no physics
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    state.info["rng"] = jax.random.PRNGKey(1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "go1.onnx"
        policy, memory = export(env, actor(env, state), state, path)
        figures = compare(go1(env), path, remembering(policy, memory))
    versions = {
        name: version(name) for name in ("playground", "brax", "mujoco", "jax", "onnxruntime")
    }
    print(json.dumps({"versions": versions, **figures}))
    return not passes(figures)


if __name__ == "__main__":
    sys.exit(main())

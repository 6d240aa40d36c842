"""The C++ runner of policies gives the actions of Python bit for bit, and checks the model."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from pages import ROOT
from toolchains import ort_headers, ort_library, tool

import hlo2onnx.policy
from hlo2onnx.runtime import Policy

pytestmark = pytest.mark.wide

STEPS = 1000


class Walker(nn.Module):
    @nn.compact
    def __call__(self, observation: Any, memory: Any) -> tuple[jax.Array, Any]:
        x = jnp.concatenate([observation["command"], observation["joint_pos"], memory["last"]])
        carry, y = nn.OptimizedLSTMCell(64)(memory["carry"], x)
        action = jnp.tanh(nn.Dense(12)(y))
        return action, {"carry": carry, "last": action}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built program of examples/cpp."""
    cmake, _ = tool("cmake"), tool("g++")
    folder = tmp_path_factory.mktemp("cpp")
    root = folder / "onnxruntime"
    (root / "lib").mkdir(parents=True)
    (root / "include").symlink_to(ort_headers())
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (root / "lib" / name).symlink_to(ort_library())
    source, build = str(ROOT / "examples" / "cpp"), str(folder / "build")
    run([cmake, "-S", source, "-B", build, f"-DONNXRUNTIME_ROOT={root}"])
    run([cmake, "--build", build])
    return folder / "build" / "policy"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    observation = {"command": np.zeros(3, np.float32), "joint_pos": np.zeros(12, np.float32)}
    zeros = np.zeros(64, np.float32)
    memory = {"carry": (zeros, zeros + 0.25), "last": np.full(12, -0.5, np.float32)}
    walker = Walker()
    params = walker.init(jax.random.key(0), observation, memory)
    path = tmp_path_factory.mktemp("model") / "walker.onnx"
    metadata = {"joint_names": [f"jöint {i}" for i in range(12)], "action_scale": 0.5}
    hlo2onnx.policy.translate(
        lambda observation, memory: walker.apply(params, observation, memory),
        observation,
        memory,
        metadata=metadata | {"default_joint_pos": [0.1] * 12},
    ).save(path)
    return path


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def made_up() -> np.ndarray:
    """The observations of main.cpp, a row for each step."""
    numbers = np.arange(STEPS * 15, dtype=np.uint64) * 7919 % 2001
    return ((numbers.astype(np.float32) - 1000) / 1024).reshape(STEPS, 15)


def test_the_actions_are_those_of_python(program: Path, model: Path, tmp_path: Path) -> None:
    printed = run([str(program), str(model), str(STEPS), str(tmp_path / "actions")])
    assert "\n0 allocations of the runner" in printed
    found = np.fromfile(tmp_path / "actions", np.float32).reshape(STEPS, 12)
    policy = Policy(model)
    for row, action in zip(made_up(), found, strict=True):
        expected = policy.step({"command": row[:3], "joint_pos": row[3:]})
        assert np.array_equal(expected.view(np.int32), action.view(np.int32))
    assert found.std() > 0.01


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("hlo2onnx.memory", None, "not a policy"),
        (
            "hlo2onnx.memory",
            '[["memory/last", "next/last", "AAAA"]]',
            "memory/last has another size",
        ),
        ("hlo2onnx.memory", '[["memory/h", "next/last", ""]]', "the model has no memory/h"),
        ("default_joint_pos", "[0.1]", "default_joint_pos has not a number for each joint"),
        ("default_joint_pos", '["a"]', "a is not a number"),
        ("action_scale", "[1, 2]", "action_scale has not"),
        ("observation_ranges", '{"joint_pos": [-1, 1]}', "there is no input joint_pos"),
        ("control_period", "0", "control_period"),
        ("joint_names", '["a", "a"]', "a joint is twice"),
    ],
)
def test_wrong_models(
    program: Path, model: Path, tmp_path: Path, key: str, value: str | None, text: str
) -> None:
    changed = onnx.load(model)
    texts = {item.key: item.value for item in changed.metadata_props} | {key: value}
    del changed.metadata_props[:]
    onnx.helper.set_model_props(changed, {k: v for k, v in texts.items() if v is not None})
    onnx.save(changed, tmp_path / "changed.onnx")
    command = [str(program), str(tmp_path / "changed.onnx"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert text in done.stderr


def test_a_robot_without_a_joint(program: Path, model: Path) -> None:
    joints = [f"jöint {i}" for i in range(12)]
    command = [str(program), str(model), "2", ""]
    run([*command, "arm", *reversed(joints)])
    done = subprocess.run([*command, *joints[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "the robot has no joint jöint 0\n"


def test_the_header_is_short() -> None:
    header = ROOT / "examples" / "cpp" / "hlo2onnx_policy.hpp"
    assert len(header.read_text(encoding="utf-8").splitlines()) <= 300

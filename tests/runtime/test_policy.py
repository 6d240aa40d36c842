"""Policies of robots: the memory stays inside, and wrong observations and metadata are errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from processes import run_python

import hlo2onnx.policy
from hlo2onnx.errors import LoadError, SignatureError, UsageError
from hlo2onnx.runtime import Policy

WEIGHTS = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
OBSERVATION = {"imu": {"gyro": np.zeros(2, np.float32)}, "joint_pos": np.zeros(3, np.float32)}
MEMORY = {
    "count": np.int32(5),
    "hidden": np.full(4, 0.5, np.float32),
    "key": jax.random.key(7),
    "log": np.zeros(2, np.float32),
    "total": np.zeros(4, np.float32),
}
ROBOT = {
    "joint_names": ["hip", "knee", "foot"],
    "joint_stiffness": [20, 20, 10.5],
    "action_scale": [1, 1, 2, 0.5],
    "observation_ranges": {"observation/joint_pos": [-1, 1]},
    "control_period": 0.02,
    "robot": "leg",
}


class Action(NamedTuple):
    torque: jax.Array
    step: jax.Array


def walk(observation: Any, memory: Any) -> tuple[Action, Any]:
    """Reads all of the memory but the log."""
    gyro = observation["imu"]["gyro"]
    x = jnp.concatenate([gyro, observation["joint_pos"], memory["hidden"]])
    hidden = jnp.tanh(x @ WEIGHTS)
    key, noise = jax.random.split(memory["key"])
    torque = hidden + jax.random.normal(noise, (4,))
    count, total = memory["count"] + 1, memory["total"] + torque
    kept = {"count": count, "hidden": hidden, "key": key, "log": gyro, "total": total}
    return Action(total, count), kept


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("policy") / "walk.onnx"
    hlo2onnx.policy.translate(walk, OBSERVATION, MEMORY, metadata=ROBOT).save(found)
    return found


def observations(count: int) -> list[Any]:
    rng = np.random.default_rng(1)
    make = lambda size: rng.normal(size=size).astype(np.float32)  # noqa: E731
    return [{"imu": {"gyro": make(2)}, "joint_pos": make(3)} for _ in range(count)]


def test_steps_are_those_of_jax_after_each_reset(path: Path) -> None:
    policy, step = Policy(path), jax.jit(walk)
    for _ in range(2):
        memory = MEMORY
        policy.reset()
        for observation in observations(5):
            action = policy.step(observation)
            expected, memory = step(observation, memory)
            np.testing.assert_allclose(action.torque, expected.torque, rtol=1e-5, atol=1e-6)
            assert action.step == expected.step


def test_names_and_initial_values_are_in_the_model(path: Path) -> None:
    session = onnxruntime.InferenceSession(path)
    names = [value.name for value in session.get_inputs()]
    assert names[:2] == ["observation/imu/gyro", "observation/joint_pos"]
    assert names[2:] == ["memory/count", "memory/hidden", "memory/key", "memory/total"]
    outputs = [value.name for value in session.get_outputs()]
    assert outputs == ["action/torque", "action/step", *(f"next/{name}" for name in MEMORY)]
    kept = json.loads(session.get_modelmeta().custom_metadata_map["hlo2onnx.memory"])
    assert kept[0] == ["memory/count", "next/count", "BQAAAA=="]
    assert kept[-1] == ["memory/total", "next/total", ""]
    assert [pair[1] for pair in kept[1:3]] == ["next/hidden", "next/key"]


def test_a_step_keeps_its_arrays_and_the_action_before(path: Path) -> None:
    policy = Policy(path)
    first = policy.step(OBSERVATION)
    torque = first.torque.copy()
    second = policy.step(OBSERVATION)
    assert np.array_equal(first.torque, torque)
    assert not np.array_equal(second.torque, torque)
    assert policy.step(OBSERVATION) is first


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"joint_pos": np.zeros(4, np.float32)}, r"joint_pos must have shape \[3\], not \[4\]"),
        ({"joint_pos": np.zeros((1, 3), np.float32)}, r"must have shape \[3\]"),
        ({"joint_pos": np.zeros(3, np.int32)}, "joint_pos must be float32, not int32"),
        ({"joint_vel": np.zeros(3)}, "observation must be a dict of imu, joint_pos"),
        ({"imu": np.zeros(2)}, "imu"),
    ],
)
def test_wrong_observations(path: Path, change: dict[str, Any], text: str) -> None:
    policy, fresh = Policy(path), Policy(path)
    with pytest.raises(SignatureError, match=text):
        policy.step(OBSERVATION | change)
    assert np.array_equal(policy.step(OBSERVATION).torque, fresh.step(OBSERVATION).torque)


def test_observations_of_f64_are_converted(path: Path) -> None:
    wide = {"imu": {"gyro": np.full(2, 0.1)}, "joint_pos": np.full(3, 0.1)}
    narrow = jax.tree.map(np.float32, wide)
    found, expected = (Policy(path).step(item).torque for item in (wide, narrow))
    assert np.array_equal(found, expected)


def test_joints_are_matched(path: Path) -> None:
    policy = Policy(path, joints=["foot", "arm", "hip", "knee"])
    assert policy.joint_order == [2, 3, 0]
    assert policy.metadata == ROBOT
    assert Policy(path).joint_order is None
    with pytest.raises(LoadError, match="the robot has no joint foot; it has hip, knee"):
        Policy(path, joints=["hip", "knee"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"joint_names": ["hip", "hip", "foot"]}, "joint_names"),
        ({"joint_stiffness": [1, 2]}, "joint_stiffness is .* not a number for each"),
        ({"action_scale": [1, 2, 3]}, "action_scale"),
        ({"observation_ranges": {"joint_pos": [-1, 1]}}, "observation_ranges .* observation/imu"),
        ({"observation_ranges": {"observation/joint_pos": [1, -1]}}, "low, high"),
        ({"control_period": 0}, "control_period"),
    ],
)
def test_wrong_metadata(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        hlo2onnx.policy.translate(walk, OBSERVATION, MEMORY, metadata=ROBOT | change)


def test_wrong_memory() -> None:
    with pytest.raises(UsageError, match="a policy with memory returns"):
        hlo2onnx.policy.translate(lambda observation, memory: observation, np.zeros(3), np.zeros(2))
    with pytest.raises(UsageError, match=r"memory is float32\[2\], and .* int32\[2\]"):
        hlo2onnx.policy.translate(
            lambda observation, memory: (observation, memory.astype(np.int32)),
            np.zeros(3, np.float32),
            np.zeros(2, np.float32),
        )


def test_other_models_are_refused(tmp_path: Path) -> None:
    program = hlo2onnx.translate(lambda x: x + 1, np.zeros(3, np.float32))
    program.save(tmp_path / "other.onnx")
    with pytest.raises(LoadError, match="is not a policy: write it with"):
        Policy(tmp_path / "other.onnx")


def test_images_and_complex_memory(tmp_path: Path) -> None:
    """The arrays of the model have another layout than those of the function."""

    def see(image: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        frame, spectrum = memory
        return (image - frame) * spectrum.imag[0], (image, spectrum * 2)

    image = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
    memory = (image[:, ::-1] / 8, np.array([1 + 2j, 3], np.complex64))
    options: dict[str, Any] = {"inputs_as_nchw": ["image", "memory/0"]}
    with pytest.raises(UsageError, match="memory/0 and next/0 need the same layout"):
        hlo2onnx.policy.translate(see, image, memory, **options)
    program = hlo2onnx.policy.translate(see, image, memory, outputs_as_nchw="next/0", **options)
    program.save(tmp_path / "see.onnx")
    policy = Policy(tmp_path / "see.onnx")
    for step, frame, factor in ((1, memory[0], 2), (3, image, 4)):
        assert np.array_equal(policy.step(step * image), (step * image - frame) * factor)


def test_it_runs_without_jax(path: Path) -> None:
    run_python(
        "import sys\n"
        "import numpy as np\n"
        "from hlo2onnx.runtime import Policy\n"
        f"policy = Policy({str(path)!r})\n"
        "action = policy.step({'imu': {'gyro': np.zeros(2)}, 'joint_pos': np.ones(3)})\n"
        "assert type(action).__name__ == 'Action' and action.step == 6\n"
        "assert not {'jax', 'onnx'} & set(sys.modules)\n"
    )

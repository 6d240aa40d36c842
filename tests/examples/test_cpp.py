"""The C++ runner of policies gives the actions of Python bit for bit, and checks the model."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from pages import ROOT
from toolchains import ort_headers, ort_library, tool

import hlo2onnx.policy
from hlo2onnx.runtime import Policy

pytestmark = pytest.mark.wide

STEPS = 1000
SIZES = {"command": 3, "gyro": 3, "joint_pos": 6, "joint_vel": 6}
JOINTS = [f"jöint {i}" for i in range(6)]
CPP = ROOT / "examples" / "cpp"


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
    source, build = str(CPP), str(folder / "build")
    run([cmake, "-S", source, "-B", build, f"-DONNXRUNTIME_ROOT={root}"])
    run([cmake, "--build", build])
    return folder / "build" / "policy"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The LSTM of examples/cpp/policy.py, with another initial memory and a name in UTF-8."""
    example = runpy.run_path(str(CPP / "policy.py"))
    path = tmp_path_factory.mktemp("model") / "policy.onnx"
    memory = jax.tree.map(lambda leaf: leaf + np.float32(0.25), example["MEMORY"])
    hlo2onnx.policy.translate(
        example["Policy"](example["nnx"].Rngs(0)),
        example["OBSERVATION"],
        memory,
        metadata=example["ROBOT"] | {"joint_names": JOINTS},
    ).save(path)
    return path


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", [".onnx", ".ort"])
def test_the_actions_are_those_of_python(
    program: Path, model: Path, tmp_path: Path, suffix: str
) -> None:
    if suffix == ".ort":
        convert = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort"]
        run([*convert, str(model), "--optimization_style", "Fixed"])
    file = str(model.with_suffix(suffix))
    printed = run([str(program), file, str(STEPS), str(tmp_path / "actions")])
    assert "\n0 allocations of the runner" in printed
    found = np.fromfile(tmp_path / "actions", np.int32).reshape(STEPS, 6)
    # what main.cpp makes up
    numbers = np.arange(STEPS * sum(SIZES.values()), dtype=np.uint64) * 7919 % 2001
    rows = ((numbers.astype(np.float32) - 1000) / 1024).reshape(STEPS, -1)
    parts = np.split(rows, np.cumsum([*SIZES.values()])[:-1], axis=1)
    policy = Policy(model)
    for step, action in enumerate(found):
        observation = {name: part[step] for name, part in zip(SIZES, parts, strict=True)}
        assert np.array_equal(policy.step(observation).view(np.int32), action)
    assert found.view(np.float32).std() > 0.01


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("hlo2onnx.memory", None, "not a policy"),
        (
            "hlo2onnx.memory",
            '[["memory/last_action", "next/last_action", "AAAA"]]',
            "memory/last_action has another size",
        ),
        ("hlo2onnx.memory", '[["memory/h", "next/last_action", ""]]', "the model has no memory/h"),
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
    command = [str(program), str(model), "2", ""]
    run([*command, "arm", *reversed(JOINTS)])
    done = subprocess.run([*command, *JOINTS[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "the robot has no joint jöint 0\n"


def test_the_pipe(program: Path, model: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(STEPS, sum(SIZES.values()))).astype(np.float32)
    command = [str(program.parent / "pipe"), str(model)]
    done = subprocess.run(command, input=rows.tobytes(), capture_output=True, check=True)
    found = np.frombuffer(done.stdout, np.int32).reshape(STEPS, 6)
    policy = Policy(model)
    for row, action in zip(rows, found, strict=True):
        parts = np.split(row, np.cumsum([*SIZES.values()])[:-1])
        observation = dict(zip(SIZES, parts, strict=True))
        assert np.array_equal(policy.step(observation).view(np.int32), action)


def test_a_loop_of_fixed_rate(program: Path, model: Path) -> None:
    printed = run([str(program.parent / "real_time"), str(model), "20"])
    assert "late steps" in printed


def test_a_node_of_ros() -> None:
    """It compiles against stubs of what it uses."""
    stubs, source = Path(__file__).parent / "ros_stubs", CPP / "ros_node.cpp"
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{stubs}"]
    run([tool("g++"), *flags, "-isystem", str(ort_headers()), str(source)])


def test_the_force_field(program: Path, tmp_path: Path) -> None:
    """10,000 steps in C++ conserve the energy as those in JAX, and begin as they do."""
    example = runpy.run_path(str(CPP / "force_field.py"))
    box, positions, velocities = example["crystal"](cells=2)
    np.concatenate([box, positions.ravel(), velocities.ravel()]).tofile(tmp_path / "atoms.bin")
    with jax.enable_x64(True):
        arguments = ("float64[n, 3]", "int32[n, k]", "float64[3]")
        hlo2onnx.translate(example["force_field"], *arguments).save(tmp_path / "force_field.onnx")
        expected = dynamics(jax.jit(example["force_field"]), box, positions, velocities, 10_000)
    files = [str(tmp_path / "force_field.onnx"), str(tmp_path / "atoms.bin")]
    printed = run([str(program.parent / "force_field"), *files, "10000", str(TIMESTEP)])
    found = np.array([line.split() for line in printed.splitlines()], np.float64)
    assert len({*found[:, 4]}) > 3  # lengths of the list
    np.testing.assert_allclose(found[:5, 1:4], expected[:5], rtol=1e-9)
    kinetic = np.mean(expected[:, 1] - expected[:, 0])
    for total in (found[:, 2], expected[:, 1]):
        assert np.ptp(total) < 5e-4 * kinetic
        assert abs(np.polyfit(np.arange(len(total)), total, 1)[0]) * len(total) < 1e-4 * kinetic


TIMESTEP = 0.002


def dynamics(force_field: Any, box: Any, x: Any, v: Any, steps: int) -> np.ndarray:
    """Potential and total energy and pressure of each 100th step: what force_field.cpp does."""
    listed, neighbours, rows = None, None, []

    def compute() -> Any:
        nonlocal listed, neighbours
        if listed is None or np.linalg.norm(x - listed, axis=1).max() > 0.15:
            vectors = x - x[:, None]
            vectors -= box * np.round(vectors / box)
            near = np.sum(vectors**2, axis=-1) < 1.9**2
            nearest = np.argsort(~near, axis=1, kind="stable")
            own = np.arange(len(x))[:, None]
            listed, neighbours = x, np.where(near[own, nearest], nearest, own).astype(np.int32)
        return {name: np.asarray(y) for name, y in force_field(x, neighbours, box).items()}

    found = compute()
    for step in range(steps + 1):
        if step % 100 == 0:
            twice, virial = np.sum(v**2), np.trace(found["virial"])
            pressure = (twice + virial) / (3 * np.prod(box))
            rows.append((found["energy"], found["energy"] + twice / 2, pressure))
        v = v + TIMESTEP / 2 * found["forces"]
        x = x + TIMESTEP * v
        found = compute()
        v = v + TIMESTEP / 2 * found["forces"]
    return np.array(rows)


@pytest.mark.parametrize(
    ("name", "lines"), [("hlo2onnx_policy.hpp", 300), ("force_field.cpp", 120)]
)
def test_short(name: str, lines: int) -> None:
    assert len((CPP / name).read_text(encoding="utf-8").splitlines()) <= lines

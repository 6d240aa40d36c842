"""A robot in MuJoCo, moved by a policy in XLA, by its ONNX file in Python, and by the same in C++."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import onnxruntime

from hlo2onnx.runtime import Policy
from hlo2onnx.runtime.adapters.installed import CACHE

STEPS = 1000
CPP = Path(__file__).parents[2] / "examples" / "cpp"
Step = Callable[[Any], Any]


@dataclass
class Robot:
    """A model of MuJoCo with what a policy sees, does, and wants."""

    model: mujoco.MjModel
    observe: Callable[[mujoco.MjData], Any]
    """The observation: an f32 array, or a flat dict of such."""
    control: Callable[[np.ndarray], np.ndarray]
    """The targets of the actuators, for an action."""
    reward: Callable[[mujoco.MjData], float]
    start: np.ndarray
    substeps: int = 1
    push: float = 0.0
    """Added to the last speed every 250 steps."""

    def run(self, step: Step) -> tuple[np.ndarray, np.ndarray, float]:
        """The actions [steps, size], the positions [steps, size], and the return."""
        data = mujoco.MjData(self.model)
        data.qpos[:] = self.start
        mujoco.mj_forward(self.model, data)
        actions, positions, total = [], [], 0.0
        for index in range(STEPS):
            action = np.array(step(self.observe(data)))
            data.ctrl[:] = self.control(action)
            if index % 250 == 249:
                data.qvel[-1] += self.push
            mujoco.mj_step(self.model, data, self.substeps)
            total += self.reward(data)
            actions.append(action)
            positions.append(data.qpos.copy())
        return np.stack(actions), np.stack(positions), total


def compare(robot: Robot, path: Path, in_xla: Step) -> dict[str, Any]:
    """Moves the robot three times for 1,000 steps: by a file, by its JAX function, and in C++.

    Returns:
        The largest difference between the actions of ONNX and of XLA in the first ten steps and in
        all, both returns, and whether C++ does the same as Python, bit for bit.
    """
    runner = Policy(path)
    actions, positions, total = robot.run(runner.step)
    expected, expected_positions, expected_total = robot.run(in_xla)
    error = np.abs(actions - expected)
    figures = {
        "error_of_ten": float(error[:10].max()),
        "error": float(error.max()),
        "error_of_positions": float(np.abs(positions - expected_positions).max()),
        "largest_action": float(np.abs(expected).max()),
        "return": total,
        "return_of_xla": expected_total,
        "bytes": path.stat().st_size,
    }
    with in_cpp(path, actions[0]) as step:
        if step is not None:
            found, *_ = robot.run(step)
            figures["cpp_is_equal"] = found.tobytes() == actions.tobytes()
    return figures


def remembering(policy: Any, memory: Any) -> Step:
    """Steps of a JAX function, jitted, that keep its memory."""
    jitted, kept = jax.jit(policy), [memory]

    def step(observation: Any) -> Any:
        action, kept[0] = jitted(observation, kept[0])
        return action

    return step


@contextmanager
def in_cpp(path: Path, action: np.ndarray) -> Iterator[Step | None]:
    """Steps of examples/cpp/pipe.cpp with the library of the installed ONNX Runtime.

    Gives None without a compiler, or without the headers, which a package of npm brings.
    """
    header = next(CACHE.glob("com.github.*/**/ios-arm64/**/onnxruntime_cxx_api.h"), None)
    if header is None or shutil.which("g++") is None:
        yield None
        return
    program = path.with_suffix(".pipe")
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    folder = path.parent / "lib"
    folder.mkdir(exist_ok=True)
    if not (folder / "libonnxruntime.so.1").exists():
        (folder / "libonnxruntime.so.1").symlink_to(library)
    flags = ["-std=c++17", "-O2", f"-I{header.parent}", f"-Wl,-rpath,{folder}"]
    sources = [CPP / "pipe.cpp", folder / "libonnxruntime.so.1"]
    subprocess.run(["g++", *flags, *sources, "-o", program], check=True)
    names = [port.name for port in onnxruntime.InferenceSession(path).get_inputs()]
    with subprocess.Popen([program, path], stdin=-1, stdout=-1) as child:
        assert child.stdin is not None and child.stdout is not None

        def step(observation: Any) -> np.ndarray:
            parts = observation if isinstance(observation, dict) else {"": observation}
            for name in sorted(parts):
                if f"observation/{name}".rstrip("/") in names:
                    child.stdin.write(np.float32(parts[name]).tobytes())
            child.stdin.flush()
            return np.frombuffer(child.stdout.read(action.nbytes), np.float32)

        yield step
        child.stdin.close()


def passes(figures: dict[str, Any], of_return: float = 1e-4) -> bool:
    """The first actions are equal to rounding, the returns nearly, and C++ does the same."""
    mean = abs(figures["return_of_xla"])
    return (
        figures["error_of_ten"] <= 1e-5
        and abs(figures["return"] - figures["return_of_xla"]) <= of_return * mean
        and figures.get("cpp_is_equal", True)
    )

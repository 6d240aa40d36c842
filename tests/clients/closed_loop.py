"""A robot in MuJoCo, moved by a policy in XLA, and by its ONNX file in Python, C++ and C."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import onnxruntime
from timing import microseconds

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


def compare(robot: Robot, path: Path, in_xla: Step, in_c: bool = False) -> dict[str, Any]:
    """Moves the robot three times for 1,000 steps: by a file, by its JAX function, and in C++.

    Returns:
        The largest difference between the actions of ONNX and of XLA in the first ten steps and in
        all, both returns, and whether C++ does the same as Python, bit for bit.
        With `in_c`, the same of generated C code, its size and its time.
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
    if in_c:
        generated = InC(path)
        found, _, figures["return_of_c"] = robot.run(generated)
        figures["error_of_c"] = float(np.abs(found - actions).max())
        figures["bytes_of_c"] = generated.bytes
        zeros = np.zeros_like(generated.inputs["observation"])
        figures["c_us"] = microseconds(lambda: generated.function(*generated.pointers))
        figures["ort_us"] = microseconds(lambda: runner.step(zeros))
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


class InC:
    """Steps of the C code that emx-onnx-cgen makes of a policy. It needs a C library, and no more.

    Attributes:
        bytes: The size of its object file: code and weights.
    """

    def __init__(self, path: Path) -> None:
        source, binary = path.with_suffix(".c"), path.with_suffix(".o")
        generator = shutil.which("emx-onnx-cgen", path=Path(sys.executable).parent)
        assert generator is not None
        subprocess.run([generator, "compile", path, source, "--model-name", "step"], check=True)
        library = path.with_suffix(".so")
        subprocess.run(["gcc", "-O2", "-c", "-fPIC", source, "-o", binary], check=True)
        subprocess.run(["gcc", "-shared", binary, "-lm", "-o", library], check=True)
        sizes = subprocess.run(["size", binary], capture_output=True, text=True, check=True).stdout
        self.bytes = int(sizes.splitlines()[1].split()[3])
        self.function = ctypes.CDLL(library)["step"]
        session = onnxruntime.InferenceSession(path)
        self.inputs = {port.name: np.zeros(port.shape, np.float32) for port in session.get_inputs()}
        self.outputs = {p.name: np.zeros(p.shape, np.float32) for p in session.get_outputs()}
        pairs = json.loads(session.get_modelmeta().custom_metadata_map["hlo2onnx.memory"])
        self.memory = {name: next_ for name, next_, _ in pairs}  # zeros at first
        arrays = [*self.inputs.values(), *self.outputs.values()]
        self.pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        self.inputs["observation"][...] = observation
        self.function(*self.pointers)
        for name, next_ in self.memory.items():
            self.inputs[name][...] = self.outputs[next_]
        return self.outputs["action"]


def passes(figures: dict[str, Any], of_return: float = 1e-4) -> bool:
    """The first actions are equal to rounding, the returns nearly; C++ does the same, C nearly."""
    mean = abs(figures["return_of_xla"])
    return (
        figures["error_of_ten"] <= 1e-5
        and abs(figures["return"] - figures["return_of_xla"]) <= of_return * mean
        and figures.get("cpp_is_equal", True)
        and figures.get("error_of_c", 0) <= 1e-4
    )

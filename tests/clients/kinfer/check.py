"""The export of kinfer with hlo2onnx: a recurrent policy, packed and run by kinfer's runtime."""

from __future__ import annotations

import datetime
import inspect
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
from kinfer.export.serialize import pack
from kinfer.rust_bindings import ModelProviderABC, PyInputType, PyModelMetadata, PyModelRunner
from timing import microseconds

import hlo2onnx

JOINTS = [f"joint_{index}" for index in range(20)]
COMMANDS = ["x", "y", "yaw"]
DEPTH, WIDTH, MIXTURES = 2, 128, 10
STEPS = 100
"""Steps of the carry that are compared."""


def export_fn(model, metadata, *, opset=21):
    """Exports a jitted function, whose arguments have the names of kinfer's inputs, to ONNX."""
    names = list(inspect.signature(model).parameters)
    shapes = [PyInputType(name).get_shape(metadata) for name in names]
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return hlo2onnx.translate(
        model, *arguments, target="ort-cpu@1.20", opset=opset, input_names=names
    ).model_proto


class Actor(eqx.Module):
    """The actor of ksim's example of walking: GRU cells and a mixture for each joint."""

    project: eqx.nn.Linear
    cells: list[eqx.nn.GRUCell]
    head: eqx.nn.MLP

    def __init__(self, key: jax.Array) -> None:
        keys = jax.random.split(key, DEPTH + 2)
        width = 2 * len(JOINTS) + 3 + 3 + len(COMMANDS) + 2
        self.project = eqx.nn.Linear(width, WIDTH, key=keys[0])
        self.cells = [eqx.nn.GRUCell(WIDTH, WIDTH, key=key) for key in keys[2:]]
        size = len(JOINTS) * MIXTURES * 3
        self.head = eqx.nn.MLP(WIDTH, size, WIDTH, 2, jax.nn.gelu, key=keys[1])

    def __call__(self, observation: jax.Array, carry: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = self.project(observation)
        carries = []
        for cell, before in zip(self.cells, carry, strict=True):
            x = cell(x, before)
            carries.append(x)
        mean, _, logits = self.head(x).reshape(3, len(JOINTS), MIXTURES)
        best = jnp.argmax(logits, axis=1)
        action = jnp.take_along_axis(mean, best[:, None], axis=1)[:, 0]
        return jnp.clip(action, -1.0, 1.0), jnp.stack(carries)


actor = Actor(jax.random.key(0))


@jax.jit
def init():
    return jnp.full((DEPTH, WIDTH), 0.5)


@jax.jit
def step(
    joint_angles, joint_angular_velocities, projected_gravity, gyroscope, command, time, carry
):
    gait = 2 * jnp.pi * time / 0.6
    parts = [joint_angles, joint_angular_velocities, projected_gravity, gyroscope, command]
    return actor(jnp.concatenate([*parts, jnp.cos(gait), jnp.sin(gait)]), carry)


class Robot(ModelProviderABC):
    """Gives recorded readings and takes the actions."""

    def __new__(cls, *_: Any) -> Robot:
        return super().__new__(cls)  # the class in Rust takes no arguments

    def __init__(self, readings: list[dict[str, np.ndarray]]) -> None:
        self.readings = iter(readings)
        self.actions: list[np.ndarray] = []

    def pre_fetch_inputs(self, names: Any, metadata: Any) -> None:
        pass

    def get_inputs(self, names: Any, metadata: Any) -> dict[str, np.ndarray]:
        return next(self.readings)

    def take_action(self, action: np.ndarray, metadata: Any) -> None:
        self.actions.append(np.array(action))


def session_of(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def main() -> int:
    metadata = PyModelMetadata(JOINTS, COMMANDS, [DEPTH, WIDTH])
    models = {"init": export_fn(init, metadata), "step": export_fn(step, metadata)}
    random = np.random.default_rng(0)
    inputs = [name for name in inspect.signature(step).parameters if name != "carry"]
    sizes = {name: PyInputType(name).get_shape(metadata) for name in inputs}
    readings = [
        {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
        for _ in range(STEPS)
    ]

    # The same carry is followed in JAX, in ONNX Runtime and in kinfer's runtime.
    run_init, run_step = session_of(models["init"]), session_of(models["step"])
    expected, found, errors = [], [], []
    carry, our_carry = init(), run_init.run(None, {})[0]
    for reading in readings:
        action, carry = step(**reading, carry=carry)
        our_action, our_carry = run_step.run(None, {**reading, "carry": our_carry})
        expected.append(np.asarray(action))
        found.append(our_action)
        errors.append(float(np.abs(our_carry - carry).max()))
    robot = Robot(readings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.kinfer"
        path.write_bytes(pack(models["init"], models["step"], metadata))
        runner = PyModelRunner(str(path), robot, None)
        runner.run(datetime.timedelta(milliseconds=1), total_steps=STEPS)
        size = path.stat().st_size
    assert len(robot.actions) == STEPS
    figures = {
        "error": float(np.abs(np.subtract(found, expected)).max()),
        "error_of_carry": max(errors),
        "error_in_kinfer": float(np.abs(np.subtract(robot.actions, expected)).max()),
        "nodes": {name: len(model.graph.node) for name, model in models.items()},
        "kinfer_bytes": size,
        "ort_us": microseconds(lambda: run_step.run(None, {**readings[0], "carry": our_carry})),
        "jax_us": microseconds(lambda: jax.block_until_ready(step(**readings[0], carry=carry))),
    }
    names = ("kinfer", "jax", "onnxruntime", "equinox")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return max(value for name, value in figures.items() if name.startswith("error")) > 1e-5


if __name__ == "__main__":
    sys.exit(main())

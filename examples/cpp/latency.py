"""Prints the latency of policies: python examples/cpp/latency.py build/policy [STEPS [TWINS]].

The first argument is the built program of this folder, the last one a folder of twins.py. All run
on one core with one thread. Python, XLA and the twin take turns in blocks of steps.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime as ort
from flax import nnx

import hlo2onnx.policy
from hlo2onnx.runtime import Policy

BLOCKS = 20
ENTRIES, JOINTS, FRAMES, WIDTH = 48, 12, 8, 128
Step = Callable[[], object]


class Mlp(nnx.Module):
    """512, 256 and 128 wide."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        sizes = (ENTRIES, 512, 256, 128, JOINTS)
        self.layers = nnx.List(nnx.Linear(*pair, rngs=rngs) for pair in itertools.pairwise(sizes))

    def __call__(self, observation: Any, memory: Any) -> tuple[jax.Array, Any]:
        for layer in self.layers[:-1]:
            observation = nnx.elu(layer(observation))
        action = self.layers[-1](observation)
        return action, 0.8 * memory + 0.2 * action


class Lstm(nnx.Module):
    """256 wide."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.cell = nnx.OptimizedLSTMCell(ENTRIES, 256, rngs=rngs)
        self.head = nnx.Linear(256, JOINTS, rngs=rngs)

    def __call__(self, observation: Any, memory: Any) -> tuple[jax.Array, Any]:
        carry, y = self.cell(memory, observation)
        return self.head(y), carry


class Transformer(nnx.Module):
    """Two layers of 4 heads over the last 8 observations, which are the memory."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Linear(ENTRIES, WIDTH, rngs=rngs)
        self.blocks = nnx.List(
            nnx.Dict(
                norm=nnx.LayerNorm(WIDTH, rngs=rngs),
                attention=nnx.MultiHeadAttention(4, WIDTH, decode=False, rngs=rngs),
                second=nnx.LayerNorm(WIDTH, rngs=rngs),
                up=nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs),
                down=nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs),
            )
            for _ in range(2)
        )
        self.head = nnx.Linear(WIDTH, JOINTS, rngs=rngs)

    def __call__(self, observation: Any, memory: Any) -> tuple[jax.Array, Any]:
        memory = jnp.concatenate([memory[1:], observation[None]])
        x = self.embed(memory)
        for block in self.blocks:
            x = x + block["attention"](block["norm"](x))
            x = x + block["down"](nnx.gelu(block["up"](block["second"](x))))
        return self.head(x[-1]), memory


POLICIES = {
    Mlp: np.zeros(JOINTS, np.float32),
    Lstm: (np.zeros(256, np.float32),) * 2,
    Transformer: np.zeros((FRAMES, ENTRIES), np.float32),
}
"""Classes and their memories. The MLP's is a filtered action."""


def timed(step: Step, count: int) -> list[float]:
    """The microseconds of each of some steps."""
    found = []
    for _ in range(count):
        start = time.perf_counter_ns()
        step()
        found.append((time.perf_counter_ns() - start) / 1e3)
    return found


def twin(path: Path, observation: np.ndarray) -> Step:
    """A step of a model of PyTorch, whose memory is the rest of its inputs and outputs."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    first, *rest = session.get_inputs()
    given = {x.name: np.zeros(x.shape, np.float32) for x in rest} | {first.name: observation}

    def step() -> None:
        _, *memory = session.run(None, given)
        given.update(zip((x.name for x in rest), memory, strict=True))

    return step


def measure(kind: Any, memory: Any, program: str, steps: int, twins: Path | None) -> None:
    """Prints a row for each runner."""
    module = kind(nnx.Rngs(0))
    observation = np.full(ENTRIES, 0.1, np.float32)
    definition, state = nnx.split(module)
    jitted = jax.jit(lambda o, m: nnx.merge(definition, state)(o, m))
    kept = [jitted(observation, memory)[1]]

    def xla() -> None:
        action, kept[0] = jitted(observation, kept[0])
        np.asarray(action)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        hlo2onnx.policy.translate(module, observation, memory).save(path)
        policy = Policy(path)
        runners: dict[str, Step] = {"Python": lambda: policy.step(observation), "XLA": xla}
        if twins is not None:
            runners["twin"] = twin(twins / f"{kind.__name__}.onnx", observation)
        times: dict[str, list[float]] = {name: [] for name in runners}
        for _ in range(BLOCKS):
            for name, step in runners.items():
                timed(step, 100)
                times[name] += timed(step, steps // BLOCKS)
        command = [program, str(path), str(steps)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = {
        name: (*np.percentile(found, [50, 99]), max(found)) for name, found in times.items()
    } | {"C++": tuple(map(float, re.findall(r"(\d+\.\d) us", printed)))}
    for name in ("C++", *times):
        figures = " | ".join(f"{figure:.1f}" for figure in rows[name])
        print(f"| {kind.__name__} | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
    print("| policy | runner | p50 us | p99 us | worst us |\n| --- | --- | --- | --- | --- |")
    program, *more = sys.argv[1:]
    count = int(more[0]) if more else 100_000
    twins = Path(more[1]) if more[1:] else None
    for one, zeros in POLICIES.items():
        measure(one, zeros, program, count, twins)

"""Microseconds of a call of a program beside `session.run`, and of a step that keeps its state.

Figures are medians of the fastest calls of some rounds: other work on the machine makes calls
slower, and none makes them faster.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import jax
import numpy as np

from tools.bench.benchmark import Benchmark, Built
from tools.examples import load

COLUMNS = ("session.run µs", "OnnxProgram µs", "hlo2onnx.runtime µs", "program.step µs")
ROUNDS = 7
SECONDS = 0.05
X = np.ones((4, 3), np.float32)
LEAVES = {f"k{index}": np.ones(3, np.float32) for index in range(200)}


def fastest(call: Callable[[], object]) -> str:
    """Microseconds of a call: the median of the minima of rounds."""
    call()
    minima = []
    for _ in range(ROUNDS):
        times = []
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        minima.append(min(times))
    return f"{statistics.median(minima) * 1e6:.1f}"


def decode() -> Built:
    """A GPT-2 decode step whose caches are donated."""
    function, args = load("gpt2_decode").build(layers=4, width=256, heads=4, tokens=256)
    return jax.jit(function, donate_argnums=1), args


def measure(benchmark: Benchmark) -> dict[str, str]:
    """Times the same call in each way."""
    import hlo2onnx
    import hlo2onnx.runtime

    function, args = benchmark.build()
    bind = {0: args[0]} if benchmark.binds else ()
    program = hlo2onnx.translate(jax.jit(function).lower(*args), bind=bind)
    free = jax.tree.map(np.asarray, args[1:] if benchmark.binds else args)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program.save(path)
        light = hlo2onnx.runtime.load(path)
    runtime = light._runtime
    feeds = dict(zip(runtime.input_names, light.flatten(*free), strict=True))
    run = partial(runtime.session.run, runtime.output_names, feeds)
    calls = {"session.run": run, "OnnxProgram": partial(program, *free)}
    calls["hlo2onnx.runtime"] = partial(light, *free)
    if benchmark.binds:
        state, *rest = free

        def step() -> None:
            nonlocal state
            _, state = program.step(state, *rest)

        calls["program.step"] = step
    return {f"{way} µs": fastest(call) for way, call in calls.items()}


BENCHMARKS: Mapping[str, Benchmark] = {
    "array": Benchmark("one array", lambda: (lambda x: x + 1, (X,))),
    "leaves": Benchmark(
        "a dict of 200 arrays in and out",
        lambda: (lambda p: jax.tree.map(jax.numpy.sin, p), (LEAVES,)),
    ),
    "decode": Benchmark("GPT-2 decode step, 2.1 MB of caches", decode, binds=True),
}

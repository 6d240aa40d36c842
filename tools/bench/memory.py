"""Seconds and memory of a decoder with gigabytes of weights, step by step (Linux only).

*Peak* is the largest resident memory of the process during a step. The runtime maps the file of the
weights; its pages count as resident, although the system can drop them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tools.bench.benchmark import Benchmark
from tools.examples import load

STEPS = ("lower", "translate", "save", "load", "verify")
COLUMNS = tuple(f"{step} {unit}" for step in STEPS for unit in ("s", "peak MB"))
WIDTH, TOKENS, WEIGHTS = 2048, 16, 2_600_000_000


def decoder(captured: bool) -> tuple[Any, Any, np.ndarray]:
    """The function to lower, its weights (None if it closes over them) and its input."""
    example, rng = load("decoder"), np.random.default_rng(0)
    layers: list[Any] = []
    while sum(leaf.nbytes for leaf in jax.tree.leaves(layers)) < WEIGHTS:
        layers.append(example.create_layer(rng, WIDTH, 16, 4, "float32"))
    x = rng.normal(size=(1, TOKENS, WIDTH)).astype(np.float32)
    if captured:
        return lambda x: example.decoder(layers, x), None, x
    return example.decoder, layers, x


def measure(benchmark: Benchmark) -> dict[str, str]:
    """Translates, saves, loads and verifies."""
    import hlo2onnx
    from hlo2onnx.runtime.sessions import OrtProgram

    found: dict[str, str] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the largest resident size
        start = time.perf_counter()
        yield
        found[f"{name} s"] = f"{time.perf_counter() - start:.1f}"
        status = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
        found[f"{name} peak MB"] = f"{int(status.split()[0]) * 1024 / 1e6:,.0f}"

    function, layers, x = benchmark.build()
    with step("lower"):
        lowered = jax.jit(function).lower(*([] if layers is None else [layers]), x)
    with step("translate"):
        program = hlo2onnx.translate(lowered, bind={} if layers is None else {0: layers})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with step("save"):
            program.save(path, external_data=True)
        with step("load"):
            session = OrtProgram(str(path))
    del session
    with step("verify"):
        program.verify(x)
    return found


BENCHMARKS: Mapping[str, Benchmark] = {
    "bound": Benchmark("2.6 GB of bound arguments", partial(decoder, False)),
    "captured": Benchmark("2.6 GB that the function closes over", partial(decoder, True)),
}

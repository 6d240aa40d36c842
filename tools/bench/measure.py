"""Times a program in ONNX Runtime and in XLA."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools.bench.benchmark import Benchmark
from tools.bench.timing import THREADS, Call, medians

ROUNDS = 3
"""How often new sessions are made and timed: now and then the threads of one stay slow."""


def translated(
    lowered: Any, bind: Mapping[int, Any] | None = None
) -> tuple[hlo2onnx.OnnxProgram, float]:
    """The program, and the seconds of its translation."""
    start = time.perf_counter()
    program = hlo2onnx.translate(lowered, bind=bind or ())
    return program, time.perf_counter() - start


def session_call(program: hlo2onnx.OnnxProgram, *args: Any) -> Callable[[], Call]:
    """Makes calls of new sessions, from and to numpy arrays."""
    feeds = to_model(program.input_names, program.flatten(*args))
    model = program.model_proto.SerializeToString()
    return lambda: partial(OrtProgram(model, threads=THREADS).session.run, None, dict(feeds))


def measure(benchmark: Benchmark) -> dict[str, str]:
    """Times our model and XLA."""
    function, args = benchmark.build()
    lowered = jax.jit(function).lower(*args)
    program, seconds = translated(lowered, {0: args[0]} if benchmark.binds else None)
    free = args[1:] if benchmark.binds else args
    new_call = session_call(program, *free)
    compiled, placed = lowered.compile(), jax.device_put(args)
    rounds = [
        medians([new_call(), lambda: jax.block_until_ready(compiled(*placed))], blocks=3)
        for _ in range(ROUNDS)
    ]
    ours, xla = np.transpose(rounds)
    found = program.verify(*free)
    if not found:
        print(found, file=sys.stderr)
    return {
        "ours ms": f"{1e3 * np.median(ours):.3f}",
        "XLA ms": f"{1e3 * np.median(xla):.3f}",
        "ours / XLA": f"{np.median(ours / xla):.2f}",
        "XLA limit": f"{benchmark.goal or ''}",
        "nodes": f"{program.report.nodes.total()}",
        "translation s": f"{seconds:.2f}",
        "max error": f"{found.max_error:.1e}" if found else "DIFFERS",
    }

"""Four dense networks beside their twins: the same architecture written in PyTorch (`tools.twins`),
exported by torch.onnx and run in the same ONNX Runtime. It needs torch and onnxscript."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

from hlo2onnx.runtime.sessions import OrtProgram
from tools import environment
from tools.bench import dense
from tools.bench.benchmark import Benchmark
from tools.bench.measure import ROUNDS, session_call, translated
from tools.bench.timing import THREADS, Call, medians

COLUMNS = ("ours ms", "twin ms", "ours / twin", "limit", "nodes", "twin's")
LIMITS = {"resnet18": 1.05, "gpt2_prefill": 1.05, "gpt2_decode": 1.10, "lstm": 1.10}
"""The ratios that the project wants to keep."""


def measure(benchmark: Benchmark) -> dict[str, str]:
    """Times our model and the twin."""
    (name,) = [name for name, each in BENCHMARKS.items() if each is benchmark]
    function, args = benchmark.build()
    bind = {0: args[0]} if benchmark.binds else None
    program, _ = translated(jax.jit(function).lower(*args), bind)
    ours = session_call(program, *(args[1:] if benchmark.binds else args))
    twin = _exported(name)
    rounds = [medians([ours(), _call(twin)], blocks=3) for _ in range(ROUNDS)]
    mine, theirs = np.transpose(rounds)
    return {
        "ours ms": f"{1e3 * np.median(mine):.3f}",
        "twin ms": f"{1e3 * np.median(theirs):.3f}",
        "ours / twin": f"{np.median(mine / theirs):.2f}",
        "limit": f"{LIMITS[name]}",
        "nodes": f"{program.report.nodes.total()}",
        "twin's": f"{len(onnx.load_from_string(twin).graph.node)}",
    }


def _exported(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tools.twins", folder, name]
        subprocess.run(command, check=True, env=environment(), stdout=sys.stderr)
        return (Path(folder) / f"{name}.onnx").read_bytes()


def _call(model: bytes) -> Call:
    """A call with normal floats, and 1 for every integer, which is an index into something."""
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for value in onnx.load_from_string(model).graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = rng.normal(size=shape) if dtype.kind == "f" else np.ones(shape)
        feeds[value.name] = drawn.astype(dtype)
    return partial(OrtProgram(model, threads=THREADS).session.run, None, feeds)


BENCHMARKS: Mapping[str, Benchmark] = {name: dense.BENCHMARKS[name] for name in LIMITS}

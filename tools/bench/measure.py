"""Times a program in ONNX Runtime, in XLA, and its twin and jax2onnx's model beside them."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import environment
from tools.bench.benchmark import Benchmark
from tools.bench.timing import THREADS, Call, medians

ROUNDS = 3
"""How often new sessions are made and timed: now and then the threads of one stay slow."""


@dataclass(frozen=True)
class Model:
    """A model in ONNX Runtime, and its inputs by name."""

    proto: bytes
    feeds: dict[str, Any]

    @property
    def nodes(self) -> str:
        """How many nodes its graph has."""
        return str(len(onnx.load_from_string(self.proto).graph.node))

    def call(self) -> Call:
        """A call in a new session, from and to numpy arrays."""
        return partial(OrtProgram(self.proto, threads=THREADS).session.run, None, self.feeds)


def measure(name: str, benchmark: Benchmark, given: argparse.Namespace) -> dict[str, str]:
    """Times our model, XLA, and the twin's and jax2onnx's models where they are given."""
    function, args = benchmark.build()
    lowered = jax.jit(function).lower(*args)
    start = time.perf_counter()
    program = hlo2onnx.translate(lowered, bind={0: args[0]} if benchmark.binds else ())
    seconds = time.perf_counter() - start
    free = args[1:] if benchmark.binds else args
    feeds = dict(to_model(program.input_names, program.flatten(*free)))
    models = {"ours": Model(program.model_proto.SerializeToString(), feeds)}
    if given.twins and benchmark.to_twin:
        models["twin"] = _twin(given.twins / f"{name}.onnx")
    if given.peer and (peer := _peer(given.peer, name, jax.tree.leaves(free))):
        models["peer"] = peer
    compiled, placed = lowered.compile(), jax.device_put(args)
    rounds = []
    for _ in range(ROUNDS):
        calls = [model.call() for model in models.values()]
        rounds.append(medians([*calls, lambda: jax.block_until_ready(compiled(*placed))], blocks=3))
    times = dict(zip([*models, "XLA"], np.transpose(rounds), strict=True))

    def ratio(one: str, other: str) -> str:
        both = one in times and other in times
        return f"{np.median(times[one] / times[other]):.2f}" if both else ""

    found = program.verify(*free)
    if not found:
        print(found, file=sys.stderr)
    return {
        "ours ms": f"{1e3 * np.median(times['ours']):.3f}",
        "XLA ms": f"{1e3 * np.median(times['XLA']):.3f}",
        "ours / twin": ratio("ours", "twin"),
        "twin limit": f"{benchmark.to_twin or ''}",
        "ours / XLA": ratio("ours", "XLA"),
        "XLA limit": f"{benchmark.goal or ''}",
        "peer / ours": ratio("peer", "ours") or ("fails" if given.peer else ""),
        "nodes": f"{program.report.nodes.total()}",
        "twin's": models["twin"].nodes if "twin" in models else "",
        "peer's": models["peer"].nodes if "peer" in models else "",
        "translation s": f"{seconds:.2f}",
        "max error": f"{found.max_error:.1e}" if found else "DIFFERS",
    }


def _twin(path: Path) -> Model:
    """The twin, with arguments: normal floats, and 1 for every integer, an index into something."""
    proto = path.read_bytes()
    rng = np.random.default_rng(0)
    feeds = {}
    for value in onnx.load_from_string(proto).graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = rng.normal(size=shape) if dtype.kind == "f" else np.ones(shape)
        feeds[value.name] = drawn.astype(dtype)
    return Model(proto, feeds)


def _peer(python: Path, name: str, leaves: list[Any]) -> Model | None:
    """jax2onnx's model of the program, which takes its arguments in order; None where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        command = [python, "-m", "tools.bench.jax2onnx_export", name, path]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if done.returncode or not path.exists():
            return None
        proto = path.read_bytes()
    inputs = onnx.load_from_string(proto).graph.input
    model = Model(proto, dict(zip([x.name for x in inputs], map(np.asarray, leaves), strict=True)))
    try:
        model.call()()
    except hlo2onnx.VerificationError:
        return None
    return model

"""A row of the table: times of our model, its twin, another converter's model, and XLA."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np
import onnx

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import environment
from tools.bench.limits import PROGRAMS
from tools.bench.operators import operator_table, operators
from tools.bench.timing import THREADS, Call, medians

PEER = "tools.bench.jax2onnx_export"
"""The module that runs where jax2onnx is installed."""

ROUNDS = 3
"""How often new sessions are made and timed: now and then the threads of one stay slow."""

HEADER = """\
| program | ours ms | ours / twin | limit | ours / XLA | limit | peer / ours | nodes | twin's \
| peer's | translation s | max error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True)
class Rivals:
    """Other models to time.

    Attributes:
        twins: Folder that `tools.twins` wrote to; None for none.
        peer: Python interpreter of an environment with jax2onnx; None for none.
        operators: Whether to print the operators' times below each row.
    """

    twins: Path | None = None
    peer: Path | None = None
    operators: bool = False


@dataclass(frozen=True)
class Model:
    """A model, and its inputs by name."""

    proto: bytes
    feeds: Mapping[str, np.ndarray]

    @property
    def nodes(self) -> int:
        """Nodes of its graph."""
        return len(onnx.load_from_string(self.proto).graph.node)


def row(name: str, rivals: Rivals) -> str:
    """Times one program and returns its row, and the operators' times if asked for."""
    program = PROGRAMS[name]
    function, args = program.build()
    jitted = jax.jit(function)
    lowered = jitted.lower(*args)
    start = time.perf_counter()
    translated = hlo2onnx.translate(lowered, bind={0: args[0]} if program.binds else ())
    seconds = time.perf_counter() - start
    free = args[1:] if program.binds else args
    feeds = to_model(translated.input_names, translated.flatten(*free))
    ours = Model(translated.model_proto.SerializeToString(), feeds)
    twin = None if rivals.twins is None or program.to_twin is None else _twin(rivals.twins, name)
    peer = None if rivals.peer is None else _peer(rivals.peer, name, jax.tree.leaves(free))
    timed = [model for model in (ours, twin, peer) if model is not None]
    rounds = []
    for _ in range(ROUNDS):
        runs = [run_of(model) for model in timed]
        rounds.append(medians([lambda: jax.block_until_ready(jitted(*args)), *runs]))
    times = np.array(rounds)

    def ratio(model: Model | None, other: Model | None = None) -> str:
        if model is None:
            return ""
        column = 0 if other is None else 1 + timed.index(other)
        return f"{np.median(times[:, 1 + timed.index(model)] / times[:, column]):.2f}"

    cells = [
        program.title,
        f"{1e3 * np.median(times[:, 1]):.3f}",
        ratio(ours, twin) if twin else "",
        f"{program.to_twin or ''}",
        ratio(ours),
        f"{program.to_xla or ''}",
        ratio(peer, ours) or ("fails" if rivals.peer else ""),
        f"{translated.report.nodes.total()}",
        f"{twin.nodes}" if twin else "",
        f"{peer.nodes}" if peer else "",
        f"{seconds:.2f}",
        f"{translated.verify(*free).max_error:.1e}",
    ]
    text = f"| {' | '.join(cells)} |"
    if rivals.operators:
        beside = operators(twin.proto, twin.feeds) if twin else {}
        text += f"\n\n{operator_table(operators(ours.proto, ours.feeds), beside)}\n"
    return text


def run_of(model: Model) -> Call:
    """A call of the model in ORT, from and to numpy arrays."""
    return partial(OrtProgram(model.proto, threads=THREADS).session.run, None, model.feeds)


def _twin(folder: Path, name: str) -> Model:
    """The twin, with arguments: normal floats, and 1 for every integer, an index into something."""
    proto = (folder / f"{name}.onnx").read_bytes()
    rng = np.random.default_rng(0)
    feeds = {}
    for value in onnx.load_from_string(proto).graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = rng.normal(size=shape) if dtype.kind == "f" else np.ones(shape)
        feeds[value.name] = drawn.astype(dtype)
    return Model(proto, feeds)


def _peer(python: Path, name: str, leaves: list[object]) -> Model | None:
    """jax2onnx's model of the program, which takes its arguments in order; None where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        done = subprocess.run(
            [python, "-m", PEER, name, path], env=environment(), capture_output=True, text=True
        )
        if done.returncode or not path.exists():
            return None
        proto = path.read_bytes()
    inputs = onnx.load_from_string(proto).graph.input
    model = Model(proto, dict(zip([x.name for x in inputs], map(np.asarray, leaves), strict=True)))
    try:
        run_of(model)()
    except hlo2onnx.VerificationError:
        return None
    return model

"""The programs with a limit to keep: of our time to the twin's, or to XLA's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import decoder
import gpt2_decode
import gpt2_prefill
import jax
import lstm
import mlp
import mobilenet
import numpy as np
import onnx
import resnet18
import rk4
import sod
import unet
import vit

import hlo2onnx
from bench_suite import programs
from bench_suite.operators import operator_table, operators
from bench_suite.timing import THREADS, Call, medians
from hlo2onnx.calling import to_model
from hlo2onnx.verification.ort import OrtProgram

GPT2 = {"layers": 6, "width": 384, "heads": 6, "tokens": 128, "vocab": 512}


@dataclass(frozen=True)
class Program:
    """One row of the table."""

    title: str
    build: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    to_twin: float | None = None
    """The largest ratio allowed of our time to the twin's."""
    to_xla: float | None = None
    binds: bool = False
    """Whether the first argument holds parameters, which become part of the model."""


PROGRAMS: Mapping[str, Program] = {
    "resnet18": Program("ResNet-18, NHWC, 224²", partial(resnet18.build, size=224), 1.05),
    "mobilenet": Program("MobileNet-like, swish, 128²", partial(mobilenet.build, size=128), 1.15),
    "vit": Program(
        "ViT-S/16, 6 layers", partial(vit.build, layers=6, width=384, heads=6, size=224), 1.02
    ),
    "gpt2_prefill": Program(
        "GPT-2 prefill, 6 × 384, 128 tokens",
        partial(gpt2_prefill.build, **GPT2),
        1.05,
        binds=True,
    ),
    "gpt2_decode": Program(
        "its decode step with a KV cache", partial(gpt2_decode.build, **GPT2), 1.10, binds=True
    ),
    "decoder": Program(
        "rotary/RMSNorm/GQA/SwiGLU, 4 × 512, 64 tokens",
        partial(decoder.build, layers=4, width=512, tokens=64),
        1.05,
    ),
    "lstm": Program(
        "LSTM, 256 steps, batch 4, width 128",
        partial(lstm.build, steps=256, batch=4, width=128),
        1.10,
        binds=True,
    ),
    "unet": Program("U-Net, 64²", partial(unet.build, size=64), 1.05),
    "mlp": Program(
        "RL policy, MLP 512/256/128", partial(mlp.build, hidden=(512, 256, 128)), to_xla=0.4
    ),
    "rk4": Program("RK4, Lorenz (64, 3), 1,000 steps", partial(rk4.build, steps=1000), to_xla=28),
    "sod": Program(
        "Sod tube, 256 cells, 200 steps", partial(sod.build, frames=1, steps=200), to_xla=8
    ),
    "training_step": Program(
        "CNN training step, 28², batch 32", programs.training_step, to_xla=1.2
    ),
    "draws": Program("20 draws of 8 × 1,000, 64² normals", programs.draws, to_xla=3),
    "search": Program("64 × 512 distances, sorted, summed", programs.search, to_xla=1.2),
}

ROUNDS = 3
"""How often new sessions are made and timed: now and then the threads of one stay slow."""

HEADER = """\
| program | ours ms | ours / twin | limit | ours / XLA | limit | nodes | twin's | translation s \
| max error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def row(name: str, twins: Path | None, with_operators: bool) -> str:
    """Times one program and returns its row, below it the operators' times if these are wanted."""
    program = PROGRAMS[name]
    function, args = program.build()
    lowered = jax.jit(function).lower(*args)
    start = time.perf_counter()
    translated = hlo2onnx.translate(lowered, bind={0: args[0]} if program.binds else ())
    seconds = time.perf_counter() - start
    free = args[1:] if program.binds else args
    model = translated.model_proto.SerializeToString()
    feeds = to_model(translated.input_names, translated.flatten(*free))
    compiled = lowered.compile()
    models = [(model, feeds)]
    path = None if twins is None or program.to_twin is None else twins / f"{name}.onnx"
    if path is not None:
        twin_feeds = inputs_of(path)
        models.append((path.read_bytes(), twin_feeds))
    rounds = []
    for _ in range(ROUNDS):
        runs = [run_of(*item) for item in models]
        rounds.append(medians([lambda: jax.block_until_ready(compiled(*args)), *runs]))
    times = np.array(rounds)
    ours, (to_xla, *_), to_twin = (
        np.median(times[:, 1]),
        np.median(times[:, 1:] / times[:, :1], axis=0),
        np.median(times[:, 1:2] / times[:, 2:], axis=0),
    )
    cells = [
        program.title,
        f"{1e3 * ours:.3f}",
        f"{to_twin[0]:.2f}" if to_twin.size else "",
        f"{program.to_twin or ''}",
        f"{to_xla:.2f}",
        f"{program.to_xla or ''}",
        f"{translated.report.nodes.total()}",
        f"{len(onnx.load(path, load_external_data=False).graph.node)}" if path is not None else "",
        f"{seconds:.2f}",
        f"{translated.verify(*free).max_error:.1e}",
    ]
    text = f"| {' | '.join(cells)} |"
    if with_operators:
        beside = operators(path.read_bytes(), twin_feeds) if path is not None else {}
        text += f"\n\n{operator_table(operators(model, feeds), beside)}\n"
    return text


def run_of(model: bytes, feeds: Mapping[str, np.ndarray]) -> Call:
    """A call of the model in ORT, from and to numpy arrays."""
    return partial(OrtProgram(model, threads=THREADS).session.run, None, feeds)


def inputs_of(path: Path) -> dict[str, np.ndarray]:
    """Arguments for a twin: normal floats, and 1 for every integer, an index into something."""
    rng = np.random.default_rng(0)
    feeds = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = rng.normal(size=shape) if dtype.kind == "f" else np.ones(shape)
        feeds[value.name] = drawn.astype(dtype)
    return feeds

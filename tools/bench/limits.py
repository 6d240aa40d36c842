"""The programs of the table, with limits for the ratio of our time to the twin's or XLA's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tools.bench import programs
from tools.examples import load

GPT2 = {"layers": 6, "width": 384, "heads": 6, "tokens": 128, "vocab": 512}

Build = Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
"""Gives a function and its arguments."""


@dataclass(frozen=True)
class Program:
    """One row of the table."""

    title: str
    build: Build
    to_twin: float | None = None
    """The largest ratio allowed of our time to the twin's."""
    to_xla: float | None = None
    binds: bool = False
    """Whether the first argument holds parameters, which become part of the model."""


def example(name: str, **sizes: Any) -> Build:
    """The program of an example, with these sizes."""
    return partial(load(name).build, **sizes)


PROGRAMS: Mapping[str, Program] = {
    "resnet18": Program("ResNet-18, NHWC, 224²", example("resnet18", size=224), 1.05),
    "mobilenet": Program("MobileNet-like, swish, 128²", example("mobilenet", size=128), 1.15),
    "vit": Program(
        "ViT-S/16, 6 layers", example("vit", layers=6, width=384, heads=6, size=224), 1.02
    ),
    "gpt2_prefill": Program(
        "GPT-2 prefill, 6 × 384, 128 tokens",
        example("gpt2_prefill", **GPT2),
        1.05,
        binds=True,
    ),
    "gpt2_decode": Program(
        "its decode step with a KV cache", example("gpt2_decode", **GPT2), 1.10, binds=True
    ),
    "decoder": Program(
        "rotary/RMSNorm/GQA/SwiGLU, 4 × 512, 64 tokens",
        example("decoder", layers=4, width=512, tokens=64),
        1.05,
    ),
    "lstm": Program(
        "LSTM, 256 steps, batch 4, width 128",
        example("lstm", steps=256, batch=4, width=128),
        1.10,
        binds=True,
    ),
    "unet": Program("U-Net, 64²", example("unet", size=64), 1.05),
    "mlp": Program(
        "RL policy, MLP 512/256/128", example("mlp", hidden=(512, 256, 128)), to_xla=0.4
    ),
    "rk4": Program("RK4, Lorenz (64, 3), 1,000 steps", example("rk4", steps=1000), to_xla=28),
    "sod": Program("Sod tube, 256 cells, 200 steps", example("sod", frames=1, steps=200), to_xla=8),
    "training_step": Program(
        "CNN training step, 28², batch 32", programs.training_step, to_xla=1.2
    ),
    "draws": Program("20 draws of 8 × 1,000, 64² normals", programs.draws, to_xla=3),
    "search": Program("64 × 512 distances, sorted, summed", programs.search, to_xla=1.2),
}

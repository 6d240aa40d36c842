"""The programs whose models are changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import hlo2onnx
from tools import EXAMPLES, example_names
from tools.model_mutation import small

LARGE = frozenset({"resnet18", "mobilenet", "unet", "gpt2_prefill", "gpt2_decode"})
"""Examples that take long. They run only if they are asked for."""

BISECTED = [
    *("mlp", "resnet18", "decoder", "lstm", "switch", "navier_stokes", "train_step"),
    *("small_lower_precision", "small_complex_numbers"),
    *small.BISECTED,
]
"""The programs of `--bisect` by default."""


def names() -> list[str]:
    """The programs of a run by default."""
    examples = [name for name in example_names() if name not in LARGE]
    return [*examples, *sorted(small.PROGRAMS)]


def translated(name: str) -> hlo2onnx.OnnxProgram:
    """A program as a model.

    Raises:
        KeyError: There is no such program.
    """
    if build := {**small.PROGRAMS, **small.BISECTED}.get(name):
        return translated_function(*build())
    path = EXAMPLES / f"{name}.mlir"
    if not path.exists():
        raise KeyError(f"no program {name}")
    return _translated(path)


def translated_function(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> hlo2onnx.OnnxProgram:
    """A JAX function as a model."""
    return _translated(jax.jit(function).lower(*arguments))


def _translated(source: Any) -> hlo2onnx.OnnxProgram:
    program = hlo2onnx.translate(source)
    assert isinstance(program, hlo2onnx.OnnxProgram)
    return program

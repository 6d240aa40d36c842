"""The programs whose models are changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import hlo2onnx
from tools import EXAMPLES, example_names
from tools.model_mutation import small
from tools.zoo import program as zoo

LARGE = frozenset({"resnet18", "mobilenet", "unet", "gpt2_prefill", "gpt2_decode"})
"""Examples that take long. They run only if they are asked for."""


BISECTED = (
    *("mlp", "resnet18", "decoder", "lstm", "switch", "navier_stokes", "train_step"),
    *small.BISECTED,
)
"""The programs of `--bisect` by default."""

GRADIENT, ZOO = "gradient_", "zoo_"
"""Prefixes: the gradient of an example, and a program of the zoo."""


def _examples() -> list[Any]:
    """The examples; they import libraries that the zoo's environments may lack."""
    from tools.examples import load_all

    return list(load_all())


def gradients() -> list[str]:
    """The gradients of the examples."""
    found = [item.name for item in _examples() if item.gradient and item.name not in LARGE]
    return sorted(f"{GRADIENT}{name}" for name in found)


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
    if name.startswith(GRADIENT):
        example = next(x for x in _examples() if x.name == name.removeprefix(GRADIENT))
        with example.types():
            return translated_function(*example.build_gradient(**example.small))
    if name.startswith(ZOO):
        return _of_zoo(name.removeprefix(ZOO))
    path = EXAMPLES / f"{name}.mlir"
    if not path.exists():
        raise KeyError(f"no program {name}")
    program = hlo2onnx.translate(path)
    assert isinstance(program, hlo2onnx.OnnxProgram)
    return program


def translated_function(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> hlo2onnx.OnnxProgram:
    """A JAX function as a model."""
    lower = getattr(function, "lower", None) or jax.jit(function).lower
    program = hlo2onnx.translate(lower(*arguments))
    assert isinstance(program, hlo2onnx.OnnxProgram)
    return program


def _of_zoo(name: str) -> hlo2onnx.OnnxProgram:
    item = zoo.load_all()[name]
    if item.x64:
        jax.config.update("jax_enable_x64", True)
    return translated_function(*item.build())

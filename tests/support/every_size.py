"""One model of a function with free dimensions, compared with XLA at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hlo2onnx
from hlo2onnx import OnnxProgram
from hlo2onnx.ir.dims import evaluate, free_symbols


def every_size(
    function: Callable[..., Any],
    *specs: str,
    sizes: Sequence[int] = (1, 2, 7),
    integers: int = 5,
) -> OnnxProgram:
    """Translates the function for shapes such as "b, 8" or "int32[n]" and verifies the model with
    every symbol at each of the sizes.

    Args:
        integers: Upper bound of random integer arguments.

    Returns:
        The model.
    """
    program = hlo2onnx.translate(function, *specs)
    for size in sizes:
        verification = program.verify(*arguments(program, size, integers))
        assert verification.ok, f"size {size}\n{verification}"
    return program


def arguments(program: OnnxProgram, size: int, integers: int = 5) -> list[np.ndarray]:
    """Random arguments in which every symbol has this size."""
    rng = np.random.default_rng(size)
    made = []
    for value in program.model.graph.inputs:
        sizes = dict.fromkeys(free_symbols(value.shape), size)
        shape = [evaluate(dim, sizes) for dim in value.shape]
        dtype = value.dtype.numpy()
        if np.issubdtype(dtype, np.integer):
            made.append(rng.integers(0, integers, shape).astype(dtype))
        else:
            made.append(rng.standard_normal(shape).astype(dtype))
    return made

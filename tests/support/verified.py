"""JAX functions as models with XLA's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

import hlo2onnx


def verified(function: Callable[..., Any], *args: Any, **options: Any) -> hlo2onnx.OnnxProgram:
    """The translation of a function, verified on these arguments."""
    program = hlo2onnx.translate(jax.jit(function).lower(*args), **options)
    report = program.verify(*args)
    assert report.ok, report
    return program


def nodes(function: Callable[..., Any], *args: Any, **options: Any) -> Counter[str]:
    """The number of nodes of each operator in the verified model, subgraphs included."""
    return verified(function, *args, **options).report.nodes


def operators(function: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """The operators of the verified model, sorted, subgraphs included."""
    return sorted(nodes(function, *args, **options).elements())

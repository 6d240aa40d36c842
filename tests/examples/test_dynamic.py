"""Networks with free dimensions: one model for every batch, sequence and image size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from gallery import Example, load_all
from mostly_wide import mostly_wide

import hlo2onnx
from hlo2onnx import OnnxProgram
from hlo2onnx.ir.dims import evaluate, free_symbols

EXAMPLES = [example for example in load_all() if example.dynamic]
SIZES = (1, 7)

DEPTH = {"decoder": {"layers": 5}, "gpt2_prefill": {"layers": 4}}
"""Sizes for which nodes are counted. Positions, their angles and masks are constants of a static
model; computed, they are 16 and 10 nodes, however many layers read them."""


QUICK = ("gpt2_prefill", "mlp", "mobilenet")


@pytest.fixture(params=mostly_wide(EXAMPLES, QUICK, lambda example: example.name))
def example(request: pytest.FixtureRequest) -> Iterator[Example]:
    with request.param.types():
        yield request.param


def translated(example: Example) -> tuple[OnnxProgram, list[Any]]:
    function, args = example.build(**example.small)
    return hlo2onnx.translate(function, *args, dynamic=example.dynamic), list(args)


def resized(example: Example, program: OnnxProgram, args: list[Any], size: int) -> list[Any]:
    """The arguments with every free dimension of this size."""
    rng = np.random.default_rng(size)
    resized = list(args)
    shapes = {value.name: value.shape for value in program.model.graph.inputs}
    dims = next(tuple(shape) for shape in shapes.values() if not shape.is_static())
    shape = [evaluate(dim, dict.fromkeys(free_symbols(dims), size)) for dim in dims]
    (place,) = example.dynamic
    like = args[int(place)]
    if like.dtype.kind == "i":
        resized[int(place)] = rng.integers(0, 8, shape).astype(like.dtype)
    else:
        resized[int(place)] = rng.standard_normal(shape).astype(like.dtype)
    return resized


@pytest.mark.wide
def test_every_size(example: Example) -> None:
    program, args = translated(example)
    for size in SIZES:
        sized = resized(example, program, args, size)
        verification = program.verify(*sized)
        bound = max(example.tolerance, 2e-6)
        if size == 1:
            # Of a single number, which may be what is left of larger ones, the relative error says
            # little: XLA's may be as large.
            is_right = verification.ok or all(
                item.max_abs <= bound / 10 for item in verification.optimized
            )
        else:
            is_right = verification.ok and verification.max_error <= bound
        assert is_right, f"{size}\n{verification}"


@pytest.mark.wide
def test_a_large_size(example: Example) -> None:
    program, args = translated(example)
    sized = resized(example, program, args, 64)
    assert program.verify(*sized).max_error <= example.tolerance


@pytest.mark.costly
def test_dimensions_stay_free(example: Example) -> None:
    """No output became static, and the model has about as many nodes as a static one."""
    function, args = example.build(**{**example.small, **DEPTH.get(example.name, {})})
    program = hlo2onnx.translate(function, *args, dynamic=example.dynamic)
    static = hlo2onnx.translate(jax.jit(function).lower(*args))
    for value in program.model.graph.outputs:
        assert any(not isinstance(dim, int) for dim in value.shape)
    count, usual = (sum(item.report.nodes.values()) for item in (program, static))
    # With fixed sizes a causal mask is a flag of Attention, with free ones it is computed.
    assert count <= math.ceil((1.2 if example.name == "decoder" else 1.1) * usual)

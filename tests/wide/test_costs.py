"""What takes time in proportion to the work, measured."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram

ROUNDS, REPEATS = 5, 15


def stacking_scan(x: jax.Array) -> Any:
    return lax.scan(lambda c, row: (jnp.tanh(c + row), c * 2), jnp.zeros(x.shape[1:]), x)


def carrying_loop(x: jax.Array) -> Any:
    """What fori_loop writes row by row is a stack, too."""
    return lax.fori_loop(0, x.shape[0], lambda i, y: y.at[i].set(x[i] * 2), jnp.zeros_like(x))


def session(function: Any, x: np.ndarray) -> tuple[OrtProgram, dict[str, np.ndarray]]:
    program = hlo2onnx.translate(jax.jit(function).lower(x))
    feeds = to_model(program.input_names, program.flatten(x))
    return OrtProgram(program.model_proto.SerializeToString(), threads=1), dict(feeds)


@pytest.mark.wide
@pytest.mark.parametrize("function", [stacking_scan, carrying_loop])
def test_four_times_the_trips_take_four_times_as_long(function: Any) -> None:
    """Buffers that each trip copies would make it 16 times. The shortest of many runs counts, and
    the best of a few rounds: other work on the machine only adds to a time. Arrays are small: the
    first use of a page of memory takes time, too."""
    sessions = [session(function, np.ones((n, 24), np.float32)) for n in (1_000, 4_000)]
    ratios = []
    for _ in range(ROUNDS):
        shortest = []
        for program, feeds in sessions:
            times = []
            for _ in range(REPEATS):
                start = time.process_time()
                program(feeds)
                times.append(time.process_time() - start)
            shortest.append(min(times))
        ratios.append(shortest[1] / shortest[0])
    assert min(ratios) <= 8, ratios

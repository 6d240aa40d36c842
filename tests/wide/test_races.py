"""Scatters with many equal indices on several threads, run many times, with every result checked.

ONNX Runtime's ScatterND works on rows in parallel without locks: it loses sums and reorders writes,
unless it has few elements. There is a case for each way in which a scatter is translated.
All numbers are small integers, whose sums are exact in any order, so each run must give XLA's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram

THREADS = (2, 8)
ROWS, UPDATES, WIDTH = 1_000, 200_000, 64
SHORT = 8
"""Elements of a row that is written in order, one after the other."""


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-8, 9, shape).astype(np.float32)


def _indices(count: int, bound: int) -> np.ndarray:
    """Indices of which each occurs often, and some do very often."""
    rng = np.random.default_rng(count)
    common = rng.integers(0, 3, count)
    return np.where(rng.random(count) < 0.1, common, rng.integers(0, bound, count)).astype(np.int32)


def _windows(table: jax.Array, i: jax.Array, updates: jax.Array) -> jax.Array:
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))
    return lax.scatter_add(table, i[:, None], updates, numbers)


def _unlike(table: jax.Array, i: jax.Array, updates: jax.Array) -> jax.Array:
    """The first block of updates goes to one row, and the rest everywhere."""
    return table.at[jnp.where(jnp.arange(i.size) < BLOCK_ROWS, 0, i)].set(updates)


@dataclass(frozen=True)
class Case:
    """A program with its arguments.

    Attributes:
        nodes: Operators that it becomes, which name the way that it shows.
        free: Whether the number of rows is free when it is translated.
    """

    function: Callable[..., jax.Array]
    arguments: Callable[[], Sequence[np.ndarray]]
    nodes: tuple[str, ...] = ("Scan", "ScatterND")
    free: bool = False


def _rows(updates: np.ndarray | None = None) -> Sequence[np.ndarray]:
    """A table, the row for each update, and the updates."""
    updates = _numbers(UPDATES, WIDTH) if updates is None else updates
    return _numbers(ROWS, *updates.shape[1:]), _indices(len(updates), ROWS), updates


def _some_nan() -> np.ndarray:
    updates = _numbers(UPDATES, WIDTH)
    updates[::977, ::7] = np.nan
    return updates


ONE_BLOCK = 1_000
"""Rows of the largest ScatterND that has no Scan around it: 64,000 elements."""
BLOCK_ROWS = 1_000
POINTS = 1_000_000

CASES = {
    "at_set": Case(lambda x, i, u: x.at[i].set(u), _rows, ("ScatterElements",)),
    "at_set_unlike": Case(_unlike, lambda: _rows(_numbers(UPDATES, SHORT)), ("ScatterElements",)),
    "at_add": Case(lambda x, i, u: x.at[i].add(u), _rows),
    "at_max": Case(lambda x, i, u: x.at[i].max(u), lambda: _rows(_some_nan())),
    "at_or": Case(
        lambda x, i, u: x.at[i].max(u),
        lambda: [
            part if part.dtype == np.int32 else part > 7 for part in _rows(_numbers(UPDATES, WIDTH))
        ],
    ),
    "few_rows": Case(
        lambda x, i, u: x.at[i].add(u),
        lambda: _rows(_numbers(ONE_BLOCK, WIDTH)),
        ("ScatterND",),
    ),
    "free_rows": Case(lambda x, i, u: x.at[i].add(u), _rows, ("Loop", "ScatterND"), free=True),
    "windows": Case(
        _windows,
        lambda: (_numbers(ROWS, 8), _indices(UPDATES, ROWS), _numbers(UPDATES, 3, 8)),
    ),
    "points": Case(
        lambda x, i, u: x.at[i, i // 2].add(u),
        lambda: (_numbers(ROWS, ROWS), _indices(POINTS, ROWS), _numbers(POINTS)),
        ("ScatterElements",),
    ),
    "columns": Case(
        lambda x, i, u: x.at[:, i].add(u),
        lambda: (_numbers(8, ROWS), _indices(UPDATES, ROWS), _numbers(8, UPDATES)),
        ("ScatterElements",),
    ),
}


def program_of(case: Case) -> hlo2onnx.OnnxProgram:
    """The program, translated.

    Raises:
        ValueError: It does not become the operators of the case.
    """
    arguments = case.arguments()
    if case.free:
        (n,) = export.symbolic_shape("n")
        table, *others = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments)
        free = [jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype) for x in others]
        program = hlo2onnx.translate(export.export(jax.jit(case.function))(table, *free))
    else:
        program = hlo2onnx.translate(jax.jit(case.function).lower(*arguments))
    if missing := [node for node in case.nodes if not program.report.nodes[node]]:
        raise ValueError(f"the model has no {', '.join(missing)}")
    return program


@pytest.mark.wide
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", THREADS)
def test_every_run_gives_the_bits_of_xla(name: str, threads: int) -> None:
    case = CASES[name]
    arguments, program = case.arguments(), program_of(case)
    session = OrtProgram(program.model_proto.SerializeToString(), threads=threads)
    feeds = to_model(program.input_names, program.flatten(*arguments))
    expected = np.asarray(jax.jit(case.function)(*arguments))
    for _ in range(20 // threads):
        np.testing.assert_array_equal(session(feeds)[0], expected)

"""Runs scatters with many equal indices on two threads, many times, and checks every result.

    python -m tools.races                          50 runs of each
    python -m tools.races segment_sum --runs 500   one of them, more often

ONNX Runtime's ScatterND works on rows in parallel without locks: it loses sums and reorders writes.
All numbers are small integers, whose sums are exact in any order, so each run must give XLA's bits.
The output is the number of wrong runs, the median time, and its ratio to XLA's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram

THREADS = 2
BLOCK = 5
PAUSE_SECONDS = 0.06
"""Before a block of runs: the threads of an idle session spin for a while."""

ROWS, UPDATES, WIDTH = 1_000, 200_000, 64
WORDS, TOKENS = 5_000, 32_768


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-8, 9, shape).astype(np.float32)


def _indices(count: int, bound: int) -> np.ndarray:
    """Indices of which each occurs often, and some do very often."""
    rng = np.random.default_rng(count)
    common = rng.integers(0, 3, count)
    return np.where(rng.random(count) < 0.1, common, rng.integers(0, bound, count)).astype(np.int32)


def _segment_sum(x: jax.Array, i: jax.Array) -> jax.Array:
    return jax.ops.segment_sum(x, i, ROWS)


def _embedding_gradient(words: jax.Array, tokens: jax.Array, upstream: jax.Array) -> jax.Array:
    return jax.grad(lambda table: (table[tokens] * upstream).sum())(words)


@dataclass(frozen=True)
class Case:
    """A program with its arguments."""

    function: Callable[..., jax.Array]
    arguments: Callable[[], Sequence[np.ndarray]]


CASES = {
    "segment_sum": Case(_segment_sum, lambda: (_numbers(UPDATES, WIDTH), _indices(UPDATES, ROWS))),
    "at_set": Case(
        lambda x, i, u: x.at[i].set(u),
        lambda: (_numbers(ROWS, WIDTH), _indices(UPDATES, ROWS), _numbers(UPDATES, WIDTH)),
    ),
    "at_add": Case(
        lambda x, i, u: x.at[i].add(u),
        lambda: (_numbers(ROWS, WIDTH), _indices(UPDATES, ROWS), _numbers(UPDATES, WIDTH)),
    ),
    "embedding_gradient": Case(
        _embedding_gradient,
        lambda: (_numbers(WORDS, WIDTH), _indices(TOKENS, WORDS), _numbers(TOKENS, WIDTH)),
    ),
}


@dataclass(frozen=True)
class Row:
    """What was found: runs whose results were not XLA's, and median seconds of a run."""

    name: str
    runs: int
    wrong: int
    ort: float
    xla: float

    def __str__(self) -> str:
        return (
            f"| {self.name} | {self.runs} | {self.wrong} | {1e3 * self.ort:.1f} |"
            f" {1e3 * self.xla:.1f} | {self.ort / self.xla:.1f} |"
        )


HEADER = """\
| program | runs | wrong | ORT ms | XLA ms | ORT / XLA |
| --- | --- | --- | --- | --- | --- |"""


def measure(name: str, runs: int) -> Row:
    """Runs a case so often in both runtimes, in alternating blocks."""
    case = CASES[name]
    arguments = case.arguments()
    lowered = jax.jit(case.function).lower(*arguments)
    program = hlo2onnx.translate(lowered)
    session = OrtProgram(program.model_proto.SerializeToString(), threads=THREADS)
    feeds = to_model(program.input_names, program.flatten(*arguments))
    compiled, on_device = lowered.compile(), list(map(jnp.asarray, arguments))

    def in_xla() -> np.ndarray:
        return np.asarray(jax.block_until_ready(compiled(*on_device)))

    def in_ort() -> np.ndarray:
        (result,) = session(feeds)
        return result

    expected, wrong = in_xla(), 0
    times: dict[Callable[[], Any], list[float]] = {in_ort: [], in_xla: []}
    for first in range(0, runs, BLOCK):
        for call, found in times.items():
            time.sleep(PAUSE_SECONDS)
            for _ in range(min(BLOCK, runs - first)):
                start = time.perf_counter()
                result = call()
                found.append(time.perf_counter() - start)
                wrong += not np.array_equal(result, expected)
    return Row(name, runs, wrong, *(float(np.median(found)) for found in times.values()))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.races", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="of each; 50")
    given = parser.parse_args()
    print(HEADER)
    wrong = 0
    for name in given.cases or CASES:
        row = measure(name, given.runs)
        print(row, flush=True)
        wrong += row.wrong
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

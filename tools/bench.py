"""Times the examples in ONNX Runtime and in XLA on the CPU, as ratios within one run.

    python tools/bench.py                          every example, f32
    python tools/bench.py vit gpt2_prefill         some of them
    python tools/bench.py vit --dtype bfloat16     in another float type, beside f32

The two runtimes take turns in blocks of calls with a pause before each: the threads of an idle
session spin for a while and steal a core from what runs next. Figures are medians. XLA's own time
moves by tens of percent between runs, so that only ratios of one run can be compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "examples")]

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, load_all

import hlo2onnx
from hlo2onnx.calling import to_model
from hlo2onnx.verification.ort import OrtProgram

THREADS = 2
PAUSE_SECONDS = 0.06
BLOCKS = 7
BLOCK_SECONDS = 0.25

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured of one program: median seconds of a call, and facts of its model."""

    name: str
    ort: float
    xla: float
    nodes: int
    casts: int
    translation: float
    error: float

    def __str__(self) -> str:
        return (
            f"| {self.name} | {1e3 * self.ort:.2f} | {1e3 * self.xla:.2f} |"
            f" {self.ort / self.xla:.2f} | {self.nodes} | {self.casts} |"
            f" {self.translation:.2f} | {self.error:.1e} |"
        )


HEADER = """\
| program | ORT ms | XLA ms | ORT / XLA | nodes | casts | translation s | max error |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def medians(calls: Sequence[Call]) -> list[float]:
    """Median seconds of each call, timed in alternating blocks."""
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(int(BLOCK_SECONDS / max(time.perf_counter() - start, 1e-6)), 3))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(BLOCKS):
        for call, count, found in zip(calls, counts, times, strict=True):
            time.sleep(PAUSE_SECONDS)
            for _ in range(count):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
    return [float(np.median(found)) for found in times]


def _xla_call(compiled: Callable[..., object], args: Sequence[object]) -> object:
    return jax.block_until_ready(compiled(*args))


def measure(examples: Sequence[tuple[Example, str]]) -> list[Row]:
    """Times the examples in these float types, all of one name together."""
    rows, calls = [], []
    for example, dtype in examples:
        with example.types():
            function, args = example.build(**({"dtype": jnp.dtype(dtype)} if dtype else {}))
            lowered = jax.jit(function).lower(*args)
            start = time.perf_counter()
            program = hlo2onnx.translate(lowered)
            seconds = time.perf_counter() - start
            compiled = lowered.compile()
            session = OrtProgram(program.model_proto.SerializeToString(), threads=THREADS)
            feeds = to_model(program.input_names, program.flatten(*args))
            error = program.verify(*args).max_error
        calls.append(partial(session, feeds))
        calls.append(partial(_xla_call, compiled, args))
        nodes = program.report.nodes
        name = f"{example.name} {dtype}".strip()
        rows.append((name, nodes.total(), nodes["Cast"], seconds, error))
    found = medians(calls)
    return [
        Row(name, found[2 * i], found[2 * i + 1], nodes, casts, seconds, error)
        for i, (name, nodes, casts, seconds, error) in enumerate(rows)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("examples", nargs="*", help="names; default: all")
    parser.add_argument("--dtype", help="float type to time beside float32: bfloat16, float16")
    given = parser.parse_args()
    known = {example.name: example for example in load_all()}
    if unknown := set(given.examples) - set(known):
        parser.error(f"no example named {', '.join(sorted(unknown))}: {', '.join(known)}")
    print(HEADER)
    for name in given.examples or known:
        dtypes = ["float32", given.dtype] if given.dtype else [""]
        rows = measure([(known[name], dtype) for dtype in dtypes])
        for row in rows:
            print(row, flush=True)
        if given.dtype:
            print(f"{name}: {given.dtype} / float32 in ORT {rows[1].ort / rows[0].ort:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

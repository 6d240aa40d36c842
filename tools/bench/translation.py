"""Seconds of a translation: chains of many ops, real programs, and the first call.

Seconds are those of the processor, the least of three translations in one process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tools import environment
from tools.bench.benchmark import Benchmark
from tools.zoo.program import lowered

STAGES = ("normalize", "lower", "raise", "legalize")
COLUMNS = ("ops", "nodes", "seconds", "per 10,000 ops", *STAGES)
FIGURE = "seconds"
REPEATS = 3
FIRST_CALL = """\
import time, jax
lowered = jax.jit(lambda x: x + 1).lower(1.0)
start = time.perf_counter()
import hlo2onnx
hlo2onnx.translate(lowered)
print(time.perf_counter() - start)
"""


def chain(ops: int) -> Any:
    """A lowered program of this many elementwise ops."""

    def repeated(x: Any) -> Any:
        for index in range(ops // 2):
            x = jnp.sin(x) * (1 + 1 / (index + 2))
        return x

    return jax.jit(repeated).lower(jnp.ones(8))


def measure(name: str, benchmark: Benchmark, given: argparse.Namespace) -> dict[str, str]:
    """Translates a program several times, or imports hlo2onnx and translates one op."""
    if name == "first_call":
        command = [sys.executable, "-c", FIRST_CALL]
        runs = [
            subprocess.check_output(command, text=True, env=environment()) for _ in range(REPEATS)
        ]
        return {"seconds": f"{min(map(float, runs)):.2f}"}
    import hlo2onnx

    program = benchmark.build()
    hlo2onnx.translate(chain(2))  # which imports what the first one needs
    found = []
    for _ in range(REPEATS if benchmark.zoo else 1):
        start = time.process_time()
        report = hlo2onnx.translate(program).report
        found.append((time.process_time() - start, report))
    seconds, report = min(found, key=lambda item: item[0])
    ops = report.ops.total()
    return {
        "ops": f"{ops:,}",
        "nodes": f"{report.nodes.total():,}",
        "seconds": f"{seconds:.2f}",
        "per 10,000 ops": f"{1e4 * seconds / ops:.2f}",
        **{stage: f"{report.seconds[stage]:.2f}" for stage in STAGES},
    }


PROGRAMS = (
    "mjx_contacts",
    "brax_hopper_positional",
    "numpyro_nuts",
    "gymnax_asterix",
    "keras_hub_gemma",
)
BENCHMARKS: Mapping[str, Benchmark] = {
    "first_call": Benchmark("import and one op, after JAX's import", dict),
    **{
        f"chain_{ops}": Benchmark(f"a chain of {ops:,} ops", partial(chain, ops))
        for ops in (1_000, 10_000, 100_000)
    },
    **{name: Benchmark(name, partial(lowered, name), zoo=name) for name in PROGRAMS},
}

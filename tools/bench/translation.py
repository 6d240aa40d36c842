"""Times translations: real programs of the zoo, chains of many ops, and the first call.

    python -m tools.bench.translation                      chains, and the first call
    python -m tools.bench.translation --envs DIR           and programs of the zoo
    python -m tools.bench.translation --envs DIR NAME ...  these programs

Seconds are those of the processor, the least of three translations in one process. DIR holds the
environments that `python -m tools.zoo --make-env DIR` makes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools import environment
from tools.zoo.environments import environment_of
from tools.zoo.program import load_all

PROGRAMS = (
    "mjx_contacts",
    "brax_hopper_positional",
    "numpyro_nuts",
    "gymnax_asterix",
    "keras_hub_gemma",
)
CHAINS = (1_000, 10_000, 100_000)
REPEATS = 3
HEADER = """\
| program | ops | nodes | seconds | per 10,000 ops | normalize | lower | raise | legalize |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
STAGES = ("normalize", "lower", "raise", "legalize")
FIRST_CALL = """\
import time
import jax
lowered = jax.jit(lambda x: x + 1).lower(1.0)
start = time.perf_counter()
import hlo2onnx
hlo2onnx.translate(lowered)
print(time.perf_counter() - start)
"""


def chain(ops: int) -> Any:
    """A lowered program of this many elementwise ops."""
    import jax
    import jax.numpy as jnp

    def repeated(x: Any) -> Any:
        for index in range(ops // 2):
            x = jnp.sin(x) * (1 + 1 / (index + 2))
        return x

    return jax.jit(repeated).lower(jnp.ones(8))


def of_zoo(name: str) -> Any:
    """A lowered program of the zoo; its package must be installed."""
    import jax

    item = load_all()[name]
    jax.config.update("jax_enable_x64", item.x64)
    function, args = item.build()
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    return jitted.lower(*args)


def row(name: str) -> str:
    """Translates a program several times."""
    import hlo2onnx

    lowered = chain(int(name)) if name.isdigit() else of_zoo(name)
    hlo2onnx.translate(chain(2))  # which imports what the first one needs
    times, programs = [], []
    for _ in range(1 if name.isdigit() else REPEATS):
        start = time.process_time()
        programs.append(hlo2onnx.translate(lowered))
        times.append(time.process_time() - start)
    seconds, report = min(times), programs[times.index(min(times))].report
    ops = report.ops.total()
    cells = [
        f"a chain of {ops:,} ops" if name.isdigit() else name,
        f"{ops:,}",
        f"{report.nodes.total():,}",
        f"{seconds:.2f}",
        f"{1e4 * seconds / ops:.2f}",
        *(f"{report.seconds[stage]:.2f}" for stage in STAGES),
    ]
    return f"| {' | '.join(cells)} |"


def first_call() -> float:
    """Seconds of the import and of a first small translation, after JAX's; the least of three."""
    command = [sys.executable, "-c", FIRST_CALL]
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
        for _ in range(REPEATS)
    ]
    return min(float(run.stdout) for run in runs)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.translation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("programs", nargs="*", help=f"default: {', '.join(PROGRAMS)}")
    parser.add_argument("--envs", type=Path, metavar="DIR", help="environments of the zoo")
    parser.add_argument("--row", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.row:
        print(row(given.row), flush=True)
        return 0
    print(HEADER, flush=True)
    pythons = {str(ops): Path(sys.executable) for ops in CHAINS}
    if given.envs:
        for name in given.programs or PROGRAMS:
            folder = given.envs / environment_of(load_all()[name]).name
            pythons[name] = folder / "bin" / "python"
    failed = False
    for name, python in pythons.items():
        command = [python, "-m", "tools.bench.translation", "--row", name]
        variables = environment(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=variables)
        failed |= done.returncode != 0
        print(done.stdout.strip().rpartition("\n")[2] or f"| {name} | fails |", flush=True)
    print(f"\nImport and first translation after JAX's import: {first_call():.2f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

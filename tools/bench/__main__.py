"""Times programs in ONNX Runtime and in XLA on the CPU, as ratios within one run.

    python -m tools.bench                          every example, f32
    python -m tools.bench vit gpt2_prefill         some of them
    python -m tools.bench vit --dtype bfloat16     in another float type, beside f32
    python -m tools.bench --table --twins DIR      the programs that have a limit to keep
    python -m tools.bench --table --twins DIR --peer PYTHON       jax2onnx beside them
    python -m tools.bench --table unet --operators --twins DIR    and where their time goes
    python -m tools.bench --table --twins DIR --write             into docs/speed.md

The runtimes take turns in blocks of calls. A pause comes before each block, because the threads of
an idle session spin for a while and take a core from the next one. Figures are medians. XLA's time
varies by tens of percent between runs, so compare only ratios of one run. For dense programs a twin
is the better measure: `tools.twins` exports the same architecture from PyTorch, and it runs in the
same runtime. The peer is jax2onnx's model; `--peer` names the Python that has jax2onnx. Each
program of the table runs in its own process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import ROOT
from tools.bench.limits import PROGRAMS
from tools.bench.page import write_section
from tools.bench.table import HEADER as TABLE_HEADER
from tools.bench.table import Rivals, row
from tools.bench.timing import THREADS, medians
from tools.examples import Example, load_all

PAGE = ROOT / "docs" / "speed.md"


@dataclass(frozen=True)
class Row:
    """Measurements of one program: median seconds of a call, and facts of its model."""

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


def _xla_call(compiled: Callable[..., object], args: Sequence[object]) -> object:
    return jax.block_until_ready(compiled(*args))


def measure(examples: Sequence[tuple[Example, str]]) -> list[Row]:
    """Times examples in float types; the calls take turns."""
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


def table(names: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Prints the table's rows, each made by a process of its own; None if one of these fails."""
    print(TABLE_HEADER, flush=True)
    lines = [TABLE_HEADER]
    command = [sys.executable, "-m", "tools.bench", "--row"]
    for name in names:
        done = subprocess.run([*command, name, *arguments], stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="", flush=True)
        lines.append(done.stdout.rstrip("\n") if done.returncode == 0 else "")
    return "\n".join(lines) + "\n" if all(lines) else None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="examples or programs; default: all")
    parser.add_argument("--dtype", help="float type to time beside float32: bfloat16, float16")
    parser.add_argument("--table", action="store_true", help="the programs with a limit to keep")
    parser.add_argument("--twins", type=Path, metavar="DIR", help="where tools.twins wrote")
    parser.add_argument(
        "--operators", action="store_true", help="the table with each operator's time"
    )
    parser.add_argument(
        "--peer", type=Path, metavar="PYTHON", help="interpreter of an environment with jax2onnx"
    )
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    parser.add_argument("--row", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(row(given.row, Rivals(given.twins, given.peer, given.operators)), flush=True)
        return 0
    known = PROGRAMS if given.table else {example.name: example for example in load_all()}
    if unknown := set(given.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    names = given.names or list(known)
    if given.table:
        paths = {"twins": given.twins, "peer": given.peer}
        rivals = [f"--{name}={path}" for name, path in paths.items() if path]
        rows = table(names, rivals + ["--operators"] * given.operators)
        if given.write and rows is not None:
            write_section(PAGE, rows)
        return int(rows is None)
    print(HEADER)
    for name in names:
        dtypes = ["float32", given.dtype] if given.dtype else [""]
        rows = measure([(known[name], dtype) for dtype in dtypes])
        for found in rows:
            print(found, flush=True)
        if given.dtype:
            print(f"{name}: {given.dtype} / float32 in ORT {rows[1].ort / rows[0].ort:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

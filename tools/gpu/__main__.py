"""Measures models on a GPU: right or wrong, times beside JAX on the same GPU, and single kernels.

    python -m tools.gpu --out DIR              on a machine with CUDA; results in DIR/results.json
    python -m tools.gpu --out DIR --write      ... and writes docs/gpu.md from them
    python -m tools.gpu --write                only the page: what is missing is "not measured"
    python -m tools.gpu --out DIR --provider CPUExecutionProvider     tries the tool without a GPU

It needs no network: carry along the wheels of onnxruntime-gpu, its CUDA libraries, jax[cuda12] and
this checkout. The results are written after each item, and what does not fit into --minutes is left
out. TensorRT is measured if its libraries are there. The exit code is 1 if an output is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import onnxruntime as ort

import hlo2onnx
from hlo2onnx.report import to_json
from hlo2onnx.runtime.adapters.installed import KINDS, Name
from hlo2onnx.targets import load_target
from tools import EXAMPLES, ROOT, command_line, example_names, write_page
from tools.conformance.outcome import one_line
from tools.gpu.page import RESULTS, page, read
from tools.gpu.timed import PROGRAMS, TYPES, times_of
from tools.probe import table as kernel_table
from tools.probe.__main__ import TABLES, known_table
from tools.probe.environments import start
from tools.probe.prober import Prober, find_limits, operators

CUDA = "CUDAExecutionProvider"
OPTIONS: Mapping[str, Mapping[str, Any]] = {CUDA: {"use_tf32": 0}}
"""Options with which f32 products have the digits of f32."""
SHARES = {"examples": 0.4, "times": 0.75, "kernels": 1.0}
"""The part of the time that has passed when each stage ends at the latest."""


class Measurement:
    """Results that are kept in a file.

    Attributes:
        found: Results by stage, and then by item.
    """

    def __init__(self, folder: Path, minutes: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.found = folder / RESULTS, read(folder)
        self.start, self.seconds = time.monotonic(), 60 * minutes

    def stage(self, name: str, items: Iterable[tuple[str, Callable[[], Any]]]) -> None:
        """Measures items until the time of the stage is over. One that fails keeps its error."""
        found = self.found.setdefault(name, {})
        for title, measure in items:
            if time.monotonic() - self.start > self.seconds * SHARES[name]:
                print(f"{name}: out of time at {title}", file=sys.stderr)
                return
            try:
                found[title] = measure()
            except Exception as error:  # noqa: BLE001 - the next item may run
                found[title] = {"error": one_line(f"{type(error).__name__}: {error}", 300)}
            print(name, title, found[title], flush=True)
            self.path.write_text(to_json(self.found), encoding="utf-8")


def machine() -> dict[str, str]:
    """The device and the versions."""
    import jax

    names, device = ("onnxruntime", "jax", "hlo2onnx"), jax.devices()[0]
    versions = {name: sys.modules[name].__version__ for name in names}
    return {"device": device.device_kind, **versions, "date": time.strftime("%Y-%m-%d")}


def kinds_of(provider: str) -> list[str]:
    """The runtimes to measure: that of a provider, and beside CUDA that of TensorRT."""
    kinds = [name for name, kind in KINDS.items() if kind.provider == provider]
    if provider == CUDA and KINDS["ort-tensorrt"].provider in ort.get_available_providers():
        kinds.append("ort-tensorrt")
    return kinds


def providers_of(kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The execution providers of a runtime, and those of its fallbacks."""
    target, found = load_target(kind), []
    while target is not None:
        name = KINDS[target.name].provider
        found.append((name, OPTIONS.get(name, {})))
        target = target.fallback  # type: ignore[assignment]
    return found


def example(name: str, kind: str) -> dict[str, Any]:
    """Whether an example is right, its largest error, and how many nodes the CPU runs."""
    program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir", target=kind)
    program.providers = providers_of(kind)
    found, on_cpu = program.verify(samples=2), program.report.fallback.total()
    return {"right": found.ok, "max error": float(found.max_error), "on the CPU": on_cpu}


def kernels(kind: str, names: Sequence[str]) -> Iterable[tuple[str, Callable[[], Any]]]:
    """For each operator: what its kernels do that the table of the target does not say."""
    runtime, table = start(Name.parsed(kind)), known_table(TABLES / f"{kind}.json")
    limits = find_limits(runtime)
    opsets = frozenset({load_target(kind).default_opset})

    def probed(op_type: str) -> dict[str, Any]:
        prober = Prober(runtime, limits, opsets, frozenset(kernel_table.DTYPES), by_version=True)
        prober.probe(op_type)
        facts = {**prober.found[kernel_table.OPS], **prober.found[kernel_table.PAIRS]}
        unlike = kernel_table.differences(prober.found, facts, opsets, table)
        return {"right": sum(map(len, facts.values())), "unlike the table": unlike}

    with runtime:
        for op_type in names or operators(opsets):
            yield op_type, partial(probed, op_type)


def measure(given: argparse.Namespace) -> bool:
    """Measures everything, and says whether nothing is wrong."""
    work, kinds = Measurement(given.out, given.minutes), kinds_of(given.provider)
    work.found["machine"] = machine()
    pairs = product(kinds, given.programs or example_names())
    work.stage("examples", ((f"{k} {n}", partial(example, n, k)) for k, n in pairs))
    triples = product(TYPES, kinds, given.timed or PROGRAMS)
    calls = ((f"{k} {n} {t}", partial(times_of, n, t, k, providers_of(k))) for t, k, n in triples)
    work.stage("times", calls)
    work.stage("kernels", kernels(kinds[0], given.ops.split(",") if given.ops else []))
    return all(each.get("right", True) for each in work.found["examples"].values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = command_line("gpu", __doc__)
    add = parser.add_argument
    add("programs", nargs="*", help="examples to verify; default: all")
    add("--out", type=Path, help="folder of the results")
    add("--provider", default=CUDA, help="execution provider of ONNX Runtime")
    add("--minutes", type=float, default=25, help="time for everything")
    add("--timed", nargs="*", help=f"programs to time; default: {' '.join(PROGRAMS)}")
    add("--ops", help="operators whose kernels are probed, separated by commas; default: all")
    add("--write", action="store_true", help="write docs/gpu.md")
    given = parser.parse_args(argv)
    if not (given.out or given.write):
        parser.error("give --out DIR, --write, or both")
    if given.out and given.provider not in ort.get_available_providers():
        parser.error(f"this ONNX Runtime has no {given.provider}; install onnxruntime-gpu")
    is_right = measure(given) if given.out else True
    if given.write:
        write_page(ROOT / "docs" / "gpu.md", page(read(given.out)))
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())

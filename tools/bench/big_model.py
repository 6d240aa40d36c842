"""Translates, saves, loads and verifies a decoder with gigabytes of weights, watching memory.

    python -m tools.bench.big_model                        2.6 GB of f32 weights as bound arguments
    python -m tools.bench.big_model --captured             as arrays that the function closes over
    python -m tools.bench.big_model --megabytes 300        less of them

Each line gives the seconds of a step, the peak of resident memory during it, and the resident
memory after it. The runtime maps the weights file. Its pages count as resident, although the system
can drop them. The last line is the limit: translating and saving N bytes of weights takes at most
1.2 N + 500 MB beyond JAX's own memory. The exit code is 1 if it takes more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.sessions import OrtProgram
from tools.examples import load

MB = 1_000_000
TOKENS = 16
SLACK = 500 * MB
SHARE = 1.2

EXAMPLE = load("decoder")


@dataclass
class Steps:
    """Times steps and watches the memory of this process; Linux only."""

    peaks: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Within the block everything is one step of this name."""
        Path("/proc/self/clear_refs").write_text("5")  # forgets the largest resident size
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self.peaks[name], self.after[name] = _kilobytes("VmHWM"), _kilobytes("VmRSS")
        peak, now = self.peaks[name] / MB, self.after[name] / MB
        print(f"{name:<24} {seconds:7.1f} s   peak {peak:7.0f} MB   then {now:7.0f} MB", flush=True)


def _kilobytes(key: str) -> int:
    """A figure of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.big_model", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--megabytes", type=int, default=2600, help="of weights (2600)")
    parser.add_argument("--width", type=int, default=2048, help="of the decoder (2048)")
    parser.add_argument("--captured", action="store_true", help="the function closes over them")
    parser.add_argument("--dtype", default="float32", help="of the weights (float32)")
    parser.add_argument("--one-file", action="store_true", help="save without external data")
    parser.add_argument("--xla", action="store_true", help="also compile and run it in JAX")
    parser.add_argument("--no-verify", action="store_true", help="stop once the model is saved")
    given = parser.parse_args()

    steps = Steps()
    with steps("weights in JAX"):
        rng = np.random.default_rng(0)
        layers, size = [], 0
        while size < given.megabytes * MB:
            layers.append(EXAMPLE.create_layer(rng, given.width, 16, 4, given.dtype))
            size = sum(leaf.nbytes for leaf in jax.tree.leaves(layers))
        x = rng.normal(size=(1, TOKENS, given.width)).astype(jnp.dtype(given.dtype))
    print(f"{len(layers)} layers of width {given.width}, {size / MB:.0f} MB of weights")
    with steps("jax: lower"):
        if given.captured:
            lowered = jax.jit(lambda x: EXAMPLE.decoder(layers, x)).lower(x)
        else:
            lowered = jax.jit(EXAMPLE.decoder).lower(layers, x)
    with steps("hlo2onnx: translate"):
        bind = {} if given.captured else {"layers": layers}
        program = hlo2onnx.translate(lowered, bind=bind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with steps("hlo2onnx: save"):
            program.save(path, external_data=not given.one_file)
        sizes = [item.stat().st_size / MB for item in sorted(path.parent.iterdir())]
        files = " + ".join(f"{size:.1f}" for size in sizes)
        print(f"{program.report.nodes.total()} nodes; files of {files} MB")
        if not given.no_verify:
            _run(steps, program, path, x)
    if given.xla:
        with steps("jax: compile"):
            compiled = lowered.compile()
        with steps("jax: run"):
            jax.block_until_ready(compiled(x) if given.captured else compiled(layers, x))
    own = max(steps.peaks[f"hlo2onnx: {name}"] for name in ("translate", "save"))
    own -= steps.after["jax: lower"]
    allowed = SHARE * size + SLACK
    print(f"translate and save: {own / MB:.0f} MB beyond JAX's; allowed are {allowed / MB:.0f} MB")
    return int(own > allowed)


def _run(steps: Steps, program: hlo2onnx.OnnxProgram, path: Path, x: np.ndarray) -> None:
    with steps("onnxruntime: load"):
        session = OrtProgram(str(path))
    with steps("onnxruntime: run"):
        session({"x": x})
    del session
    with steps("hlo2onnx: verify"):
        verification = program.verify(x)
    print(verification)


if __name__ == "__main__":
    sys.exit(main())

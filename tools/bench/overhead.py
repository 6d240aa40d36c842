"""Times what a call of a program takes beside `session.run`.

    python -m tools.bench.overhead

Each figure is the median of the fastest calls of some rounds, in microseconds: other work on the
machine makes calls slower, and none makes them faster. The last line times `import
hlo2onnx.runtime` in processes that have imported numpy and ONNX Runtime.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hlo2onnx
import hlo2onnx.runtime

ROUNDS = 7
SECONDS = 0.05
X = np.ones((4, 3), np.float32)
LEAVES = {f"k{index}": np.ones(3, np.float32) for index in range(200)}

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "static": (lambda x: x + 1, (X,), {}),
    "symbolic": (lambda x, y: x + y, (X, X), {"dynamic": "b, ..."}),
    "200 leaves": (lambda p: {name: leaf + 1 for name, leaf in p.items()}, (LEAVES,), {}),
}

IMPORT = """
import numpy, onnxruntime, time
start = time.perf_counter()
import hlo2onnx.runtime
hlo2onnx.runtime.load
print(time.perf_counter() - start)
"""


def fastest(call: Callable[[], object]) -> float:
    """Microseconds of a call: the median of the minima of rounds."""
    call()
    minima = []
    for _ in range(ROUNDS):
        times = []
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        minima.append(min(times))
    return statistics.median(minima) * 1e6


def main() -> int:
    """Prints a row for each case and kind of program."""
    print(f"{'case':12}{'program':18}{'run':>8}{'call':>8}{'above':>8}")
    for name, (function, args, options) in CASES.items():
        program = hlo2onnx.translate(function, *args, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            program.save(path)
            light = hlo2onnx.runtime.load(path)
        for kind, item in (("OnnxProgram", program), ("hlo2onnx.runtime", light)):
            runtime = item._runtime
            feeds = dict(zip(runtime.input_names, item.flatten(*args), strict=True))
            run = fastest(partial(runtime.session.run, runtime.output_names, feeds))
            call = fastest(partial(item, *args))
            print(f"{name:12}{kind:18}{run:8.1f}{call:8.1f}{call - run:8.1f}")
    command = [sys.executable, "-c", IMPORT]
    seconds = [float(subprocess.check_output(command, text=True)) for _ in range(ROUNDS)]
    print(f"import hlo2onnx.runtime: {statistics.median(seconds):.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

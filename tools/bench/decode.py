"""Times GPT-2 decode steps: `program.step`, the plain call, and XLA, as ratios within one run.

    python -m tools.bench.decode                                  a small model, 256 tokens of cache
    python -m tools.bench.decode --layers 12 --width 768 --heads 12 --tokens 1024 --vocab 50257

The caches are donated: XLA and `program.step` update them in place. The plain call takes and
returns numpy arrays. The three take turns (see `tools.bench`). Each runtime uses its default
threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import hlo2onnx
from tools.bench.timing import medians
from tools.examples import load


def repeated(step: Callable[..., tuple[Any, Any]], caches: Any, *rest: Any) -> Callable[[], object]:
    """A call that decodes one more token, from the caches of the call before."""
    state = [caches]

    def call() -> object:
        logits, state[0] = step(state[0], *rest)
        return logits

    return call


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.decode", description=(__doc__ or "").partition("\n")[0]
    )
    sizes = {"layers": 4, "width": 256, "heads": 4, "tokens": 256, "vocab": 1024, "batch": 1}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    function, (params, caches, token, position) = load("gpt2_decode").build(**vars(given))
    lowered = jax.jit(function, donate_argnums=1).lower(params, caches, token, position)
    program = hlo2onnx.translate(lowered, bind={"params": params})
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(caches))
    print(f"{len(jax.tree.leaves(caches))} caches, {held / 1e6:.1f} MB; {program.report.nodes}")

    start = jax.tree.map(np.asarray, caches)
    logits, after = program.step(start, token, position)
    want, caches_after = program(start, token, position)
    np.testing.assert_array_equal(logits, want)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(caches_after), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)

    xla = repeated(partial(lowered.compile(), params), caches, token, position)
    calls = {
        "program.step": repeated(program.step, start, token, position),
        "program(...)": repeated(program, start, token, position),
        "XLA": lambda: jax.block_until_ready(xla()),
    }
    found = dict(zip(calls, medians(list(calls.values())), strict=True))
    print("| decode step | ms | step / this |\n| --- | --- | --- |")
    for name, seconds in found.items():
        print(f"| {name} | {1e3 * seconds:.2f} | {found['program.step'] / seconds:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

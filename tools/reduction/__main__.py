"""Plants failures and reduces programs of examples/mlir that meet them.

    python -m tools.reduction [NUMBER ...]

Prints a table: the program, the failure, ops before and after, tests, seconds, and the failure that
was kept. Exits with 1 if a reduced program has more than 10 ops, or is another when it is reduced
again with --twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

from hlo2onnx.reduction.reduce import Reduction, reduce
from tools import ROOT
from tools.reduction.plants import planted

MOST_OPS = 10


class Failure(NamedTuple):
    """A program, a kind of `PLANTS`, and the op or operator that it is planted into."""

    program: str
    kind: str
    op: str
    most: int = MOST_OPS
    """Ops that may be left: more than 10 where a rule looks for more."""


FAILURES = (
    Failure("vit", "missing", "stablehlo.exponential"),
    Failure("char_rnn", "raises", "stablehlo.tanh"),
    Failure("unet", "raises", "stablehlo.reduce_window"),
    Failure("vit", "wrong rule", "Gelu.approximate"),
    Failure("decoder", "wrong rule", "Softmax.axis", 13),
    Failure("decoder", "negates", "stablehlo.sine"),
    Failure("gru", "aborts", "stablehlo.tanh"),
    Failure("resnet18", "aborts in runtime", "Relu"),
    Failure("navier_stokes", "aborts in runtime", "Scan"),
    Failure("switch", "swaps", "stablehlo.subtract"),
    Failure("switch", "raises", "stablehlo.reverse"),
    Failure("beam_search", "without kernel", "TopK"),
    Failure("kalman", "swaps", "stablehlo.subtract"),
    Failure("gaussian_process", "wrong type", "stablehlo.sqrt"),
    Failure("train_step", "missing", "stablehlo.select_and_scatter"),
    Failure("resnet18", "negates", "stablehlo.rsqrt"),
    Failure("vae", "negates", "stablehlo.xor"),
    Failure("diffusion", "hangs", "stablehlo.minimum"),
    Failure("gpt2_decode", "negates", "stablehlo.tanh"),
    Failure("sod", "swaps", "stablehlo.divide"),
    Failure("nested_scans", "invalid node", "stablehlo.tanh"),
    Failure("vit", "wrong rule", "LayerNormalization.epsilon", 22),
)


def reduced(failure: Failure) -> Reduction:
    """The reduction of a program with a planted failure."""
    with planted(failure.kind, failure.op):
        path = ROOT / "examples" / "mlir" / f"{failure.program}.mlir"
        return reduce(path, timeout=5 if failure.kind == "hangs" else 60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="rows of the table; default: all")
    parser.add_argument("--twice", action="store_true", help="reduce again and compare")
    parser.add_argument("--show", action="store_true", help="print the reduced programs")
    arguments = parser.parse_args()
    failed = 0
    print("| # | program | planted | ops | after | tests | s | kept |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for number in arguments.numbers or range(1, len(FAILURES) + 1):
        failure = FAILURES[number - 1]
        start = time.perf_counter()
        found = reduced(failure)
        seconds = time.perf_counter() - start
        cells = [
            f"{number} | {failure.program} | {failure.kind} {failure.op}",
            f"{found.ops_before} | {found.ops_after} | {found.tests} | {seconds:.0f}",
            found.failure.replace("|", "/")[:100],
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        if arguments.show:
            print(found.text)
        failed += found.ops_after > failure.most
        if arguments.twice and reduced(failure).text != found.text:
            print(f"{number}: another program at the second time")
            failed += 1
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

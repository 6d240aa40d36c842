"""How much of a profile has a scope, and whether repeated profiles name the same operators.

    python -m tools.bench.profiles vit decoder navier_stokes rk4 unet

For each program of examples/mlir: the part of the time without a scope, the operators that come
first in four profiles, and how many different sets of five come first.
"""

from __future__ import annotations

import sys

import hlo2onnx
from hlo2onnx.runtime.profiling.results import UNKNOWN
from tools import EXAMPLES

REPETITIONS = 4
TOP = 5


def main(names: list[str]) -> None:
    print(f"{'program':16} {'no scope':>8}  {'sets of 5':>9}  first")
    for name in names:
        program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
        profiles = [program.profile() for _ in range(REPETITIONS)]
        unknown = max(
            sum(share.part for share in each.scopes if share.name == UNKNOWN) for each in profiles
        )
        tops = [[share.name for share in each.operators[:TOP]] for each in profiles]
        sets = len({frozenset(top) for top in tops})
        first = ", ".join(sorted({top[0] for top in tops}))
        print(f"{name:16} {100 * unknown:6.1f} %  {sets:9}  {first}")


if __name__ == "__main__":
    main(sys.argv[1:])

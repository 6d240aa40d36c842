"""Plants faults in translated models, and counts those that a bisection names.

    python -m tools.planted                  all programs, 6 faults each
    python -m tools.planted newton -n 20     one program, 20 faults

A fault counts if a verification finds it. It is named if the changed node is among the nodes of the
op that the bisection names.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from tools.planted.programs import NAMES
from tools.planted.trial import Outcome, tried


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_IT_IS)
    arguments.add_argument("programs", nargs="*", default=NAMES, metavar="PROGRAM")
    arguments.add_argument("-n", type=int, default=6, metavar="N", help="faults per program")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    start, found = time.perf_counter(), list[Outcome]()
    for name in options.programs:
        for outcome in tried(name, options.n, options.seed):
            found.append(outcome)
            print(outcome, flush=True)
    named = sum(outcome.is_named for outcome in found)
    shares = [outcome.seconds / outcome.verification for outcome in found]
    sizes = [outcome.nodes for outcome in found if outcome.is_named]
    print(
        f"{named} of {len(found)} faults named; nodes of the named op: median"
        f" {statistics.median(sizes or [0])}, most {max(sizes, default=0)}; processor time:"
        f" {statistics.median(shares):.1f} verifications, at most {max(shares):.1f};"
        f" {time.perf_counter() - start:.0f} s"
    )
    return 0 if named >= 0.95 * len(found) else 1


_AS_IT_IS = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())

"""Runs random StableHLO programs in XLA and, translated, in ONNX Runtime, and compares.

    python -m tools.fuzzing --count 2000                  seeds 0 to 1999
    python -m tools.fuzzing --count 2000 --seed 50000     ... from 50000 on
    python -m tools.fuzzing --replay 1234                 one seed (or several): text and values
    python -m tools.fuzzing --family loops                another kind of programs

Odd seeds make long programs whose numbers are exact in every op, so XLA and ONNX Runtime must agree
to the last bit. Even seeds make short programs of special values. Of a failing program what
computes one wrong output is shown. Exit code: 0 if nothing failed, 1 otherwise, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed

from tools import command_line
from tools.conformance.outcome import Outcome, one_line
from tools.conformance.pool import Pool
from tools.fuzzing.generate import FAMILIES, case_name

COMMAND = (sys.executable, "-m", "tools.fuzzing.check")
BATCH = 100


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    pool = Pool(options.jobs, options.timeout, command=COMMAND)
    start = time.monotonic()
    try:
        outcomes = _run(pool, options)
    finally:
        pool.close()
    _report(outcomes, time.monotonic() - start, bool(options.replay))
    return int(any(outcome.failed for outcome in outcomes))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("fuzzing", __doc__)
    add = parser.add_argument
    add("--family", choices=FAMILIES, default="mixed", help="what the programs consist of")
    add("--count", type=int, default=500, metavar="N", help="programs (500)")
    add("--seed", type=int, default=0, metavar="S", help="the first seed")
    add("--jobs", type=int, default=2, metavar="N", help="worker processes")
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds for a program")
    add("--replay", type=int, nargs="+", metavar="SEED", help="run these, verbosely")
    return parser.parse_args(argv)


def _run(pool: Pool, options: argparse.Namespace) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for seeds in _batches(options):
        futures = pool.submit([case_name(options.family, seed) for seed in seeds])
        found = [judged(pool, future.result()) for future in as_completed(futures)]
        outcomes += found
        for outcome in found:
            if outcome.failed:
                print(f"{outcome.name} {outcome.line}", file=sys.stderr)
        failed = sum(outcome.failed for outcome in outcomes)
        print(f"{len(outcomes)} programs, {failed} fail", file=sys.stderr)
    return sorted(outcomes, key=lambda outcome: int(outcome.name.rpartition("/")[2]))


def judged(pool: Pool, outcome: Outcome) -> Outcome:
    """The outcome, or "skipped" if XLA crashed (for example, it divides zero by zero at compile
    time).
    """
    if outcome.status not in ("crash", "timeout"):
        return outcome
    (future,) = pool.submit([outcome.name], {"xla": True})
    if future.result().status == outcome.status:
        return Outcome(outcome.name, "skipped", f"XLA's own {outcome.status}")
    return outcome


def _batches(options: argparse.Namespace) -> Iterator[Sequence[int]]:
    seeds = options.replay or range(options.seed, options.seed + options.count)
    for first in range(0, len(seeds), BATCH):
        yield seeds[first : first + BATCH]


def _report(outcomes: Sequence[Outcome], seconds: float, verbose: bool) -> None:
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{len(outcomes)} programs in {seconds:.0f} s: {len(outcomes) / seconds:.1f} a second")
    print(", ".join(f"{status} {count}" for status, count in counts.most_common()))
    for reason, count in Counter(o.reason for o in outcomes if o.status == "skipped").most_common():
        print(f"XLA does not take {count}: {one_line(reason, 160)}")
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.failed:
            groups[f"{outcome.status}: {outcome.reason.partition(':')[0]}"].append(outcome)
    for kind, group in sorted(groups.items()):
        names = " ".join(outcome.name for outcome in group[:8])
        print(f"\n== {kind}   {len(group)} times, {names}")
        for outcome in group if verbose else group[:1]:
            print(f"{outcome.reason}\n{outcome.detail}")


if __name__ == "__main__":
    sys.exit(main())

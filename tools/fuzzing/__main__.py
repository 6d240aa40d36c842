"""Runs random StableHLO programs in XLA and, translated, in ONNX Runtime, and compares.

    python -m tools.fuzzing --count 2000                  seeds 0 to 1999
    python -m tools.fuzzing --count 2000 --seed 50000     ... from 50000 on
    python -m tools.fuzzing --minutes 10                  as many as fit
    python -m tools.fuzzing --replay 1234                 one seed (or several): text and values
    python -m tools.fuzzing --family loops                another kind of programs

Odd seeds make long programs whose numbers are exact in every op, so XLA and ONNX Runtime must agree
to the last bit. Even seeds make short programs of special values. A failing program is reduced to
the steps that fail. Exit code: 0 if nothing failed, 1 otherwise, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.conformance.outcome import Outcome, one_line
from tools.conformance.pool import Pool
from tools.fuzzing.generate import FAMILIES, case_name
from tools.fuzzing.limits import known_limit
from tools.fuzzing.reducing import reduced

COMMAND = (sys.executable, "-m", "tools.fuzzing.worker")
BATCH = 100
REDUCED_PER_KIND = 3
"""Failures of one status and first reason that are cut down; the others are listed only."""


@dataclass(frozen=True)
class Failure:
    """A failing program, reduced.

    Attributes:
        name: Its family and seed.
        ops: The ops that are left.
    """

    name: str
    status: str
    ops: str
    reason: str
    detail: str


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    pool = Pool(options.jobs, options.timeout, command=COMMAND)
    start = time.monotonic()
    try:
        outcomes = _run(pool, options)
        seconds = time.monotonic() - start
        failures = find_failures(pool, outcomes)
    finally:
        pool.close()
    _report(outcomes, failures, seconds, bool(options.replay))
    if options.json:
        options.json.write_text(json.dumps([asdict(failure) for failure in failures], indent=1))
    return int(bool(failures))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzzing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--family", choices=FAMILIES, default="mixed", help="what the programs consist of")
    add("--count", type=int, metavar="N", help="programs; 500 unless --minutes says otherwise")
    add("--seed", type=int, default=0, metavar="S", help="the first seed")
    add("--minutes", type=float, metavar="M", help="run for so long")
    add("--jobs", type=int, default=2, metavar="N", help="worker processes")
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds for a program")
    add("--replay", type=int, nargs="+", metavar="SEED", help="run these, verbosely")
    add("--json", type=Path, metavar="FILE", help="write all failures")
    return parser.parse_args(argv)


def _run(pool: Pool, options: argparse.Namespace) -> list[Outcome]:
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    count = options.count or (500 if end is None else None)
    outcomes: list[Outcome] = []
    for seeds in _batches(options, count):
        futures = pool.submit([case_name(options.family, seed) for seed in seeds])
        found = [judged(pool, future.result()) for future in as_completed(futures)]
        outcomes += found
        for outcome in found:
            if outcome.failed and not known_limit(outcome):
                print(f"{outcome.name} {outcome.line}", file=sys.stderr)
        failed = sum(outcome.failed for outcome in outcomes)
        print(f"{len(outcomes)} programs, {failed} fail", file=sys.stderr)
        if end is not None and time.monotonic() > end:
            break
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


def _batches(options: argparse.Namespace, count: int | None) -> Iterator[list[int]]:
    if options.replay:
        yield options.replay
        return
    for first in itertools.count(options.seed, BATCH):
        last = first + BATCH if count is None else min(first + BATCH, options.seed + count)
        if first >= last:
            return
        yield list(range(first, last))


def find_failures(pool: Pool, outcomes: Sequence[Outcome]) -> list[Failure]:
    """The failures that are not known limits; the first few of each kind are reduced."""
    seen: Counter[tuple[str, str]] = Counter()
    failures = []
    for outcome in outcomes:
        if not outcome.failed or known_limit(outcome):
            continue
        kind = outcome.status, outcome.reason.partition(":")[0]
        seen[kind] += 1
        ops, found = "", outcome
        if seen[kind] <= REDUCED_PER_KIND and outcome.status != "timeout":
            found, ops = reduced(pool, outcome)
        failures.append(
            Failure(found.name, found.status, ops or kind[1], found.reason, found.detail)
        )
    return failures


def _report(
    outcomes: Sequence[Outcome], failures: Sequence[Failure], seconds: float, verbose: bool
) -> None:
    counts = Counter(outcome.status for outcome in outcomes)
    print(f"{len(outcomes)} programs in {seconds:.0f} s: {len(outcomes) / seconds:.1f} a second")
    print(", ".join(f"{status} {count}" for status, count in counts.most_common()))
    limits = Counter(filter(None, map(known_limit, outcomes)))
    for reason, count in limits.most_common():
        print(f"known limit, {count} programs: {reason}")
    for reason, count in Counter(o.reason for o in outcomes if o.status == "skipped").most_common():
        print(f"XLA does not take {count}: {one_line(reason, 160)}")
    if verbose:
        for failure in failures:
            print(f"\n{failure.name} {failure.status} {failure.reason}\n{failure.detail}")
        return
    groups: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[failure.status, failure.ops].append(failure)
    for (status, ops), group in sorted(groups.items()):
        names = " ".join(failure.name for failure in group[:8])
        print(f"\n== {status}: {ops}   {len(group)} times, {names}")
        print(f"{group[0].reason}\n{group[0].detail}")


if __name__ == "__main__":
    sys.exit(main())

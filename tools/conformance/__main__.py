"""Runs JAX's own test harnesses through hlo2onnx and ONNX Runtime, and compares with XLA.

    python -m tools.conformance --groups 'reduce_*,dot_general'
    python -m tools.conformance --every 20                  a sample
    python -m tools.conformance --symbolic                  with symbolic leading dimensions
    python -m tools.conformance --case NAME                 one case, with traceback or values
    python -m tools.conformance --every 3 --runtime ort-web@1.30 --json FILE     in another runtime
    python -m tools.conformance --known tests/conformance/known_failures.txt

Each case runs in a worker process with a time limit, so a crash of the runtime costs one case. Exit
code: 0 if no case failed (with --known: exactly the listed cases failed), 1 otherwise, 2 for wrong
usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from tools import command_line, words
from tools.conformance.known import judge, read_known, side_of, vanished
from tools.conformance.outcome import STATUSES, Case, Outcome
from tools.conformance.pool import Pool, list_cases
from tools.conformance.sets import chosen


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    every_case, version = list_cases()
    cases = _chosen(options, every_case)
    if not cases:
        print("no case fits", file=sys.stderr)
        return 2
    print(f"{len(cases)} of {len(every_case)} cases of JAX {version}", file=sys.stderr)
    start = time.monotonic()
    outcomes = _run(cases, options)
    print(f"{time.monotonic() - start:.0f} s with {options.jobs} workers", file=sys.stderr)
    _report(cases, outcomes, options)
    if options.json:
        rows = [{**asdict(case), **asdict(outcomes[case.name])} for case in cases]
        options.json.write_text(
            json.dumps({"jax": version, "runtime": options.runtime, "cases": rows}, indent=1)
        )
    found, names = [outcomes[case.name] for case in cases], [case.name for case in every_case]
    side = side_of(version)
    if options.known is None:
        return int(any(outcome.failed for outcome in found))
    reasons = read_known(options.known, side)
    problems = judge(reasons, found)
    problems += [f"no such case in {side}  {name}" for name in vanished(reasons, names)]
    print("\n".join(["", *problems]) if problems else "\nnothing but the known failures")
    return int(bool(problems))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("conformance", __doc__)
    add = parser.add_argument
    add("--groups", type=words, default=("*",), help="comma-separated patterns of group names")
    add("--every", type=int, default=1, metavar="K", help="each K-th case of each group only")
    add("--case", metavar="NAME", help="one case (or an fnmatch pattern), verbosely")
    add("--runtime", default="", metavar="NAME[=TARGET]", help="as for tools.probe")
    add("--symbolic", action="store_true", help="make leading dimensions symbolic where JAX can")
    add("--jobs", type=int, default=2, metavar="N", help="worker processes")
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds for a case")
    add("--json", type=Path, metavar="FILE", help="write all outcomes")
    add("--known", type=Path, metavar="FILE", help="known failures: fail on any change")
    return parser.parse_args(argv)


def _chosen(options: argparse.Namespace, cases: Sequence[Case]) -> list[Case]:
    if options.case:
        return [c for c in cases if c.name == options.case or fnmatchcase(c.name, options.case)]
    return chosen(cases, options.groups, options.every)


def _run(cases: Sequence[Case], options: argparse.Namespace) -> dict[str, Outcome]:
    pool = Pool(options.jobs, options.timeout)
    try:
        request = {"symbolic": options.symbolic, "runtime": options.runtime}
        futures = pool.submit([case.name for case in cases], request)
        outcomes: dict[str, Outcome] = {}
        passed = 0
        for future in as_completed(futures):
            outcome = future.result()
            outcomes[outcome.name] = outcome
            passed += outcome.status == "pass"
            if sys.stderr.isatty() or len(outcomes) % 250 == 0:
                progress = f"\r{len(outcomes)}/{len(cases)}, {passed} pass"
                print(progress, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)
        return outcomes
    finally:
        pool.close()


def _report(
    cases: Sequence[Case], outcomes: dict[str, Outcome], options: argparse.Namespace
) -> None:
    found = [outcomes[case.name] for case in cases]
    if options.case:
        for outcome in found:
            print(f"{outcome.name}\n{outcome.line}\n{outcome.detail}")
        return
    print(by_group(cases, outcomes))
    if any(outcome.failed for outcome in found):
        print(f"\n{failures(found)}")


def by_group(cases: Sequence[Case], outcomes: Mapping[str, Outcome]) -> str:
    """One row per group: passed, total, rate, and what the others are."""
    groups: dict[str, list[Outcome]] = {}
    for case in cases:
        groups.setdefault(case.group, []).append(outcomes[case.name])
    width = max(map(len, ["all", *groups])) + 2
    lines = [f"{'group':<{width}} {'pass':>5} {'total':>5} {'rate':>7}"]
    lines += [_row(group, found, width) for group, found in sorted(groups.items())]
    lines.append(_row("all", [outcomes[case.name] for case in cases], width))
    return "\n".join(lines)


def _row(name: str, outcomes: Sequence[Outcome], width: int) -> str:
    counts = Counter(outcome.status for outcome in outcomes)
    total = sum(outcome.counts for outcome in outcomes)
    rate = f"{100 * counts['pass'] / total:6.1f}%" if total else f"{'-':>7}"
    others = [f"{counts[status]} {status}" for status in STATUSES if counts[status]]
    rest = ", ".join(other for other in others if not other.endswith(" pass"))
    return f"{name:<{width}} {counts['pass']:>5} {total:>5} {rate}  {rest}".rstrip()


def failures(outcomes: Sequence[Outcome]) -> str:
    """Two lines per failing case: name and reason."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    return "\n".join(f"{outcome.name}\n    {outcome.line}" for outcome in failed)


if __name__ == "__main__":
    sys.exit(main())

"""Runs JAX's harnesses in other runtimes, and compares the outputs with XLA's.

    python -m tools.portability.harnesses --every 3 --results FILE
    python -m tools.portability.harnesses --runtimes ort-web@1.30 --groups 'sort,top_k' ...

Results are added to the file case by case; cases in it do not run again, unless `--again` names
verdicts. `python -m tools.portability --write --results FILE --harnesses FILE` puts the figures
into docs/portability.md. A case that no result can decide, because the program permits several, is
right: see tests/conformance/known_failures.txt.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from tools import ROOT, words
from tools.conformance.known import KnownFailures, side_of
from tools.conformance.outcome import Outcome
from tools.conformance.pool import Pool, list_cases
from tools.conformance.sets import Selection
from tools.portability.run import REFUSED, RIGHT, WRONG
from tools.probe.environments import CACHE

RUNTIMES: Mapping[str, str] = {"ort-web@1.30": "ort-web", "openvino@2026.4.1": "openvino"}
"""Runtimes, and the targets that models for them are made for."""

KNOWN = ROOT / "tests" / "conformance" / "known_failures.txt"
FAILED = "failed"
VERDICTS = (RIGHT, REFUSED, FAILED, WRONG)
"""A case that the translation refuses names the operator; one that fails has an error of the
runtime, or of hlo2onnx."""
SECONDS = 150.0
"""Time for a case: the runtime may start twice in it."""


@dataclass(frozen=True)
class Found:
    """What became of a harness in a runtime.

    Attributes:
        runtime: Such as "ort-web@1.30".
        name: The harness.
        group: Its group.
        verdict: One of `VERDICTS`.
        why: The reason, where it is not right.
    """

    runtime: str
    name: str
    group: str
    verdict: str
    why: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    given = _options(argv)
    wanted = dict(item.partition("=")[::2] for item in given.runtimes or RUNTIMES)
    cases, version = list_cases()
    chosen = Selection(groups=given.groups, every=given.every).of(cases)
    print(f"{len(chosen)} of {len(cases)} harnesses of JAX {version}", flush=True)
    for runtime, target in wanted.items():
        known = read(given.results)
        done = {item.name for item in known if item.runtime == runtime} - {
            item.name for item in known if item.verdict in given.again
        }
        groups = {case.name: case.group for case in chosen if case.name not in done}
        options = {
            "runtime": runtime,
            "target": target or runtime.partition("@")[0],
            "environments": str(given.environments),
        }
        known_failures = KnownFailures.read(KNOWN).reasons[side_of(version)]
        _run(groups, options, given, known_failures)
    print(summary(read(given.results)))
    return 0


def _run(
    groups: Mapping[str, str],
    options: Mapping[str, str],
    given: argparse.Namespace,
    known: Mapping[str, str],
) -> None:
    """Runs cases, and adds each to the results. A process that ends costs one case."""
    pool = Pool(given.jobs, SECONDS, recycle=250)
    try:
        with given.results.open("a", encoding="utf-8") as file:
            for future in as_completed(pool.submit(list(groups), options)):
                outcome = future.result()
                if outcome.counts and outcome.status != "jax-error":
                    item = found_in(outcome, options["runtime"], groups[outcome.name], known)
                    file.write(json.dumps(asdict(item)) + "\n")
                    file.flush()
    finally:
        pool.close()


def found_in(outcome: Outcome, runtime: str, group: str, known: Mapping[str, str]) -> Found:
    """What an outcome says about a runtime.

    Args:
        known: Cases that the program does not decide, with the reasons.
    """
    if outcome.status == "mismatch" and outcome.name in known:
        return Found(runtime, outcome.name, group, RIGHT, known[outcome.name])
    by_status = {"pass": RIGHT, "refused": REFUSED, "mismatch": WRONG}
    verdict = by_status.get(outcome.status, FAILED)
    why = outcome.reason if verdict in by_status.values() else outcome.line
    return Found(runtime, outcome.name, group, verdict, why)


def read(path: Path) -> list[Found]:
    """The results of a file; of a case that ran twice the last one."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [Found(**json.loads(line)) for line in lines]
    return list({(item.runtime, item.name): item for item in found}.values())


def summary(found: Iterable[Found]) -> str:
    """A line for each runtime, and one for each case that is wrong or fails."""
    found = list(found)
    lines = []
    for runtime in dict.fromkeys(item.runtime for item in found):
        counts = Counter(item.verdict for item in found if item.runtime == runtime)
        cells = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
        lines.append(f"{runtime}: {cells}, of {counts.total()}")
        lines += [
            f"  {item.verdict}  {item.name}  {item.why}"
            for item in sorted(found, key=lambda item: (item.verdict, item.group, item.name))
            if item.runtime == runtime and item.verdict in (WRONG, FAILED)
        ]
    return "\n".join(lines)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.portability.harnesses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--runtimes", nargs="*", help=f"default: {', '.join(RUNTIMES)}")
    add("--environments", type=Path, default=CACHE, help="where to make them (%(default)s)")
    add("--results", type=Path, required=True, metavar="FILE", help="one line of JSON a case")
    add("--groups", type=words, default=("*",), help="comma-separated fnmatch patterns")
    add("--every", type=int, default=3, metavar="K", help="each K-th case of each group only")
    add("--again", type=words, default=(), help="verdicts that run again, such as wrong,failed")
    add("--jobs", type=int, default=2, metavar="N", help="worker processes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

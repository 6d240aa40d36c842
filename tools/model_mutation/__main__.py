"""Changes translated models, and says what share of the changes `verify()` catches.

    python -m tools.model_mutation --models kalman 'small_*' --count 40
    python -m tools.model_mutation --write                    ... and docs/verification_score.md

A mutant is a translated model with one change: a constant changed, operands swapped, an attribute
flipped, a guard bypassed, an operand rewired, a comparison, a branch or a loop changed. A mutant is
distinguishable if an input of a large adversarial search gives other results than the unchanged
model, beyond the tolerance of `verify`. Each program runs in a child process.

`tools.mutation` is another tool: it changes the source code of hlo2onnx, and runs the tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase

from tools import ROOT, command_line, write_page
from tools.conformance.pool import WorkerDied, WorkerHangs
from tools.model_mutation import programs
from tools.model_mutation.results import Result, described, page, share, table
from tools.model_mutation.run import results


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("model_mutation", __doc__)
    add_option = parser.add_argument
    add_option("--models", nargs="*", default=[], help="names or patterns of programs")
    add_option("--count", type=int, default=40, help="valid mutants of each program (40)")
    add_option("--seed", type=int, default=0, help="which sample, and which search")
    add_option("--write", action="store_true", help="write docs/verification_score.md")
    return parser.parse_args(argv)


def _chosen(given: argparse.Namespace) -> list[str]:
    if not given.models:
        return programs.names()
    known = [*programs.names(), *sorted(programs.LARGE)]
    return [name for name in known if any(fnmatchcase(name, item) for item in given.models)]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool. The exit code is 1 if a mutant survived."""
    given = _options(argv)
    found = _found(given, _chosen(given))
    survivors = [result for result in found if result.status == "survived"]
    print("\n".join(described(result) for result in survivors))
    print(table(found, "operator", "operator"))
    print(table(found, "model", "program"))
    print(f"{len(found)} mutants, {share(found):.1f} % of the distinguishable ones caught")
    if given.write:
        write_page(ROOT / "docs" / "verification_score.md", page(found, given))
    return int(bool(survivors))


def _found(given: argparse.Namespace, chosen: Sequence[str]) -> list[Result]:
    found: list[Result] = []
    for name in chosen:
        try:
            mine = list(results(name, given.count, given.seed))
        except (WorkerDied, WorkerHangs) as end:
            print(f"{name} does not run: {end}", file=sys.stderr)
            continue
        print(f"{name}: {share(mine):.1f} % of {len(mine)}", flush=True)
        found += mine
    return found


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing of hlo2onnx and its handlers; it needs Python 3.12 and a checkout.

    python -m tools.mutation --record                  record which tests run which lines, first
    python -m tools.mutation --count 400 --seed 1      400 mutants of all files
    python -m tools.mutation --path hlo2onnx/targets/table.py        all mutants of a file
    python -m tools.mutation --path dialect_handlers --count 50
    python -m tools.mutation --report --write          print verdicts, write docs/mutation.md

A mutant is a single change: a comparison off by one, a guard (`need`, `if`) dropped or forced, a
condition negated or dropped, `and` and `or` swapped, operands or neighbours in a list swapped, a
constant or an operator changed, min and max swapped. Texts, annotations, assertions, errors and
limits of cost (NAME = number) stay. Each mutant runs in a forked process on the tests that executed
its lines when they were recorded, until one fails or the time is over. A seed chooses the
same mutants every time, and a larger count contains the smaller ones, so that two runs compare.

Records and verdicts are kept in a cache outside of the repository. A run leaves out mutants that
have a verdict; `--cache` names another cache. Record again after changes: lines have moved. Enter a
mutant that behaves like the original in tools/mutation/equivalent.json, with the reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tools import ROOT, command_line, write_page
from tools.mutation.generate import mutants_of, sample
from tools.mutation.mutant import Mutant
from tools.mutation.project import SURVIVED, Equivalents, Project, Verdict, Verdicts
from tools.mutation.running import Selection, judge, preload, record


def arguments() -> argparse.Namespace:
    parser = command_line("mutation", __doc__)
    add = parser.add_argument
    add("--path", action="append", default=[], help="only this file or folder (may be repeated)")
    add("--count", type=int, help="mutants to sample; default: all")
    add("--seed", type=int, default=0, help="which sample")
    add("--limit", type=float, default=60.0, help="seconds per mutant (60)")
    add("--record", nargs="*", metavar="TESTS", help="record these, or all tests, and end")
    add("--report", action="store_true", help="run nothing")
    add("--write", action="store_true", help="write docs/mutation.md")
    cache = Path.home() / ".cache" / "hlo2onnx-mutation"
    add("--cache", type=Path, default=cache, help=f"default: {cache}")
    add("--root", type=Path, default=ROOT, help="another repository (with --package)")
    add("--package", action="append", default=[], help="a package of that repository to mutate")
    return parser.parse_args()


def selected(project: Project, args: argparse.Namespace) -> list[Mutant]:
    """The mutants of the chosen files."""
    found: list[Mutant] = []
    for file in project.files():
        if not args.path or any(f"{file}/".startswith(f"{p.rstrip('/')}/") for p in args.path):
            found += mutants_of(file, project.text(file))
    return sample(found, args.count, args.seed)


def describe(mutant: Mutant, verdict: Verdict, text: str) -> str:
    """A survivor: where it is, what the verdict is, and the change."""
    place = f"{mutant.file}:{mutant.line} {mutant.function}: {mutant.operator}"
    return f"\n{place} ({verdict.kind}, {verdict.ran} tests)\n{mutant.diff(text)}"


def table(groups: dict[str, Counter[str]]) -> str:
    """One row for each group and one for all, as Markdown."""
    total: Counter[str] = sum(groups.values(), Counter())
    lines = ["| | Run | Killed | Equivalent | Survived | Share |", "|---" * 6 + "|"]
    for name, counts in [*sorted(groups.items()), ("all", total)]:
        killed, survived = counts["killed"], counts["survived"]
        share = f"{killed / (killed + survived):.1%}" if killed + survived else ""
        figures = (counts.total(), killed, counts["equivalent"], survived, share)
        lines.append(f"| {name} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines) + "\n"


def report(
    mutants: Sequence[Mutant], verdicts: Verdicts, equivalents: Equivalents
) -> tuple[str, str]:
    """The figures by folder and by file, of the mutants that ran or are known to be equivalent."""
    by_folder: dict[str, Counter[str]] = defaultdict(Counter)
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        verdict = verdicts.get(mutant)
        kind = "survived" if verdict and verdict.kind in SURVIVED else "killed" if verdict else ""
        if kind != "killed" and equivalents.reason(mutant) is not None:
            kind = "equivalent"
        if kind:
            by_folder[mutant.file.rpartition("/")[0]][kind] += 1
            by_file[mutant.file][kind] += 1
    return table(by_folder), table(by_file)


def main() -> int:
    args = arguments()
    cache = args.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    project = Project(args.root.resolve(), cache)
    if args.package:
        project = Project(args.root.resolve(), cache, args.package)
    if args.record is not None:
        record(project, args.record)
        return 0
    verdicts, equivalents = Verdicts(cache / "verdicts.jsonl"), Equivalents(project)
    mutants = selected(project, args)
    due = [m for m in mutants if equivalents.reason(m) is None and verdicts.get(m) is None]
    if due and not args.report:
        preload()
        selection, begin = Selection(project), time.monotonic()
        for at, mutant in enumerate(due, 1):
            verdict = judge(project, mutant, selection, args.limit)
            verdicts.add(mutant, verdict)
            if at % 20 == 0:
                rate = (time.monotonic() - begin) / at
                print(f"[{at}/{len(due)}, {rate:.2f} s each]", flush=True)
    for mutant in mutants:
        found = verdicts.get(mutant)
        if found and found.kind in SURVIVED and equivalents.reason(mutant) is None:
            print(describe(mutant, found, project.text(mutant.file)))
    folders, files = report(mutants, verdicts, equivalents)
    print(f"\n{folders}")
    if args.write:
        write_page(project.root / "docs" / "mutation.md", f"{folders}\n## Files\n\n{files}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing of handlers, rules, targets and analyses (Python 3.12 or later).

    python -m tools.mutation --record                  record which tests run which lines, first
    python -m tools.mutation --file dialect_handlers/stablehlo/scatter/scatter_indices.py
    python -m tools.mutation --folder dialect_handlers --sample 25
    python -m tools.mutation --file ... --function index --again
    python -m tools.mutation --only-survivors --budget 120
    python -m tools.mutation --report                  the table and the survivors, nothing is run
    python -m tools.mutation --report --write          ... and docs/mutation.md

A mutant is a single change: a comparison off by one, a guard (`need`, `if`) dropped or forced, a
condition negated or dropped, `and` and `or` swapped, operands or neighbours in a list swapped, a
constant or an operator changed, min and max swapped. Texts, annotations, assertions, errors and
limits of cost (NAME = number) stay. Each mutant runs in a forked process on the tests that
executed its lines when the coverage was recorded, the most promising ones first, until one fails.

Coverage and verdicts are kept in a cache outside of the repository. A run leaves out mutants that
have a verdict, unless `--again` is given. It first records test files that are new or changed.
Enter a mutant that behaves like the original in tools/mutation/equivalent.json, with the reason.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools import ROOT
from tools.mutation.changing import functions_of_files
from tools.mutation.coverage import Coverage, record_coverage
from tools.mutation.forking import preload
from tools.mutation.generate import breadth_first, mutants_of, sample
from tools.mutation.importing import import_packages
from tools.mutation.mutant import Mutant
from tools.mutation.project import Project
from tools.mutation.report import HEAD, by_file, by_folder, classify, describe, table
from tools.mutation.results import SURVIVED, Equivalents, Results
from tools.mutation.selection import Selection
from tools.mutation.server import Verdict, passes, run_mutant


def arguments() -> argparse.Namespace:
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutation",
        description=description,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--file", action="append", default=[], help="mutate this file (may be repeated)")
    add("--folder", action="append", default=[], help="mutate the files below (may be repeated)")
    add("--function", action="append", default=[], help="only in functions with this name")
    add("--sample", type=int, help="mutants per file; larger samples contain smaller ones")
    add("--seed", type=int, default=0, help="which sample")
    add(
        "--budget",
        type=float,
        default=20.0,
        help="processor seconds per mutant (default: 20)",
    )
    add("--record", nargs="*", metavar="TEST_FILE", help="record these, or what changed")
    add("--no-record", action="store_true", help="use the coverage as it is")
    add("--only-survivors", action="store_true", help="run those again that survived")
    add("--again", action="store_true", help="run those again that have a verdict")
    add("--report", action="store_true", help="run nothing")
    add("--write", action="store_true", help="write docs/mutation.md")
    add("--survivors", type=Path, help="write them to a file per folder in this one")
    cache = Path.home() / ".cache" / "hlo2onnx-mutation"
    add("--cache", type=Path, default=cache, help=f"default: {cache}")
    add("--root", type=Path, default=ROOT, help="another repository (with --package)")
    add("--package", action="append", default=[], help="a package of that repository to mutate")
    return parser.parse_args()


def project_of(args: argparse.Namespace) -> Project:
    cache = args.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    if args.package:
        folders = {name: name for name in args.package}
        return Project(args.root.resolve(), cache, folders, preloaded=())
    return Project(args.root.resolve(), cache)


def selected(project: Project, args: argparse.Namespace) -> list[Mutant]:
    """The mutants of the chosen files."""
    folders = tuple(folder.rstrip("/") + "/" for folder in args.folder)
    found: list[Mutant] = []
    for file in project.files():
        everything = not args.file and not folders
        if everything or file in args.file or (folders and file.startswith(folders)):
            found += sample(mutants_of(file, project.text(file)), args.sample, args.seed)
    names = set(args.function)
    return [m for m in found if not names or names.intersection(m.function.split("."))]


def is_due(mutant: Mutant, results: Results, args: argparse.Namespace) -> bool:
    verdict = results.get(mutant)
    if args.only_survivors:
        return verdict is not None and verdict.kind in SURVIVED
    return verdict is None or args.again


def judge(
    project: Project, mutant: Mutant, selection: Selection, coverage: Coverage, budget: float
) -> Verdict:
    """The verdict on a mutant. Tests that fail alone without the change do not count."""
    while True:
        chosen = selection.choose(mutant)
        verdict = run_mutant(project, mutant, chosen, coverage.seconds, budget)
        test = verdict.test
        if test not in coverage.seconds or selection.is_trusted(test):
            break
        if passes(project, mutant, test):
            selection.trust(test)
            break
        print(f"{test} fails alone without any change and is left out", flush=True)
        del coverage.seconds[test]
    if test in coverage.seconds:
        selection.killed(mutant, test)
    return verdict


def run(
    project: Project,
    mutants: Sequence[Mutant],
    results: Results,
    args: argparse.Namespace,
) -> None:
    """Runs the mutants that are due."""
    if not args.no_record:
        record_coverage(project, Coverage(project).outdated())
    coverage = Coverage(project)
    selection = Selection(project, coverage)
    import_packages(project.root, project.packages)
    functions_of_files()
    gc.freeze()
    begin = time.monotonic()
    for at, mutant in enumerate(mutants, 1):
        verdict = judge(project, mutant, selection, coverage, args.budget)
        results.add(mutant, verdict)
        if verdict.kind in SURVIVED:
            print(describe(mutant, verdict, project.text(mutant.file)), flush=True)
        if at % 20 == 0:
            rate = (time.monotonic() - begin) / at
            print(f"[{at}/{len(mutants)}, {rate:.2f} s each]", flush=True)


def report(
    project: Project,
    mutants: Sequence[Mutant],
    results: Results,
    equivalents: Equivalents,
    args: argparse.Namespace,
) -> None:
    """Prints the figures and the survivors, and writes what is asked for."""
    for folder, members in by_folder(mutants):
        survivors = []
        for mutant in members:
            verdict = results.get(mutant)
            if verdict is not None and classify(mutant, results, equivalents) == "survived":
                survivors.append(describe(mutant, verdict, project.text(mutant.file)))
        if args.survivors is not None and survivors:
            args.survivors.mkdir(parents=True, exist_ok=True)
            path = args.survivors / f"{folder.replace('/', '-')}.txt"
            path.write_text("\n".join(survivors), encoding="utf-8")
        elif args.report and survivors:
            print("\n".join(survivors))
    folders = table(by_folder(mutants), results, equivalents)
    files = table(by_file(mutants), results, equivalents)
    print(files if args.file or args.folder else folders)
    if args.write:
        page = f"{HEAD}{folders}\n## Files\n\n{files}"
        (project.root / "docs" / "mutation.md").write_text(page, encoding="utf-8")


def main() -> int:
    args = arguments()
    project = project_of(args)
    if args.record is not None:
        preload(project.preloaded)
        record_coverage(project, args.record or Coverage(project).outdated())
        return 0
    results, equivalents = Results(project.cache / "results.jsonl"), Equivalents(project)
    mutants = selected(project, args)
    if not args.report:
        preload(project.preloaded)
        due = [
            mutant
            for mutant in mutants
            if is_due(mutant, results, args) and equivalents.reason(mutant) is None
        ]
        run(project, breadth_first(due, args.seed) if args.sample else due, results, args)
    report(project, mutants, results, equivalents, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())

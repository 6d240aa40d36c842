"""The figures of a run: a table for each folder, and the survivors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tools.mutation.mutant import Mutant
from tools.mutation.results import SURVIVED, Equivalents, Results
from tools.mutation.server import Verdict

HEAD = """\
# Mutation testing

`tools.mutation` makes single changes in handlers, rules, targets and analyses: a comparison off by
one, a dropped guard, swapped operands and others. Then it runs the tests that execute the changed
lines.

* *Killed*: one of these tests fails.
* *Equivalent*: the changed code is known to behave like the original.
  `tools/mutation/equivalent.json` says why.
* *Survived*: no test fails. Some survivors ran on a part of their tests only.
* *Share*: the killed ones among those that are not equivalent.

Only a sample of the mutants has run. Files have the names that they had then.

"""


def classify(mutant: Mutant, results: Results, equivalents: Equivalents) -> str:
    """ "killed", "equivalent", "survived", or "" for one that did not run."""
    verdict = results.get(mutant)
    if verdict is not None and verdict.kind == "killed":
        return "killed"
    if equivalents.reason(mutant) is not None:
        return "equivalent"
    return "survived" if verdict is not None and verdict.kind in SURVIVED else ""


def table(
    groups: Iterable[tuple[str, Sequence[Mutant]]], results: Results, equivalents: Equivalents
) -> str:
    """One row for each group of mutants and one for all, as Markdown."""
    head = "| | Made | Run | Killed | Equivalent | Survived | Share |"
    lines = [head, "|---" * 7 + "|"]
    total: Counter[str] = Counter()
    for name, mutants in groups:
        counts = Counter(classify(mutant, results, equivalents) for mutant in mutants)
        total += counts
        if counts.total() > counts[""]:
            lines.append(_row(name, counts))
    return "\n".join([*lines, _row("all", total)]) + "\n"


def _row(name: str, counts: Counter[str]) -> str:
    run = counts.total() - counts[""]
    fair = counts["killed"] + counts["survived"]
    share = f"{counts['killed'] / fair:.1%}" if fair else ""
    figures = (
        counts.total(),
        run,
        counts["killed"],
        counts["equivalent"],
        counts["survived"],
        share,
    )
    return f"| {name} | {' | '.join(map(str, figures))} |"


def by_folder(mutants: Iterable[Mutant]) -> list[tuple[str, list[Mutant]]]:
    """The mutants by the folder of their file, the folders in the order of their paths."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        groups[mutant.file.rpartition("/")[0]].append(mutant)
    return sorted(groups.items())


def by_file(mutants: Iterable[Mutant]) -> list[tuple[str, list[Mutant]]]:
    """The mutants by file."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        groups[mutant.file].append(mutant)
    return sorted(groups.items())


def describe(mutant: Mutant, verdict: Verdict, text: str) -> str:
    """A survivor: where it is, what it is, and what ran on it."""
    ran = f"{verdict.ran} tests, {verdict.seconds:.0f} s"
    where = f"{mutant.file}:{mutant.line} {mutant.function or '(module)'}"
    return f"{where}: {mutant.operator}; {verdict.kind} ({ran})\n{mutant.diff(text)}\n"

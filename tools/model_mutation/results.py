"""The results of mutants as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from tools.model_mutation.trial import Result

DISTINGUISHABLE = ("caught", "survived")
FEW = 5
"""So many inputs are shown with their numbers."""
COLUMNS = ("caught", "survived", "rounding", "within tolerance", "equivalent", "invalid")


def share(results: Iterable[Result]) -> float:
    """The caught ones of those that are distinguishable, in percent."""
    counts = Counter(result.status for result in results)
    total = sum(counts[status] for status in DISTINGUISHABLE)
    return 100 * counts["caught"] / total if total else 100.0


def table(results: Iterable[Result], key: Callable[[Result], str], title: str) -> str:
    """Counts by status, as Markdown."""
    results = list(results)
    head = f"| {title} | share | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (len(COLUMNS) + 1)}\n"
    groups = sorted({key(result) for result in results})
    rows = [(group, [r for r in results if key(r) == group]) for group in groups]
    return head + "".join(_row(name, members) for name, members in [*rows, ("all", results)])


def _row(name: str, members: list[Result]) -> str:
    counts = Counter(result.status for result in members)
    distinguishable = any(counts[status] for status in DISTINGUISHABLE)
    shown = f"{share(members):.1f} %" if distinguishable else ""
    return f"| {name} | {shown} | {' | '.join(str(counts[item]) for item in COLUMNS)} |\n"


def described(result: Result) -> str:
    """A survivor, with the input that distinguishes it."""
    where = f"{result.graph}/{result.node}" if result.graph else result.node
    lines = [f"{result.model}: {result.operator}: {result.op} {where} ({result.source})"]
    lines += [f"    {result.detail}; differs by {result.excess:.1e} of the scale"]
    lines += [f"    {text}" for text in _inputs(result.inputs)]
    return "\n".join(lines)


def _inputs(inputs: Mapping[str, str]) -> list[str]:
    """The inputs; those without numbers by their kind."""
    if len(inputs) <= FEW:
        return [f"{name} = {text}" for name, text in inputs.items()]
    groups: dict[str, list[str]] = defaultdict(list)
    for name, text in inputs.items():
        groups[text.partition(":")[0].partition(" (")[0]].append(name)
    return [f"{kind}: {', '.join(names)}" for kind, names in groups.items()]

"""Results as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tools.conformance.outcome import REASON_SEPARATOR, STATUSES, Case, Outcome, one_line

_SPECIFIC = re.compile(r"0x[0-9a-f]+|%\w+|'[^']*'|\"[^\"]*\"|[-+]?\d[\d.]*(?:e[-+]?\d+)?")
"""What differs between failures of one cause."""


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


def by_cause(cases: Sequence[Case], outcomes: Mapping[str, Outcome]) -> str:
    """One row per cause of failures and skips, the most frequent first, each with an example.

    A case that several ops are missing for counts for each of them.
    """
    rows: dict[str, list[tuple[str, str]]] = {}
    for case in cases:
        for reason in _reasons(case, outcomes[case.name]):
            rows.setdefault(_SPECIFIC.sub("*", reason), []).append((reason, case.name))
    lines = []
    for found in sorted(rows.values(), key=len, reverse=True):
        reason, example = found[0]
        lines += [f"{len(found):>5}  {one_line(reason, 200)}", f"       {example}"]
    return "\n".join(lines)


def _reasons(case: Case, outcome: Outcome) -> list[str]:
    if outcome.status == "pass":
        return []
    if outcome.status == "refused":
        return [f"refused: {reason}" for reason in outcome.reason.split(REASON_SEPARATOR)]
    if outcome.status in ("mismatch", "crash", "timeout"):
        return [f"{case.group} {outcome.line}"]  # their texts say little about the cause
    return [outcome.line]


def failures(outcomes: Sequence[Outcome]) -> str:
    """Two lines per failing case: name and reason."""
    failed = [outcome for outcome in outcomes if outcome.failed]
    return "\n".join(f"{outcome.name}\n    {outcome.line}" for outcome in failed)

"""Results as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tools.conformance.outcome import STATUSES, Case, Outcome


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

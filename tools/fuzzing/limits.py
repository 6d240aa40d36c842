"""Expected refusals: ops that cannot be translated, and why."""

from __future__ import annotations

from dataclasses import dataclass

from tools.conformance.outcome import Outcome


@dataclass(frozen=True)
class Limit:
    """A refusal to expect.

    Attributes:
        op: Full name.
        says: Words of the refusal.
        reason: Why there is no way.
    """

    op: str
    says: str
    reason: str


LIMITS: tuple[Limit, ...] = ()


def known_limit(outcome: Outcome) -> str:
    """The reason of a refusal that was to be expected; "" for anything else."""
    if outcome.status != "refused":
        return ""
    for limit in LIMITS:
        if outcome.reason.startswith(f"{limit.op}: ") and limit.says in outcome.reason:
            return f"{limit.op}: {limit.reason}"
    return ""

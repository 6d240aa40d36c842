"""Why a rewrite rule fired or did not, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PLACES = 4
"""How many places the text lists for one reason."""

NO_LINE = "no source line"


@dataclass(frozen=True)
class Place:
    """A node, and where it comes from.

    Attributes:
        node: Operator and name. Names hold the JAX scope.
        source: "file:line" of the user's program; "" if the program has no locations.
        culprit: The value or node that the reason is about; "" if there is none.
        then: The other rule that rewrote the node later; "" if the node is left.
    """

    node: str
    source: str
    culprit: str = ""
    then: str = ""

    def __str__(self) -> str:
        about = f"\n      because of {self.culprit}" if self.culprit else ""
        then = f"\n      then rewritten by {self.then}" if self.then else ""
        return f"{self.node}  {self.source or NO_LINE}{about}{then}"


@dataclass(frozen=True)
class Firing:
    """One rewrite.

    Attributes:
        rule: The name of the rule.
        before: The node, as operator and name.
        after: What replaces it.
        source: "file:line" of the user's program; "" if the program has no locations.
    """

    rule: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.rule}  {self.before} -> {self.after}  {self.source or NO_LINE}"


@dataclass(frozen=True)
class Miss:
    """One reason for which a rule did not fire.

    Attributes:
        reason: The condition that does not hold.
        held: How many conditions of the rule held before that one, at the nearest place.
        places: Where, the nearest first.
    """

    reason: str
    held: int
    places: tuple[Place, ...]

    def __str__(self) -> str:
        held = "1 condition holds" if self.held == 1 else f"{self.held} conditions hold"
        count = f"; {len(self.places)} nodes" if len(self.places) > 1 else ""
        lines = [f"{self.reason}  ({held}{count})"]
        lines += [f"    {place}" for place in self.places[:PLACES]]
        if len(self.places) > PLACES:
            lines.append(f"    and {len(self.places) - PLACES} more nodes")
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """Where a rule fired, and its nearest misses.

    Attributes:
        rule: The name of the rule.
        rewrite: What the rule does, before -> after.
        anchors: The operators of the nodes that the rule looks at.
        firings: Each rewrite, in order.
        misses: Reasons why the rule refused nodes that are left when raising ends, or that another
            rule took first. The first reason is the one before which most conditions of the rule
            held; equal reasons are one.
        note: Why the rule was not tried at all; "" if it was.
    """

    rule: str
    rewrite: str
    anchors: Sequence[str] = ()
    firings: Sequence[Firing] = ()
    misses: Sequence[Miss] = ()
    note: str = ""

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.rewrite}"]
        if self.note:
            return "\n".join([*lines, self.note])
        lines.append(f"fired    {_times(len(self.firings))}")
        lines += [
            f"  {item.before} -> {item.after}  {item.source or NO_LINE}"
            for item in self.firings[:PLACES]
        ]
        if len(self.firings) > PLACES:
            lines.append(f"  and {len(self.firings) - PLACES} more")
        return "\n".join([*lines, self._refusals(), *(f"  {miss}" for miss in self.misses)])

    def _refusals(self) -> str:
        count = sum(len(miss.places) for miss in self.misses)
        if not count:
            return f"refused  nowhere: no {_either(self.anchors)} is left"
        return f"refused  {_either(self.anchors)} at {count} node{'s' * (count > 1)}, nearest first"


def _either(names: Sequence[str]) -> str:
    """ "Add, Mul or Sub"; of many the first few."""
    shown = names if len(names) <= PLACES else [*names[:PLACES], "other operator"]
    return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _times(count: int) -> str:
    return {0: "nowhere", 1: "once"}.get(count, f"{count} times")

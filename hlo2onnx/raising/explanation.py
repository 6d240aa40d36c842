"""Observers of the rules: a log of every rewrite, and why one rule fired or did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as oir

from hlo2onnx.ir.replace import can_replace
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, Watch, values_of
from hlo2onnx.raising.refusals import counting

PLACES = 4
"""The text lists at most this many places for one reason."""

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


NAMED = 4
"""A log names up to this many new nodes; more are counted by operator."""

OUTPUT_STAYS = "the result cannot take the place of an output of the graph"


class RuleLog(Watch):
    """Lists every rewrite of every rule, in order."""

    def __init__(self) -> None:
        self.firings: list[Firing] = []

    def rewrite(self, rule: Rule, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        """See `Watch.rewrite`."""
        values = values_of(rule.rewrite(node, b))
        if all(map(can_replace, node.outputs, values)):
            self.firings.append(_firing(rule, node, values, b.made))
        return values

    def __str__(self) -> str:
        head = "# rule  node -> what replaces it  source line"
        return "\n".join([head, *map(str, self.firings)]) + "\n"


@dataclass(frozen=True)
class _Attempt:
    reason: str
    held: int
    place: Place


class Explainer(Watch):
    """Records where one rule fires, and how near it gets elsewhere."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._firings: list[Firing] = []
        self._last: dict[oir.Node, _Attempt] = {}

    def rewrite(self, rule: Rule, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        """See `Watch.rewrite`."""
        if rule is not self._rule:
            values = values_of(rule.rewrite(node, b))
            if node in self._last and all(map(can_replace, node.outputs, values)):
                self._taken(rule, node, _reached(values, b.made))
            return values
        with counting() as progress:
            try:
                values = values_of(rule.rewrite(node, b))
            except Refusal as refusal:
                nearest = progress.refusal or refusal
                self._refused(node, nearest.reason, progress.reached, nearest.culprit)
                raise
        if all(map(can_replace, node.outputs, values)):
            self._firings.append(_firing(rule, node, values, b.made))
        else:
            self._refused(node, OUTPUT_STAYS, progress.held, node.outputs[0])
        return values

    def explanation(self, note: str = "") -> Explanation:
        """What happened so far.

        Lists refused nodes that are still in a graph, and those that another rule replaced by
        operators that this rule does not look at.

        Args:
            note: Why the rule was not tried.
        """
        groups: dict[str, list[_Attempt]] = {}
        for node, attempt in self._last.items():
            if node.graph is not None or attempt.place.then:
                groups.setdefault(attempt.reason, []).append(attempt)
        misses = []
        for reason, attempts in groups.items():
            attempts.sort(key=lambda attempt: (-attempt.held, attempt.place.then))
            places = tuple(attempt.place for attempt in attempts)
            misses.append(Miss(reason, attempts[0].held, places))
        misses.sort(key=lambda miss: -miss.held)
        text = self._rule.doc.partition("\n\n")[0]
        rewrite = " ".join(text.split())
        return Explanation(
            self._rule.name,
            rewrite,
            tuple(sorted(self._rule.anchors)),
            tuple(self._firings),
            tuple(misses),
            note,
        )

    def _taken(self, rule: Rule, node: oir.Node, new: Sequence[oir.Node]) -> None:
        """Notes that another rule rewrites a refused node.

        If the new nodes have operators that this rule looks at, it tries them, and the old node is
        dropped.
        """
        attempt = self._last.pop(node)
        if new and not any(item.op_type in self._rule.anchors for item in new):
            place = replace(attempt.place, then=rule.name)
            self._last[node] = replace(attempt, place=place)

    def _refused(
        self, node: oir.Node, reason: str, held: int, culprit: oir.Value | oir.Node | None
    ) -> None:
        about = "" if culprit is None or culprit is node else _described(culprit)
        self._last[node] = _Attempt(reason, held, Place(_described(node), _source(node), about))


def _firing(
    rule: Rule, node: oir.Node, values: Sequence[oir.Value], made: Sequence[oir.Node]
) -> Firing:
    return Firing(rule.name, _described(node), _after(node, values, made), _source(node))


def _after(node: oir.Node, values: Sequence[oir.Value], made: Sequence[oir.Node]) -> str:
    """The new nodes that replace a node, or the values if there are none.

    The first of the new nodes takes the name of the old one.
    """
    first = values[0].producer() if values else None
    new = _reached(values, made)
    if not new:
        return ", ".join(map(_described, values)) or "nothing"
    if len(new) > NAMED:
        counts = Counter(item.op_type for item in new)
        return ", ".join(f"{count} {op_type}" for op_type, count in counts.items())
    return ", ".join(f"{item.op_type} {node.name if item is first else item.name}" for item in new)


def _reached(values: Sequence[oir.Value], made: Sequence[oir.Node]) -> list[oir.Node]:
    """The new nodes that the values depend on, in order."""
    pending = [value.producer() for value in values]
    all_made, found = set(made), set()
    while pending:
        node = pending.pop()
        if node in all_made and node not in found and node is not None:
            found.add(node)
            pending += [x.producer() for x in node.inputs if x is not None]
    return [node for node in made if node in found]


def _described(item: oir.Node | oir.Value) -> str:
    """Operator and name of a node; for a value, its producer and its type."""
    if isinstance(item, oir.Node):
        return f"{item.op_type} {item.name}"
    maker = item.producer()
    shape = ", ".join(map(str, item.shape or ()))
    dtype = item.dtype.name.lower() if item.dtype is not None else "?"
    what = "constant" if item.const_value is not None else "value"
    head = f"{what} {item.name}" if maker is None else _described(maker)
    return f"{head}, {dtype}[{shape}]"


def _source(node: oir.Node) -> str:
    return str(node.metadata_props.get("jax.source", ""))

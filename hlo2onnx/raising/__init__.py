"""Raising: rewrite rules that turn plain ONNX into idiomatic ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as oir

from hlo2onnx.ir.code_motion import eliminate_common_subexpressions
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.raising.changes import Changes
from hlo2onnx.raising.engine import Rewriter, Rule, Watch, apply_rules, apply_to, table_of
from hlo2onnx.raising.rule_names import RETIRED, rules_named
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.loops.inline_branches import InlineBranch
from hlo2onnx.raising.rules.nn.attention import CappedAttention
from hlo2onnx.raising.rules.nn.causal_rows import CausalRows
from hlo2onnx.raising.rules.nn.grouped_query_attention import GroupedQueryAttention
from hlo2onnx.raising.rules.quantized.quantize_weights import QuantizeWeights
from hlo2onnx.raising.rules.shapes.slices import SliceOfOuter
from hlo2onnx.report import Report
from hlo2onnx.targets import Target
from hlo2onnx.targets.decompositions.threefry import write_threefry

__all__ = ["inline_branches", "raise_model"]

_WITH_CACHE = (CappedAttention(), SliceOfOuter(), CausalRows(), GroupedQueryAttention())
"""The rules of attention="gqa"."""


def raise_model(
    model: oir.Model,
    target: Target,
    without: AbstractSet[str],
    report: Report,
    nan: str = "default",
    watch: Watch | None = None,
    integer_weights: Mapping[str, str | None] | None = None,
    attention: str = "exact",
) -> None:
    """Applies every rule that is not switched off until none fires, shares equal nodes and moves
    them out of loops. Then operators of ONNX replace Threefry.

    Args:
        without: Names of rules that are switched off. Former names and names of deleted rules are
            valid too.
        nan: See `hlo2onnx.options.Options.nan`.
        watch: Sees every attempt of a rule.
        integer_weights: See `hlo2onnx.options.Options.integer_weights`.
        attention: See `hlo2onnx.options.Options.attention`.

    Raises:
        UsageError: `without` names a rule that does not exist.
    """
    off = rules_named(without, retired=True)
    for name in sorted(RETIRED & without):
        report.note(f"without={name!r} has no effect: the rule was deleted")
    rules = [
        rule for rule in RULES if rule.name not in off and not (rule.drops_nan and nan == "xla")
    ]
    quantizes = QuantizeWeights(integer_weights or {})
    rules += [quantizes] if integer_weights else []
    rules += list(_WITH_CACHE) if attention == "gqa" else []
    phases = sorted({rule.phase for rule in rules} | {0})
    remove_unused(model.graph)
    eliminate_common_subexpressions(model.graph)
    rewriter, changes = Rewriter(model, target, watch), Changes(model.graph)
    first, *later = (
        _Phase(changes, [rule for rule in rules if rule.phase == phase], rewriter, report)
        for phase in phases
    )
    for _ in range(2):
        fired = True
        while fired:
            _settle(first)
            fired = any(phase.apply() for phase in later)
        for each in (first, *later):  # visits all nodes once more: a pattern may reach far
            each.visited = each.settled if each.settled == changes.time else 0
    report.relaxed += rewriter.relaxed
    write_threefry(model.graph, rewriter)
    remove_unused(model.graph)
    if integer_weights:
        report.note(quantizes.note(model.graph))
    if attention == "gqa":
        count = report.rules[GroupedQueryAttention.name]
        report.note(f"attention='gqa': {count} operators append to a cache as GroupQueryAttention")
    rewriter.forget()


class _Phase:
    """The rules of a phase.

    Attributes:
        changes: What changes in the graph.
        visited: The time up to which the rules have seen all changes.
        settled: The time of the last visit of all nodes, if no rule fired in it.
    """

    def __init__(
        self, changes: Changes, rules: Sequence[Rule], rewriter: Rewriter, report: Report
    ) -> None:
        self._rules = table_of(tuple(rules))
        self._rewriter = rewriter
        self._report = report
        self.changes = changes
        self.visited = self.settled = 0

    def apply(self) -> bool:
        """Applies the rules until none fires; returns whether one did."""
        is_whole = self.visited == 0
        nodes, self.visited = self.changes.near(self.visited), self.changes.time
        if self._rewriter.facts_time != self.changes.time:
            self._rewriter.owners = self.changes.owners
            self._rewriter.forget_facts(self.changes.time)
        fired = apply_to(nodes, self._rules, self._rewriter)
        self._report.rules += fired
        if fired:
            self.changes.tidy()
        elif is_whole:
            self.settled = self.visited
        return bool(fired)


def _settle(phase: _Phase) -> None:
    """Repeats the rules while they, hoisting or sharing change the graph.

    A rule that refused a node may take it later: its operands may have changed, equal nodes may be
    shared, and nodes may have left a loop's body.
    """
    fired = True
    while fired:
        fired = phase.apply()
        fired |= phase.changes.share()


def inline_branches(model: oir.Model, target: Target, watch: Watch | None = None) -> None:
    """Inlines the branches whose conditions are known.

    Runs even if the rule is switched off: no later stage accepts such branches.
    """
    while apply_rules(model, [InlineBranch()], target, watch):
        remove_unused(model.graph)

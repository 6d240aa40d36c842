"""Raising: rewrite rules that turn plain ONNX into idiomatic ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import onnx_ir as oir

from hlo2onnx.raising.engine import Rule, Watch, apply_rules
from hlo2onnx.raising.rule_names import RETIRED, rules_named
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.loops.inline_branches import InlineBranch
from hlo2onnx.report import Report
from hlo2onnx.rewrite.cse import eliminate_common_subexpressions
from hlo2onnx.rewrite.licm import hoist_invariants
from hlo2onnx.rewrite.replace import remove_unused
from hlo2onnx.targets import Target

__all__ = ["inline_branches", "raise_model"]


def raise_model(
    model: oir.Model,
    target: Target,
    without: AbstractSet[str],
    report: Report,
    nan: str = "default",
    watch: Watch | None = None,
) -> None:
    """Applies every rule that is not switched off until none fires, shares equal nodes and moves
    them out of loops.

    Args:
        without: Names of rules that are switched off. Former names and names of deleted rules are
            valid too.
        nan: See `hlo2onnx.options.Options.nan`.
        watch: Sees every attempt of a rule.

    Raises:
        UsageError: `without` names a rule that does not exist.
    """
    off = rules_named(without, retired=True)
    for name in sorted(RETIRED & without):
        report.note(f"without={name!r} has no effect: the rule was deleted")
    rules = [
        rule for rule in RULES if rule.name not in off and not (rule.drops_nan and nan == "xla")
    ]
    phases = sorted({rule.phase for rule in rules} | {0})
    first, *later = ([rule for rule in rules if rule.phase == phase] for phase in phases)
    fired = True
    while fired:
        _apply_until_nothing_changes(model, first, target, report, watch)
        fired = any(_fires(model, phase, target, report, watch) for phase in later)
    remove_unused(model.graph)


def _fires(
    model: oir.Model, rules: Sequence[Rule], target: Target, report: Report, watch: Watch | None
) -> bool:
    fired = apply_rules(model, rules, target, watch)
    report.rules += fired
    return bool(fired)


def _apply_until_nothing_changes(
    model: oir.Model, rules: Sequence[Rule], target: Target, report: Report, watch: Watch | None
) -> None:
    """Repeats the rules while they, hoisting or sharing change the graph.

    A rule that refused a node may take it later: its operands may have changed, equal nodes may be
    shared, and nodes may have left a loop's body.
    """
    remove_unused(model.graph)
    eliminate_common_subexpressions(model.graph)
    fired = apply_rules(model, rules, target, watch)
    while hoist_invariants(model.graph) + eliminate_common_subexpressions(model.graph) or fired:
        report.rules += fired
        remove_unused(model.graph)
        fired = apply_rules(model, rules, target, watch)
    remove_unused(model.graph)


def inline_branches(model: oir.Model, target: Target, watch: Watch | None = None) -> None:
    """Inlines the branches whose conditions are known.

    Runs even if the rule is switched off: no later stage accepts such branches.
    """
    while apply_rules(model, [InlineBranch()], target, watch):
        remove_unused(model.graph)

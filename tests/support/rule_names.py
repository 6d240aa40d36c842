"""Names of rules, for tests of lowering without rules."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.loops import LOOP_RULES

LOOP_RULE_NAMES = frozenset(rule.name for rule in LOOP_RULES)
RULE_NAMES = frozenset(rule.name for rule in RULES)


def rule(name: str) -> Rule:
    """The rule with this name."""
    return next(each for each in RULES if each.name == name)

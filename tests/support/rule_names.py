"""Names of rules, for tests of lowering without rules."""

from __future__ import annotations

from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.loops import LOOP_RULES

LOOP_RULE_NAMES = frozenset(rule.name for rule in LOOP_RULES)
RULE_NAMES = frozenset(rule.name for rule in RULES)

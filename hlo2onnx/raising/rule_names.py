"""Rule names as users give them: current names and former ones."""

from __future__ import annotations

from collections.abc import Iterable

from hlo2onnx.errors import UsageError
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import RULES

_BY_NAME: dict[str, Rule] = {name: rule for rule in RULES for name in (rule.name, *rule.formerly)}


def rules_named(names: Iterable[str]) -> dict[str, Rule]:
    """The rules with these names, by their current name.

    Args:
        names: Current or former names.

    Raises:
        UsageError: A name belongs to no rule.
    """
    given = set(names)
    unknown = given - _BY_NAME.keys()
    if unknown:
        known = ", ".join(sorted(rule.name for rule in RULES))
        raise UsageError(f"no rule named {', '.join(sorted(unknown))}; the rules are {known}")
    return {_BY_NAME[name].name: _BY_NAME[name] for name in given}

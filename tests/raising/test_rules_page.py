"""Every rule has a name of its own, a first line with an arrow, and a place on the page."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import hlo2onnx
from hlo2onnx import UsageError
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rule_names import RETIRED, rules_named
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.shapes.transpose import SinkTranspose
from tools.rules.page import PAGE, page


def test_names_are_unique() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))


def test_first_lines_show_the_rewrite() -> None:
    for rule in RULES:
        first = rule.doc.partition("\n\n")[0]
        assert "->" in first, f"{rule.name}: {first}"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tools.rules --write"


def test_former_names_belong_to_one_rule() -> None:
    current = {rule.name for rule in RULES}
    former = [name for rule in RULES for name in rule.formerly]
    assert len(former) == len(set(former)) and not current & set(former)
    assert "late-transpose" in former  # a formerly documented name


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.formerly], ids=lambda r: r.name)
def test_former_names_switch_a_rule_off(rule: Rule) -> None:
    assert rules_named(rule.formerly) == {rule.name: rule} == rules_named([rule.name])


def test_a_former_name_works_in_translate() -> None:
    former, name = "reduce-transposed", SinkTranspose.name

    def body(x: Array) -> Array:
        return jnp.transpose(x, (2, 0, 1)).sum(1)

    x = np.ones((2, 3, 4), np.float32)
    assert hlo2onnx.translate(body, x).report.rules[name]
    assert not hlo2onnx.translate(body, x, without=former).report.rules[name]


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_names_of_deleted_rules_are_accepted_and_noted(name: str) -> None:
    assert rules_named([name, "softmax"], retired=True).keys() == {"softmax"}
    with pytest.raises(UsageError, match=name):
        rules_named([name])
    program = hlo2onnx.translate(jnp.sin, np.ones(3, np.float32), without=name)
    assert f"without={name!r} has no effect: the rule was deleted" in program.report.notes

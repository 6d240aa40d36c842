"""Tables and data of the report: every text is escaped."""

from __future__ import annotations

import json

import pytest

from hlo2onnx.reporting.markup import Markup, bar, bullets, facts, json_for_script, section, table
from hlo2onnx.reporting.page import filled, page

HOSTILE = "</script><script>alert(1)</script>&\"'"


@pytest.mark.parametrize(
    "made",
    [
        table([HOSTILE], [[HOSTILE]]),
        bullets([HOSTILE]),
        facts({HOSTILE: HOSTILE}),
        section("name", HOSTILE, ""),
        page(HOSTILE, "", ""),
    ],
)
def test_texts_are_escaped(made: str) -> None:
    assert "<script" not in made
    assert "&lt;script&gt;alert(1)" in made


def test_data_do_not_end_their_script() -> None:
    data = {"a": [HOSTILE, "\u2028", float("nan"), float("inf"), 1.5]}
    text = json_for_script(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": [HOSTILE, "\u2028", None, None, 1.5]}


def test_cells() -> None:
    made = table(["a", "b"], [[Markup("<b>x</b>"), 0.123456]], numbers=[1])
    assert '<td><b>x</b></td><td class="n">0.123</td>' in made
    assert "50.0 %" in bar(0.5) and "width:100.0%" in bar(3)


def test_a_part_of_a_template_may_have_braces() -> None:
    assert filled("{{a}}-{{b}}", a="{{b}}", b="\\1") == "{{b}}-\\1"

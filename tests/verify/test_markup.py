"""Tables and data of the report: every text is escaped."""

from __future__ import annotations

import json

import pytest

from hlo2onnx.verify.page import (
    Markup,
    bar,
    bullets,
    facts,
    filled,
    json_for_script,
    page,
    section,
    table,
    text_of,
)

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
    assert "50.0\u00a0%" in bar(0.5) and "width:100.0%" in bar(3)


def test_rows_that_are_left_out_are_counted_within_the_table() -> None:
    made = table(["a"], [["x"]], more=1200)
    assert made.endswith('</table><p class="more">and 1,200 more</p></div>')
    assert "more" not in table(["a"], [["x"]]) + table(["a"], [["x"]], more=-3)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("0.05 ms per run", "0.05\u00a0ms per run"),
        ("13.7 us, 4 % of 2 s", "13.7\u00a0us, 4\u00a0% of 2\u00a0s"),
        ("12 bytes", "12\u00a0bytes"),
        ("3 samples, x ms, 3 msec", "3 samples, x ms, 3 msec"),
    ],
)
def test_a_number_stays_with_its_unit(text: str, made: str) -> None:
    assert text_of(text) == made


def test_a_table_in_a_text_keeps_its_lines() -> None:
    made = bullets(["2 samples\n       ordinary\nb < 3         2", "one line"])
    table = "       ordinary\nb &lt; 3         2"
    assert made == f'<ul><li>2 samples<pre class="lines">{table}</pre></li><li>one line</li></ul>'


def test_a_part_of_a_template_may_have_braces() -> None:
    assert filled("{{a}}-{{b}}", a="{{b}}", b="\\1") == "{{b}}-\\1"

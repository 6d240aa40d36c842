"""tools.bench.growth: which sizes are timed, the table and the picture."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from tools.bench import page
from tools.bench.growth import __main__ as growth
from tools.bench.growth.groups import GROUPS
from tools.bench.growth.plot import Point, picture
from tools.bench.timing import medians

FOUND = [Point(10**k, 1e-8 * 10 ** (1.5 * k), 1e-8 * 10**k) for k in range(2, 7)]


def test_medians_of_few_calls() -> None:
    calls: list[str] = []
    found = medians(
        [lambda: calls.append("a"), lambda: calls.append("b")], blocks=2, block_seconds=0, least=1
    )
    assert calls == ["a", "a", "b", "b", "a", "b", "a", "b"] and min(found) > 0


@pytest.mark.parametrize("name", GROUPS)
def test_groups_have_about_so_many_elements(name: str) -> None:
    _, args = GROUPS[name](1000)
    if name != "random":
        assert any(500 <= arg.size <= 1500 for arg in args)


def test_a_size_that_would_take_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(_: object, elements: int, verifies: bool) -> Point:
        assert verifies == (elements == 100)
        return Point(elements, 1e-7 * elements, 3e-7 * elements)

    monkeypatch.setattr(growth, "_measured", measured)
    assert [point.elements for point in growth.points(GROUPS["sort"])] == [
        10**k for k in range(2, 7)
    ]


def test_a_measurement() -> None:
    point = growth._measured(GROUPS["elementwise"], 100, verifies=True)
    assert point.elements == 100 and 0 < point.ours < 1 and 0 < point.xla < 1


def test_slopes_and_ratios() -> None:
    assert growth.slope(FOUND, "ours") == pytest.approx(1.5)
    assert growth.slope(FOUND, "xla") == pytest.approx(1)
    assert math.isnan(growth.slope(FOUND[:4], "xla"))
    *_, row = growth.table({"sort": FOUND}).splitlines()
    assert row == "| sort | 10.00 | 31.62 | 100.00 | 316.23 | 1000.00 |  | 1.50 | 1.00 |"


def test_the_picture_has_both_lines_of_each_group() -> None:
    root = ET.fromstring(picture({"sort": FOUND, "a & b": FOUND[:2]}))
    tag = "{http://www.w3.org/2000/svg}"
    circles = root.findall(f"{tag}circle")
    assert len(circles) == 2 * (5 + 2)
    ours = [float(item.get("cy", "")) for item in circles if item.get("class") == "ours"][:5]
    steps = [a - b for a, b in pairwise(ours)]
    assert steps == pytest.approx([steps[0]] * 4, abs=0.2) and steps[0] > 0


def test_the_page_keeps_its_other_sections(tmp_path: Path) -> None:
    path = tmp_path / "speed.md"
    page.write_group(path, "large_arrays", "| a |")
    page.write_growth(path, "an older table")
    page.write_growth(path, "![picture](images/growth.svg)")
    text = path.read_text(encoding="utf-8")
    assert text.count("## ") == 2 and "| a |" in text and "an older" not in text
    assert "## How cost grows" in text and "images/growth.svg" in text

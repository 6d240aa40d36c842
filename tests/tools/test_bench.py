"""tools.bench: the table of benchmarks, a row, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tools.bench.__main__ import GROUPS, chosen, module_of
from tools.bench.benchmark import Benchmark
from tools.bench.measure import measure
from tools.bench.page import write
from tools.bench.timing import medians

COLUMNS = ("ours ms", "ours / XLA")


@pytest.mark.parametrize("group", GROUPS)
def test_titles_and_limits(group: str) -> None:
    found = module_of(group).BENCHMARKS.values()
    titles = [benchmark.title for benchmark in found]
    assert titles and len(set(titles)) == len(titles)
    assert all(benchmark.goal is None or benchmark.goal > 0 for benchmark in found)


def test_names_and_patterns() -> None:
    assert list(chosen("dense", ["vit"])) == list(chosen("dense", ["dense/vi*"])) == ["vit"]
    assert len(chosen("dense", ["dense"])) == len(chosen("dense", [])) > 10
    assert not chosen("large_arrays", ["dense"])


def test_a_row() -> None:
    one_more = Benchmark("one more", lambda: (lambda x: x + 1, (np.ones(3, np.float32),)), 2.0)
    cells = measure(one_more)
    assert (cells["XLA limit"], cells["nodes"], cells["max error"]) == ("2.0", "1", "0.0e+00")
    ratio = float(cells["ours ms"]) / float(cells["XLA ms"])
    assert float(cells["ours / XLA"]) == pytest.approx(ratio, rel=0.5)


def test_medians_of_few_calls() -> None:
    calls: list[str] = []
    found = medians(
        [lambda: calls.append("a"), lambda: calls.append("b")], blocks=2, block_seconds=0, least=1
    )
    assert calls == ["a", "a", "b", "b", "a", "b", "a", "b"] and min(found) > 0


def test_other_rows_and_sections_stay(tmp_path: Path) -> None:
    page, order = tmp_path / "speed.md", ["a", "b", "c"]
    page.write_text("# Speed\n\nWhat it says.\n\n## Dense\n\nold\n")
    write(page, "large_arrays", COLUMNS, {"c": {"ours ms": "1", "ours / XLA": "2"}}, order)
    write(page, "large_arrays", COLUMNS, {"gone": {"ours ms": "1"}}, [*order, "gone"])
    write(page, "large_arrays", COLUMNS, {"a": {"ours ms": "3", "ours / XLA": "8"}}, order)
    text = page.read_text()
    assert text.startswith("# Speed\n\nWhat it says.\n\n## Dense\n\nold\n\n## Large arrays")
    assert text.index("| a | 3 | 8 |") < text.index("| c | 1 | 2 |") and "gone" not in text
    assert "Geometric mean of ours / XLA: 4.00" in text

"""Groups of small programs that are timed beside XLA."""

from __future__ import annotations

import numpy as np
import pytest

from tools.bench.groups.__main__ import cases_of, names_of_groups, row
from tools.bench.groups.case import Case, of


@pytest.mark.parametrize("group", names_of_groups())
def test_titles_and_goals(group: str) -> None:
    cases = cases_of(group).values()
    titles = [case.title for case in cases]
    assert titles and len(set(titles)) == len(titles)
    assert all(case.goal is None or case.goal > 0 for case in cases)


@pytest.mark.wide
def test_a_row() -> None:
    cells = row(Case("one more", of(lambda x: x + 1, np.ones(3, np.float32)), 2.0)).split("|")
    title, ours, xla, ratio, goal, nodes, _, error = (cell.strip() for cell in cells[1:-1])
    assert (title, goal, nodes, error) == ("one more", "2.0", "1", "0.0e+00")
    assert float(ratio) == pytest.approx(float(ours) / float(xla), rel=0.5)

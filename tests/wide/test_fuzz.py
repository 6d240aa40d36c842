"""Random programs of fixed seeds (see `tools.fuzzing`); what once failed has a test of its own."""

from __future__ import annotations

import pytest

from tools.conformance.pool import Pool
from tools.fuzzing.__main__ import COMMAND, judged
from tools.fuzzing.generate import case_name

COUNTS = {
    "mixed": 400,
    "indexing": 300,
    "reductions": 300,
    "chlo": 100,
    "loops": 100,
    "branches": 30,
}


def failures(names: list[str]) -> str:
    pool = Pool(jobs=2, timeout=300, command=COMMAND)  # a slow machine runs four programs at once
    try:
        outcomes = [judged(pool, future.result()) for future in pool.submit(names)]
    finally:
        pool.close()
    return "\n\n".join(f"{o.name} {o.line}\n{o.detail}" for o in outcomes if o.failed)


@pytest.mark.wide
@pytest.mark.parametrize("family", COUNTS)
def test_random_programs(family: str) -> None:
    found = failures([case_name(family, seed) for seed in range(COUNTS[family])])
    assert not found, found

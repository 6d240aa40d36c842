"""Random programs of fixed seeds (see tools/fuzz.py); what once failed has a test of its own."""

from __future__ import annotations

import fuzz
import pytest
from conformance_suite.pool import Pool
from fuzzing.generate import case_name

COUNTS = {
    "mixed": 400,
    "indexing": 300,
    "reductions": 300,
    "chlo": 100,
    "loops": 100,
    "branches": 30,
}


def failures(names: list[str]) -> str:
    pool = Pool(jobs=2, timeout=60, command=fuzz.COMMAND)
    try:
        outcomes = [fuzz.judged(pool, future.result()) for future in pool.submit(names)]
        found = fuzz.find_failures(pool, outcomes)
    finally:
        pool.close()
    return "\n\n".join(f"{item.name} {item.status} {item.reason}\n{item.detail}" for item in found)


@pytest.mark.wide
@pytest.mark.parametrize("family", COUNTS)
def test_random_programs(family: str) -> None:
    found = failures([case_name(family, seed) for seed in range(COUNTS[family])])
    assert not found, found

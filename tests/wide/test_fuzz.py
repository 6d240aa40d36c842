"""Random programs of fixed seeds (see tools/fuzz.py); what once failed has a test of its own."""

from __future__ import annotations

import fuzz
import pytest
from conformance_suite.pool import Pool

COUNT = 500


def failures(seeds: list[int]) -> str:
    pool = Pool(jobs=2, timeout=60, command=fuzz.COMMAND)
    try:
        futures = pool.submit([str(seed) for seed in seeds])
        outcomes = [fuzz.judged(pool, future.result()) for future in futures]
        found = fuzz.find_failures(pool, outcomes)
    finally:
        pool.close()
    return "\n\n".join(f"{item.seed} {item.status} {item.reason}\n{item.detail}" for item in found)


@pytest.mark.wide
def test_random_programs() -> None:
    found = failures(list(range(COUNT)))
    assert not found, found

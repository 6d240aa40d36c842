"""Scatters with many equal indices on several threads."""

from __future__ import annotations

import pytest

from tools import races


@pytest.mark.wide
@pytest.mark.parametrize("name", races.CASES)
@pytest.mark.parametrize("threads", races.THREADS)
def test_every_run_gives_the_bits_of_xla(name: str, threads: int) -> None:
    assert not races.wrong_runs(name, runs=20 // threads, threads=threads)

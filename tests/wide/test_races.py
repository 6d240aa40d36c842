"""Scatters with many equal indices on two threads; `tools.races` runs them more often."""

from __future__ import annotations

import pytest

from tools import races


@pytest.mark.wide
@pytest.mark.parametrize("name", races.CASES)
def test_every_run_gives_the_bits_of_xla(name: str) -> None:
    assert not races.measure(name, runs=10).wrong

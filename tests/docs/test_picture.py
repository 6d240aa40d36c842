"""The README's picture shows what a translation gives today."""

from __future__ import annotations

import re

import pytest

from tools.docs import picture


@pytest.mark.wide
def test_the_picture_is_up_to_date() -> None:
    program = picture.translated()
    verification = program.verify()
    assert verification.ok
    drawn = picture.picture(program, verification)
    assert without_measurements(drawn) == without_measurements(
        picture.PICTURE.read_text(encoding="utf-8")
    ), "run python -m tools.docs.picture --write"


def without_measurements(drawn: str) -> str:
    """The picture without errors, which differ by processor, and JAX's count of ops."""
    return re.sub(r"\d\.\d\de[+-]\d\d|\d+ StableHLO ops", "", drawn)

"""Fixtures of the tests about handlers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hlo2onnx.lowering.registry import load_handlers, registry


@pytest.fixture(autouse=True)
def _registry_restored() -> Iterator[None]:
    before = load_handlers().with_own(())
    yield
    registry.become(before)
    load_handlers.cache_clear()

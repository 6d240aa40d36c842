"""What every test session shares: the sample of the quick suite, and XLA's programs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import pytest
from quick_sample import rest_of

from hlo2onnx.verification import xla

PROGRAMS = 64
"""Count of compiled programs that a process keeps."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves most of each product of parameters to the wide suite, if the whole suite runs.

    Where tests are named, as in `pytest tests/ops/test_sort.py`, all of their cases run. With
    HLO2ONNX_REST_EVERY=3 in the environment, the wide suite runs a third of what is left to it.
    """
    whole = [config.rootpath / path for path in config.getini("testpaths")]
    if config.option.keyword or [Path(name).absolute() for name in config.args] != whole:
        return
    every, left_out = int(os.environ.get("HLO2ONNX_REST_EVERY", "1")), set[pytest.Item]()
    families: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("wide") is None:
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        for item in rest_of(family):
            item.add_marker("wide")
            item.add_marker("rest")
            if crc32(item.nodeid.encode()) % every:
                left_out.add(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def shared_programs() -> Iterator[None]:
    """XLA compiles a program once for several tests of it, as with a rule and without."""
    patch = pytest.MonkeyPatch()
    patch.setattr(xla, "compiled", lru_cache(PROGRAMS)(xla.compiled))
    yield
    patch.undo()

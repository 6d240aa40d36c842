"""What every test session shares: the sample of the quick suite, and XLA's programs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from quick_sample import left_by, rest_of

from hlo2onnx.verify import xla

COSTLY = 6
"""The quick suite runs each n-th case of a test that is marked as costly."""

PROGRAMS = 64
"""Count of compiled programs that a process keeps."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves most of each product of parameters to the wide suite, if the whole suite runs.

    Where tests are named, as in `pytest tests/ops/test_sort.py`, all of their cases run. With
    HLO2ONNX_WIDE_EVERY=3 in the environment, the wide suite runs a third of the cases of a test.
    """
    whole = [config.rootpath / path for path in config.getini("testpaths")]
    if config.option.keyword or [Path(name).absolute() for name in config.args] != whole:
        return
    for family in _families(items, is_wide=False):
        for item in rest_of(family):
            item.add_marker("wide")
            item.add_marker("rest")
        if family[0].get_closest_marker("costly") is not None:
            for item in left_by(family, COSTLY):
                item.add_marker("wide")
    every = int(os.environ.get("HLO2ONNX_WIDE_EVERY", "1"))
    left_out = {
        item
        for family in _families(items, is_wide=True)
        if family[0].get_closest_marker("sampled") is None
        for item in left_by(family, every)
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _families(items: list[pytest.Item], is_wide: bool) -> Iterable[list[pytest.Function]]:
    """The wide cases of each test function, or the others."""
    families: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        wide = item.get_closest_marker("wide") is not None
        if isinstance(item, pytest.Function) and wide == is_wide:
            families[item.nodeid.partition("[")[0]].append(item)
    return families.values()


@pytest.fixture(autouse=True, scope="session")
def shared_programs() -> Iterator[None]:
    """XLA compiles a program once for several tests of it, as with a rule and without."""
    patch = pytest.MonkeyPatch()
    patch.setattr(xla, "compiled", lru_cache(PROGRAMS)(xla.compiled))
    yield
    patch.undo()

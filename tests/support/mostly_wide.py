"""Parameters of a test of which the quick suite runs a few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def mostly_wide(
    items: Iterable[Any], quick: Collection[str], name: Callable[[Any], str] = str
) -> list[Any]:
    """Parameters; those without a name in `quick` belong to the wide suite alone.

    Raises:
        ValueError: A name in `quick` is that of no item.
    """
    items = list(items)
    if unknown := set(quick) - set(map(name, items)):
        raise ValueError(f"no items: {unknown}")
    return [
        pytest.param(item, id=name(item), marks=[] if name(item) in quick else [pytest.mark.wide])
        for item in items
    ]

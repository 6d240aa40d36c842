"""Samples of the cases of a test: for the quick suite, and for CI."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import pytest

Axis = tuple[str, ...]
"""The names that one `parametrize` gives values to."""


def rest_of(family: Sequence[pytest.Function]) -> Iterator[pytest.Function]:
    """The cases of one test function whose values of each parameter occur in other cases.

    A test with a single list of cases keeps all of them.
    """
    seen: set[tuple[Axis, tuple[int, ...]]] = set()
    for item in sorted(family, key=_place):
        values = set(_values(item))
        if values <= seen:
            yield item
        seen |= values


def left_by(family: Sequence[pytest.Function], every: int) -> Iterator[pytest.Function]:
    """The cases of one test function but each n-th, of which there is at least one."""
    ordered = sorted(family, key=_place)
    return (item for place, item in enumerate(ordered) if place % every)


def _place(item: pytest.Function) -> int:
    """A place in an order that does not depend on the other cases."""
    return zlib.crc32(item.nodeid.encode())


def _values(item: pytest.Function) -> Iterator[tuple[Axis, tuple[int, ...]]]:
    """The value of each `parametrize` in a case, by identity; none for a test without."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    axes = [_names(mark.args[0]) for mark in item.iter_markers("parametrize")]
    others = params.keys() - {name for axis in axes for name in axis}  # of fixtures
    for axis in (*axes, *((name,) for name in others)):
        yield axis, tuple(id(params[name]) for name in axis)
    if not params:
        yield (item.nodeid,), ()


def _names(names: str | Sequence[str]) -> Axis:
    return tuple(x.strip() for x in names.split(",")) if isinstance(names, str) else tuple(names)

"""Which cases the quick suite leaves to the wide one, and which CI leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from quick_sample import left_by, rest_of

WIDTHS, KINDS, PAIRS = [1, 2, 3, 4], ["a", "b", "c"], [("x", True), ("y", False), ("x", False)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def example_of_a_product(kind: str, width: int) -> None: ...


@pytest.mark.parametrize(("name", "flag"), PAIRS)
def example_of_a_list(name: str, flag: bool) -> None: ...


def example_alone() -> None: ...


class Spec:
    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params


class Case:
    """What `rest_of` reads of a pytest item."""

    def __init__(self, function: Any, **params: Any) -> None:
        self.nodeid = f"{function.__name__}[{params}]"
        self._marks = getattr(function, "pytestmark", [])
        if params:
            self.callspec = Spec(params)

    def iter_markers(self, name: str) -> Sequence[pytest.Mark]:
        return [mark for mark in self._marks if mark.name == name]


def test_each_value_of_a_product_stays() -> None:
    cases = [
        Case(example_of_a_product, kind=kind, width=width) for kind, width in product(KINDS, WIDTHS)
    ]
    rest: list[Any] = list(rest_of(cases))  # type: ignore[arg-type]
    kept = [case.callspec.params for case in cases if case not in rest]
    assert {case["kind"] for case in kept} == set(KINDS)
    assert {case["width"] for case in kept} == set(WIDTHS)
    assert len(kept) <= len(KINDS) + len(WIDTHS) < len(cases)
    again: list[Any] = list(rest_of(cases[::-1]))  # type: ignore[arg-type]
    assert set(again) == set(rest), "the order of collection does not matter"


def test_a_list_of_cases_stays_whole() -> None:
    cases = [Case(example_of_a_list, name=name, flag=flag) for name, flag in PAIRS]
    assert not list(rest_of(cases))  # type: ignore[arg-type]


def test_a_test_without_parameters_stays() -> None:
    assert not list(rest_of([Case(example_alone)]))  # type: ignore[list-item]


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (3, 1), (4, 2), (9, 3)])
def test_a_third_of_the_cases(count: int, kept: int) -> None:
    cases: list[Any] = [Case(example_alone, width=width) for width in range(count)]
    left = list(left_by(cases, 3))
    assert len(left) == count - kept
    assert set(left_by(cases[::-1], 3)) == set(left)
    assert not list(left_by(cases, 1))

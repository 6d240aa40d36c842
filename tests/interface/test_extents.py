"""Texts of extents have the numbers of the formulas that they came from."""

from __future__ import annotations

import itertools

import pytest

from hlo2onnx.interface.extents import Extent, holds
from hlo2onnx.ir.dims import evaluate, parse

TEXTS = [
    "b",
    "2*b + 1",
    "b*s - 3*s",
    "floordiv(s, 2)",
    "floordiv(3*b + 1, 4) + s",
    "mod(b + 1, 3)",
    "max(b, s) - min(b, 2)",
    "non_negative(b - 3)",
    "b^2*s",
    "-b + 9",
    "floordiv(b, 2)*floordiv(s, 3)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_numbers(text: str) -> None:
    dim = parse(text)
    ours, jaxs = Extent(str(dim)), Extent(text)
    for b, s in itertools.product(range(1, 9), range(1, 6)):
        values = {"b": b, "s": s}
        assert ours.value(values) == jaxs.value(values) == evaluate(dim, values)
    assert ours.value({}) is None


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("b", 3, ("b", 3)),
        ("2*b + 1", 7, ("b", 3)),
        ("-3*b + 9", 0, ("b", 3)),
        ("(b - 1)*2", 4, ("b", 3)),
        ("b/2 + 1", 3, ("b", 4)),
        ("b + s", 3, None),
        ("b*b", 9, None),
        ("floor(b/2)", 9, None),
        ("2*b - 2*b", 0, None),
    ],
)
def test_the_symbol_of_an_extent(text: str, value: int, found: tuple[str, int] | None) -> None:
    assert Extent(text).solve(value, {}) == found


def test_the_last_unknown_symbol() -> None:
    assert Extent("b + 2*s").solve(9, {"b": 3}) == ("s", 3)
    assert Extent("b + 2*s").solve(9, {"b": 3, "s": 3}) is None
    with pytest.raises(ValueError, match="8 is not b"):
        Extent("b + 2*s").solve(8, {"b": 3})


def test_no_integer_fits() -> None:
    with pytest.raises(ValueError, match=r"4 is not 2\*b \+ 1 for any b"):
        Extent("2*b + 1").solve(4, {})


def test_names_that_are_no_identifiers() -> None:
    extent = Extent("params/w_dim0", ["params/w_dim0"])
    assert extent.solve(5, {}) == ("params/w_dim0", 5)
    assert extent.value({"params/w_dim0": 5}) == 5


@pytest.mark.parametrize(
    ("text", "truth"),
    [("a >= b", True), ("a<=b", False), ("mod(a, 2) == 0", True), ("c >= 9", True)],
)
def test_constraints(text: str, truth: bool) -> None:
    assert holds(text, {"a": 4, "b": 3}) == truth


@pytest.mark.parametrize(
    "text",
    ["", "b +", "import os", "b.real", "b[0]", "open('x')", "__import__('os')", "1.5*b", "b @ b"],
)
def test_only_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match=r"extents|has no value"):
        Extent(text).value({"b": 1, "open": 1, "__import__": 1})
    with pytest.raises(ValueError, match=r"extents|has no value|constraint"):
        holds(text, {"b": 1})

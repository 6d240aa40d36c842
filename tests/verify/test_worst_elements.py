"""The elements of an output with the largest errors, the worst first."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo2onnx.verify.compare import WORST, compare


def test_the_worst_comes_first() -> None:
    expected = np.array([[100.0, 1, 2], [3, 4, 5]])
    found = compare("x", expected + np.array([[0, 0.5, 0], [0.02, 0, -0.7]]), expected).worst
    assert [item.index for item in found] == [(1, 2), (0, 1), (1, 0)]
    assert found[0].error == pytest.approx(0.007)
    assert (found[0].actual, found[0].expected) == ("4.3", "5.0")


def test_nan_and_infinity() -> None:
    expected = np.array([np.nan, np.inf, 1, np.inf, 0], np.float32)
    actual = np.array([np.nan, np.inf, np.nan, -np.inf, 0], np.float32)
    found = compare("x", actual, expected).worst
    assert {item.index for item in found} == {(2,), (3,)}
    assert found[0].error == np.inf


def test_many_errors() -> None:
    expected = np.ones(1000, np.float32)
    errors = np.linspace(0.1, 0.9, 1000, dtype=np.float32)
    found = compare("x", expected + errors, expected).worst
    assert len(found) == WORST and found[0].index == (999,)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "int64", "float16", "complex64", ml_dtypes.bfloat16]
)
def test_types(dtype: str) -> None:
    expected, actual = np.array([0, 1, 1]).astype(dtype), np.array([0, 1, 0]).astype(dtype)
    assert [item.index for item in compare("x", actual, expected).worst] == [(2,)]


def test_large_integers_are_exact() -> None:
    expected = np.array([2**63 - 1, 0])
    found = compare("x", expected - np.array([1, 0]), expected).worst
    assert [item.index for item in found] == [(0,)]


def test_nothing_to_compare() -> None:
    assert compare("x", np.ones(0), np.ones(0)).worst == ()
    assert compare("x", np.ones(3), np.ones(4)).worst == ()

"""The distribution of errors: a bin per decade, and the worst elements first."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo2onnx.verify.error_distribution import WORST, error_distribution


def test_bins_and_worst_elements() -> None:
    expected = np.array([[100.0, 1, 2], [3, 4, 5]])
    actual = expected + np.array([[0, 0.5, 0], [0.02, 0, -0.7]])
    found = error_distribution(actual, expected)
    assert found.counts == (("0", 3), ("1e-4", 1), ("1e-3", 2))
    assert [item.index for item in found.worst] == [(1, 2), (0, 1), (1, 0)]
    assert found.worst[0].error == pytest.approx(0.007)
    assert (found.worst[0].actual, found.worst[0].expected) == ("4.3", "5.0")


def test_nan_and_infinity() -> None:
    expected = np.array([np.nan, np.inf, 1, np.inf, 0], np.float32)
    actual = np.array([np.nan, np.inf, np.nan, -np.inf, 0], np.float32)
    found = error_distribution(actual, expected)
    assert found.counts == (("0", 3), ("NaN/inf", 2))
    assert {item.index for item in found.worst} == {(2,), (3,)}
    assert found.worst[0].error == np.inf


def test_many_errors() -> None:
    expected = np.ones(1000, np.float32)
    found = error_distribution(expected + np.linspace(0.1, 0.9, 1000, dtype=np.float32), expected)
    assert len(found.worst) == WORST and found.worst[0].index == (999,)
    assert sum(count for _, count in found.counts) == 1000


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "int64", "float16", "complex64", ml_dtypes.bfloat16]
)
def test_types(dtype: str) -> None:
    expected, actual = np.array([0, 1, 1]).astype(dtype), np.array([0, 1, 0]).astype(dtype)
    found = error_distribution(actual, expected)
    assert found.counts[0] == ("0", 2) and found.worst[0].index == (2,)


def test_large_integers_are_exact() -> None:
    expected = np.array([2**63 - 1, 0])
    found = error_distribution(expected - np.array([1, 0]), expected)
    assert [item.index for item in found.worst] == [(0,)]


def test_nothing_to_compare() -> None:
    assert error_distribution(np.ones(0), np.ones(0)).counts == ()
    assert error_distribution(np.ones(3), np.ones(4)).counts == ()
    assert error_distribution(np.float32(2), np.float32(1)).worst[0].index == ()

"""Broadcasts in which each element of one operand meets consecutive elements of the other."""

from __future__ import annotations

import onnx_ir as oir
import pytest

from hlo2onnx.raising.rules.nn.batch_normalization import _repeats

Dims = tuple[int, ...]


def value(dims: Dims) -> oir.Value:
    return oir.Value(name="x", shape=oir.Shape(dims), type=oir.TensorType(oir.DataType.FLOAT))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ((2, 3), (2, 3), True),
        ((2, 1), (2, 3), True),
        ((), (2, 3), True),
        ((1,), (2, 3), True),
        ((3,), (1, 3), True),
        ((3, 1), (1, 3, 4), True),
        ((3,), (2, 3), False),
        ((2, 1), (2, 1, 3), False),
        ((1, 3), (2, 3), False),
        ((2, 3, 1), (2, 3), False),
    ],
)
def test_elements_beside_some_that_follow_each_other(x: Dims, y: Dims, expected: bool) -> None:
    assert _repeats(value(x), value(y)) == expected

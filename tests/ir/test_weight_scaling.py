"""What a factor does to the range and the digits of weights."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import foreign, model_of, negated

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.weight_scaling import (
    channel_rows,
    is_rounded,
    keeps_digits,
    keeps_range,
    may_sum_exactly,
)

F4 = np.dtype(np.float32)
LONG = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
X = np.ones((2, 3, 8, 8), np.float32)


def node_of(op_type: str, **attributes: object) -> oir.Node:
    items = [oir.AttrInt64(name, item) for name, item in attributes.items()]  # type: ignore[arg-type]
    return oir.Node("", op_type, [], items)


def test_rows_are_channels() -> None:
    four = np.arange(4 * 6 * 2 * 2).reshape(4, 6, 2, 2)
    assert channel_rows(node_of("Conv"), four).tolist() == four.reshape(4, 24).tolist()
    rows = channel_rows(node_of("ConvTranspose"), four)
    assert rows.tolist() == [four[:, n].reshape(-1).tolist() for n in range(6)]
    rows = channel_rows(node_of("ConvTranspose", group=2), four)
    wanted = [four[2 * g : 2 * g + 2, n].reshape(-1).tolist() for g in range(2) for n in range(6)]
    assert rows.tolist() == wanted
    two = np.arange(6).reshape(2, 3)
    assert channel_rows(node_of("MatMul"), two).tolist() == two.T.tolist()
    assert channel_rows(node_of("Gemm"), two).tolist() == two.T.tolist()
    assert channel_rows(node_of("Gemm", transB=1), two).tolist() == two.tolist()
    assert channel_rows(node_of("MatMul"), two[0]).tolist() == [[0, 1, 2]]
    three = np.arange(24).reshape(2, 3, 4)
    rows = channel_rows(node_of("MatMul"), three)
    assert rows.tolist() == [three[..., n].reshape(-1).tolist() for n in range(4)]


TINY, MOST = float(np.finfo(F4).tiny), float(np.finfo(F4).max)


@pytest.mark.parametrize(
    ("row", "factor", "fits"),
    [
        ([1, -1], 3, True),
        ([MOST / 2, 0], 2, True),
        ([MOST / 2, MOST / 2], 1, True),
        ([MOST, -MOST], 0.75, False),
        ([MOST / 2, 1], 2.1, False),
        ([TINY * 2, 1], 0.5, True),
        ([TINY * 2, 1], -0.4, False),
        ([0, 1], 0.1, True),
        ([1, 2], 0, True),
        ([1, np.inf], 1, False),
        ([1, np.nan], 1, False),
        ([1, 2], np.nan, False),
        ([1, 2], np.inf, False),
    ],
)
def test_range(row: list[float], factor: float, fits: bool) -> None:
    assert keeps_range(np.array([row], np.float32), np.array(factor), F4) == fits
    both = np.array([[1, 1], row], np.float32)
    assert keeps_range(both, np.array([1, factor]), F4) == fits


@pytest.mark.parametrize(
    ("row", "is_short"),
    [
        ([1, 1, 1, 1], True),
        ([0.5, -0.25, 3], True),
        ([2.0**18 - 1, 1], True),
        ([2.0**18, 1], False),
        ([2.0**17, -(2.0**17), 1], False),
        ([2.0**17, -(2.0**17)], True),
        ([0.1], False),
        ([0, 0], False),
        ([0, 3], True),
        ([1] * 64 + [2.0**18], False),
        ([1] * 65, True),
        ([0] * 64 + [1], True),
        ([0.1] + [1] * 70, False),
    ],
)
def test_short_sums(row: list[float], is_short: bool) -> None:
    rows = np.array([row, np.full(len(row), 0.1)], np.float32)
    assert may_sum_exactly(rows).tolist() == [is_short, False]
    if len(row) < 60:
        doubles = np.array([row], np.float64) * 2.0**29
        assert not is_short or may_sum_exactly(doubles).all()


def test_digits() -> None:
    short, long = np.ones((2, 9), np.float32), np.full((2, 9), 0.1, np.float32)
    assert keeps_digits(long, np.array([3.0, 5.0]))
    assert not keeps_digits(short, np.array([3.0, 5.0]))
    assert not keeps_digits(short, np.array(3.0))
    assert keeps_digits(short, np.array([0.5, -4.0]))
    assert not keeps_digits(short, np.array([0.5, 3.0]))
    assert keeps_digits(np.stack([long[0], short[0]]), np.array([3.0, 2.0]))
    assert keeps_digits(short * 0, np.array([3.0, 3.0]))


def rounds(build: object, **inputs: np.ndarray) -> bool:
    model = model_of(build, {"x": X, **inputs})  # type: ignore[arg-type]
    return is_rounded(model.graph.outputs[0])


def conv(b: GraphBuilder, x: oir.Value, w: np.ndarray = LONG) -> oir.Value:
    return b.Conv(x, b.const(w))


def test_values_that_are_rounded() -> None:
    ones, one_short = np.ones_like(LONG), np.where(np.arange(4).reshape(4, 1, 1, 1) == 1, 1, LONG)
    assert rounds(conv)
    assert rounds(lambda b, x: negated(b, conv(b, x), 3))
    assert not rounds(lambda b, x: negated(b, conv(b, x), 4))
    assert not rounds(lambda b, x: b.Neg(x))
    assert not rounds(lambda b, x: conv(b, x, ones))
    assert not rounds(lambda b, x: conv(b, x, one_short.astype(np.float32)))
    tenths = np.full((8, 8), 0.1, np.float32)
    assert rounds(lambda b, x: b.Add(b.Exp(x), b.MatMul(x, b.const(tenths))))
    assert rounds(lambda b, x, w: b.Conv(x, w), w=ones)
    assert not rounds(lambda b, x: foreign(conv(b, x)))
    assert not rounds(lambda b, x: conv(b, conv(b, x), np.ones((1, 4, 1, 1), np.float32)))

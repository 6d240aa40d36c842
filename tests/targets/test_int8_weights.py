"""Where weights in 8 bits are spelled out for a runtime, and where they stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build
from workaround_cases import FLOATS, T, changed

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.targets.workarounds.constants import spell_out_weights, write_zero_point

WEIGHTS = np.array([[1, -2], [3, 0], [5, 6], [-128, 127]], np.int8)


def dequantized(
    b: GraphBuilder, zero: object = None, scale: object = 0.5, axis: int | None = None
) -> oir.Value:
    given = [] if zero is None else [b.const(np.asarray(zero, np.int8))]
    factors = b.const(np.asarray(scale, np.float32))
    made: oir.Value = b.DequantizeLinear(b.const(WEIGHTS), factors, *given, axis=axis)
    return made


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
@pytest.mark.parametrize(
    ("zero", "scale", "axis", "is_moved"),
    [
        (None, 0.5, None, False),
        (0, 0.5, None, False),
        (3, 0.5, None, True),
        ([0, 0], [0.5, 2], None, False),
        ([0, 7], [0.5, 2], None, True),
        ([0, 7], [0.5, 2], -1, True),
        ([0, 7, 0, 0], [0.5, 2, 1, 4], 0, True),
    ],
)
def test_weights_are_spelled_out(
    op_type: str, zero: object, scale: object, axis: int | None, is_moved: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op(op_type, x, dequantized(b, zero, scale, axis))  # type: ignore[no-any-return]

    nodes = changed(build, "DequantizeLinear", spell_out_weights, x=FLOATS)
    assert nodes == Counter(Cast=1, Mul=1) + Counter(["Sub"] * is_moved) + Counter([op_type])


def test_weights_of_one_product_among_other_readers() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        w = dequantized(b)
        return [b.MatMul(x, w), b.Neg(w), b.MatMul(b.transpose(w, (1, 0)), w)]

    nodes = changed(build, "DequantizeLinear", spell_out_weights, x=FLOATS)
    assert nodes == Counter(Cast=1, Mul=1, MatMul=2, Neg=1, Transpose=1)


@pytest.mark.parametrize("zero", [None, [[0, 0], [0, 0]], [[1, 0], [-2, 3]]])
def test_weights_in_blocks(zero: object) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale = b.const(np.array([[1, 2], [0.5, 3]], np.float32))
        given = [] if zero is None else [b.const(np.asarray(zero, np.int8))]
        w = b.DequantizeLinear(b.const(WEIGHTS), scale, *given, axis=0, block_size=2)
        result: oir.Value = b.MatMul(x, w)
        return result

    nodes = changed(build, "DequantizeLinear", spell_out_weights, x=FLOATS)
    assert nodes is not None
    moved = zero is not None and np.any(zero)
    assert nodes == Counter(Reshape=1, Cast=1, Mul=1, MatMul=1) + Counter(["Sub"] * bool(moved))


def test_weights_that_stay() -> None:
    def kept(build: Build, runs: bool = True, **inputs: np.ndarray) -> bool:
        return changed(build, "DequantizeLinear", spell_out_weights, runs, **inputs) is None

    def stored(b: GraphBuilder, q: oir.Value) -> oir.Value:
        x = b.DequantizeLinear(q, b.scalar(0.25, T.FLOAT))
        result: oir.Value = b.MatMul(x, dequantized(b))
        return result

    assert kept(lambda b, x: b.QuantizeLinear(dequantized(b), b.scalar(0.25, T.FLOAT),
                                              b.scalar(0, T.INT8)), x=FLOATS)  # fmt: skip
    assert kept(lambda b, s, x: b.MatMul(x, b.DequantizeLinear(b.const(WEIGHTS), s)),
                s=np.array(0.5, np.float32), x=FLOATS)  # fmt: skip
    assert kept(lambda b, q, x: b.MatMul(x, b.DequantizeLinear(q, b.scalar(0.5, T.FLOAT))),
                q=WEIGHTS, x=FLOATS)  # fmt: skip
    assert kept(stored, q=np.ones((3, 4), np.int8))


@pytest.mark.parametrize(
    ("zero", "scale", "is_written"),
    [(None, 0.5, False), (None, [0.5, 2], True), ([0, 7], [0.5, 2], False)],
)
def test_zero_points_of_several_scales(zero: object, scale: object, is_written: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        result: oir.Value = b.MatMul(x, dequantized(b, zero, scale))
        return result

    nodes = changed(build, "DequantizeLinear", write_zero_point, x=FLOATS)
    assert (nodes is not None) == is_written

"""Moves of half floats that are written in f32, and roundings of the parts of a Concat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.targets import load_target
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.legalize.half_moves import move_in_half

T = oir.DataType
X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
Build = Callable[[GraphBuilder, oir.Value], "oir.Value | Sequence[oir.Value]"]


def nodes(build: Build, x: np.ndarray = X) -> Counter[str]:
    """The operators afterwards; the results are the same."""
    model = model_of(build, {"x": x})
    before = run_model(model, {"x": x})
    builder = TargetBuilder(model.graph, 23, load_target("ort-cpu"))
    builder.adopt(model.graph)
    move_in_half(builder)
    remove_unused(model.graph)
    for old, new in zip(before, run_model(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(old.astype(np.float32), new.astype(np.float32))
        assert old.dtype == new.dtype
    return Counter(node.op_type for node in model.graph)


def transposed(b: GraphBuilder, x: oir.Value, narrow: oir.DataType = T.BFLOAT16) -> oir.Value:
    wide = b.cast(b.cast(x, T.BFLOAT16), T.FLOAT)
    return b.cast(b.reshape(b.transpose(wide, (1, 0)), (2, 12)), narrow)


def test_moves() -> None:
    assert nodes(transposed) == Counter(Cast=1, Transpose=1, Reshape=1)


def test_another_half_type() -> None:
    assert nodes(lambda b, x: transposed(b, x, T.FLOAT16))["Cast"] == 3


def test_unrounded_numbers() -> None:
    assert nodes(lambda b, x: b.cast(b.transpose(x, (1, 0)), T.FLOAT16))["Cast"] == 1


def test_without_a_kernel() -> None:
    """No kernel expands bf16."""

    def expanded(b: GraphBuilder, x: oir.Value) -> oir.Value:
        wide = b.cast(b.cast(x, T.BFLOAT16), T.FLOAT)
        return b.cast(b.expand(wide, (2, 4, 6)), T.BFLOAT16)

    assert nodes(expanded)["Cast"] == 3


def test_other_readers() -> None:
    def read_twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        wide = b.transpose(b.cast(b.cast(x, T.FLOAT16), T.FLOAT), (1, 0))
        return [b.cast(wide, T.FLOAT16), b.Exp(wide)]

    assert nodes(read_twice)["Cast"] == 3


def parts(
    b: GraphBuilder, x: oir.Value, types: Sequence[oir.DataType], count: int = 2
) -> list[oir.Value]:
    """Numbers of which the first ones are rounded to these types."""
    values = [b.Exp(x), b.Tanh(x), b.Neg(x)][:count]
    rounded = [b.cast(b.cast(y, t), T.FLOAT) for y, t in zip(values, types, strict=False)]
    return [*rounded, *values[len(rounded) :]]


JOINED: dict[str, tuple[Build, int]] = {
    "all": (lambda b, x: b.concat(parts(b, x, [T.FLOAT16, T.FLOAT16]), 0), 2),
    "bf16": (lambda b, x: b.concat(parts(b, x, [T.BFLOAT16] * 3, 3), 1), 2),
    "two types": (lambda b, x: b.concat(parts(b, x, [T.FLOAT16, T.BFLOAT16]), 0), 4),
    "some": (lambda b, x: b.concat(parts(b, x, [T.FLOAT16]), 0), 2),
    "not rounded": (lambda b, x: b.concat(parts(b, x, []), 0), 0),
}


@pytest.mark.parametrize("name", JOINED)
def test_parts_are_rounded_at_once(name: str) -> None:
    build, casts = JOINED[name]
    found = nodes(build)
    assert found["Cast"] == casts
    assert found["Concat"] == 1


def test_parts_with_other_readers() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        both = parts(b, x, [T.FLOAT16, T.FLOAT16])
        return [b.concat(both, 0), *map(b.Sqrt, both)]

    assert nodes(build)["Cast"] == 4


def test_bits_of_all_numbers() -> None:
    """NaN, infinities and zeros of both signs move as they are."""
    x = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 1e-9]], np.float32)
    assert nodes(lambda b, x: b.cast(b.transpose(b.cast(x, T.FLOAT), (1, 0)), T.BFLOAT16),
                 x.astype(ml_dtypes.bfloat16)) == Counter(Transpose=1)  # fmt: skip

"""Exact arithmetic on integers times a power of two is done in one step; what rounds stays."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Rewrite, fires, model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.algebra.dyadic import DyadicArithmetic
from hlo2onnx.raising.rules.algebra.simplification import RedundantClamp
from hlo2onnx.raising.rules.algebra.uniform_random import UniformFma
from hlo2onnx.targets import load_target

T = oir.DataType
RULES = DyadicArithmetic(), RedundantClamp()
BITS = np.concatenate(
    [[0, 1, 511, 512, 2**31, 2**32 - 1], np.random.default_rng(0).integers(1 << 32, size=50)]
).astype(np.uint32)
X = {"x": BITS}


def uniform(
    b: GraphBuilder, x: oir.Value, digits: int = 23, dtype: oir.DataType = T.FLOAT
) -> oir.Value:
    """Multiples of 2^-digits in [0, 1)."""
    shift = b.scalar_like(32 - digits, x)
    number = b.cast(b.BitShift(x, shift, direction="RIGHT"), dtype)
    return b.Mul(number, b.scalar(2.0**-digits, dtype))


CONSTANTS = {
    "u": uniform,
    "wide": partial(uniform, dtype=T.DOUBLE),
    "ONE": np.ones((1, 1), np.float32),
    "ZERO": np.zeros((1, 1), np.float32),
    "TWO": np.full((1, 1), 2, np.float32),
    "THREE": np.full((1, 1), 3, np.float32),
    "SOME": np.array([1, 2, 4], np.float32),
}
ONE_STEP = [
    "u(x) + 1.0 - 1.0",
    "u(x) + 1.0 + -1.0",
    "u(x) - 0.25 + 0.25",
    "Max(u(x) + 1.0 - 1.0 + 0.0, 0.0)",
    "u(x) * 2.0",
    "u(x) + 0.0",
    "u(x) - 0.0",
    "Max(u(x), 0.0)",
    "Min(Max(u(x), -1.0), 1.0)",
]
STAY = [
    "u(x) + 3.0 - 3.0",  # 2 + 2^-23 is no f32
    "u(x) + 0.1 - 0.1",
    "u(x) * 3.0 * 2.0",
    "u(x) * -1.0 + 0.0",  # -0 + 0 is not -0
    "Max(u(x) - 0.5, 0.0)",
    "Max(u(x), 0.5)",
    "Min(u(x), 0.5)",
    "u(x) * 1e-38 * 1e38",
    # More digits than the type has.
    "u(x, 24) + 1.0 - 1.0",
    "u(x, 32) + 1.0 - 1.0",
    # A single step of its kind, between two numbers, and products with zero.
    "u(x) + 1.0",
    "u(x) - 0.5",
    "(u(x) + 1.0) * 2.0 - 2.0",
    "1.0 - u(x)",
    "u(x) + u(x)",
    "u(x) * 0.0",
    # Numbers with axes of their own, and constants.
    "u(x) + ONE - ONE",
    "u(x) + ZERO",
    "u(x) + 1.0 - ONE",
    "u(x) * TWO",
    "SOME + 2.0",
    "SOME * 2.0",
]


@pytest.mark.parametrize("dtype", ["u", "wide"])
@pytest.mark.parametrize("text", ONE_STEP)
def test_one_step(text: str, dtype: str) -> None:
    """Reciprocals tell the zeros apart."""
    text = text.replace("u(", f"{dtype}(")
    rewrites(f"Reciprocal({text})", "BitShift Cast Mul Reciprocal", X, *RULES, constants=CONSTANTS)


@pytest.mark.parametrize("text", STAY)
def test_what_rounds_or_is_not_known_stays(text: str) -> None:
    rewrites(f"Reciprocal({text})", NOTHING, X, *RULES, constants=CONSTANTS)


@pytest.mark.parametrize("dtype", [T.FLOAT16, T.BFLOAT16])
def test_half_types(dtype: oir.DataType) -> None:
    half = partial(uniform, digits=ml_dtypes.finfo(dtype.numpy()).nmant, dtype=dtype)
    assert fires(graph("Reciprocal(half(x) + 1.0 - 1.0)", half=half), X, DyadicArithmetic())


def test_any_floats_and_the_other_zero_stay() -> None:
    """-0 of x would come instead of +0."""
    floats = {"x": np.array([1e-9, -0.0, np.nan, np.inf], np.float32)}
    for text in ("Identity(x + 1 - 1)", "Identity(Max(Max(x, -0.0), 0))"):
        rewrites(text, NOTHING, floats, *RULES)


@pytest.mark.wide
@given(
    digits=st.integers(1, 31),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]),
            st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, -1.0, 2.0, 3.0, 0.1, 2.0**-20, 2.0**-140]),
        ),
        max_size=5,
    ),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_numbers_stay(digits: int, steps: list[tuple[str, float]]) -> None:
    """`Rewrite` compares the results before and after."""
    text = f"u(x, {digits})"
    for op_type, number in steps:
        if op_type in ("Max", "Min"):
            number += 0.0  # of zeros of both signs, the runtime gives either
        text = f"{op_type}({text}, {number})"
    Rewrite(graph(f"Reciprocal({text})", **CONSTANTS), X, *RULES)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("u(x) + 0.25 + 0.5", 0.75),
        ("u(x) - 1.0 + 0.5", -0.5),
        ("u(x) + 1.0 - 0.5", 0.5),
        ("u(x) * 4.0", 2.0**-21),
    ],
)
def test_the_number_of_one_step(text: str, number: float) -> None:
    found = Rewrite(graph(f"Reciprocal({text})", **CONSTANTS), X, *RULES)
    assert sum(found.fired.values()) == 1
    last = next(
        node for node in reversed(list(found.model.graph)) if node.op_type in ("Add", "Mul")
    )
    constant = last.inputs[1]
    assert constant is not None and constant.const_value is not None
    assert constant.const_value.numpy() == number


# -- numbers of an interval ------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["5.3 * u(x) + -3.0", "-3.0 + u(x) * 5.3"])
def test_uniform_numbers_of_an_interval_are_rounded_once(text: str) -> None:
    model = model_of(graph(f"Identity({text})", **CONSTANTS), X)
    assert apply_rules(model, [UniformFma()], load_target("ort-cpu"))["uniform-fma"] == 1
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))
    (got,) = run_model(model, X)
    fraction = (BITS >> np.uint32(9)) * 2.0**-23
    want = fraction * float(np.float32(5.3)) + float(np.float32(-3))
    np.testing.assert_array_equal(got, want.astype(np.float32))


INTERVALS: dict[str, bool] = {
    "u(x) * extent + low": True,  # which are data
    "u(x) * 2.0 + -1.0": False,  # exact
    "u(x, 22) * 3.0 + 0.1": False,
    "u(x, 24) * 3.0 + 0.1": False,
    "u(x, 10, FLOAT16) * 3.0 + 0.1": False,
    "wide(x) * 3.1 + 0.1": False,
    "(u(x) + 0.1) * 3.0": False,
    "u(x) * THREE + 0.1": False,
    "reshape(u(x), (8, 7)) * 3.0 + 0.1": False,
    "cast(pixels, FLOAT) * 0.0117 + 0.1": False,
}


@pytest.mark.parametrize("text", INTERVALS)
def test_intervals(text: str) -> None:
    data = {"low": np.array(0.1, np.float32), "extent": np.array(3, np.float32)}
    inputs = X | data | {"pixels": np.arange(56, dtype=np.uint8)}
    assert fires(graph(f"Identity({text})", **CONSTANTS), inputs, UniformFma()) == INTERVALS[text]

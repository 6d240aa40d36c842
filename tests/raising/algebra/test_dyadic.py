"""Exact arithmetic on integers times a power of two is done in one step; what rounds stays."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Rewrite, model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.algebra.dyadic import DyadicArithmetic
from hlo2onnx.raising.rules.algebra.simplification import RedundantClamp
from hlo2onnx.raising.rules.algebra.uniform_random import UniformFma
from hlo2onnx.targets import load_target

T = oir.DataType
Build = Callable[[GraphBuilder, oir.Value], oir.Value]

BITS = np.concatenate(
    [[0, 1, 511, 512, 2**31, 2**32 - 1], np.random.default_rng(0).integers(1 << 32, size=50)]
).astype(np.uint32)


def uniform(
    b: GraphBuilder, x: oir.Value, dtype: oir.DataType = T.FLOAT, digits: int = 23
) -> oir.Value:
    """Multiples of 2^-digits in [0, 1)."""
    shift = b.scalar_like(32 - digits, x)
    number = b.cast(b.BitShift(x, shift, direction="RIGHT"), dtype)
    return b.Mul(number, b.scalar(2.0**-digits, dtype))


def chain(*steps: tuple[str, float], digits: int = 23, dtype: oir.DataType = T.FLOAT) -> Build:
    """A uniform number and then some operations with a number each."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        value = uniform(b, x, dtype, digits)
        for op_type, number in steps:
            value = b.op(op_type, value, b.scalar(number, dtype))
        return b.Reciprocal(value)  # which tells the zeros apart

    return build


def rewrite(build: Build) -> Rewrite:
    return Rewrite(build, {"x": BITS}, DyadicArithmetic(), RedundantClamp())


UNIFORM = ("BitShift", "Cast", "Mul", "Reciprocal")


@pytest.mark.parametrize("dtype", [T.FLOAT, T.DOUBLE])
@pytest.mark.parametrize(
    "steps",
    [
        (("Add", 1.0), ("Sub", 1.0)),
        (("Add", 1.0), ("Add", -1.0)),
        (("Sub", 0.25), ("Add", 0.25)),
        (("Add", 1.0), ("Sub", 1.0), ("Add", 0.0), ("Max", 0.0)),
        (("Mul", 2.0),),
        (("Add", 0.0),),
        (("Sub", 0.0),),
        (("Max", 0.0),),
        (("Max", -1.0), ("Min", 1.0)),
    ],
)
def test_one_step(steps: tuple[tuple[str, float], ...], dtype: oir.DataType) -> None:
    rewrite(chain(*steps, dtype=dtype)).gives(*UNIFORM)


def test_moves_are_added_up() -> None:
    rewrite(chain(("Add", 1.0), ("Sub", 0.5))).gives("BitShift", "Cast", "Mul", "Add", "Reciprocal")


@pytest.mark.parametrize("dtype", [T.FLOAT16, T.BFLOAT16])
def test_half_types(dtype: oir.DataType) -> None:
    digits = ml_dtypes.finfo(dtype.numpy()).nmant
    build = chain(("Add", 1.0), ("Sub", 1.0), digits=digits, dtype=dtype)

    model = model_of(build, {"x": BITS})
    assert (
        apply_rules(model, [DyadicArithmetic()], load_target("ort-cpu"))["dyadic-arithmetic"] == 1
    )


@pytest.mark.parametrize(
    "steps",
    [
        (("Add", 3.0), ("Sub", 3.0)),  # 2 + 2^-23 is no f32
        (("Add", 0.1), ("Sub", 0.1)),
        (("Mul", 3.0), ("Mul", 2.0)),
        (("Mul", -1.0), ("Add", 0.0)),  # -0 + 0 is not -0
        (("Sub", 0.5), ("Max", 0.0)),
        (("Max", 0.5),),
        (("Min", 0.5),),
        (("Mul", 1e-38), ("Mul", 1e38)),
    ],
)
def test_what_rounds_or_is_not_known_stays(steps: tuple[tuple[str, float], ...]) -> None:
    rewrite(chain(*steps)).nothing()


def test_more_digits_than_the_type_has_stay() -> None:
    rewrite(chain(("Add", 1.0), ("Sub", 1.0), digits=24)).nothing()
    rewrite(chain(("Add", 1.0), ("Sub", 1.0), digits=32)).nothing()


def test_any_floats_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one = b.scalar_like(1, x)
        return b.Identity(b.Sub(b.Add(x, one), one))

    floats = np.array([1e-9, -0.0, np.nan, np.inf], np.float32)
    Rewrite(build, {"x": floats}, DyadicArithmetic(), RedundantClamp()).nothing()


def test_numbers_with_axes_of_their_own_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one = b.const(np.ones((1, 1), np.float32))
        return b.Identity(b.Sub(b.Add(uniform(b, x), one), one))

    rewrite(build).nothing()


def test_maximum_with_the_other_zero_stays() -> None:
    """-0 of x would come instead of +0."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.Max(b.Max(x, b.scalar_like(-0.0, x)), b.scalar_like(0, x)))

    Rewrite(build, {"x": np.array([-0.0, 1], np.float32)}, RedundantClamp()).nothing()


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
    rewrite(chain(*steps, digits=digits))


def between(low: float, extent: float, digits: int = 23) -> Build:
    return chain(("Mul", extent), ("Add", low), digits=digits)


@pytest.mark.parametrize("swapped", [False, True])
def test_uniform_numbers_of_an_interval_are_rounded_once(swapped: bool) -> None:
    low, extent = np.float32(-3), np.float32(5.3)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        product = b.Mul(*[b.scalar(extent, T.FLOAT), uniform(b, x)][:: -1 if swapped else 1])
        return b.Identity(b.Add(*[product, b.scalar(low, T.FLOAT)][:: -1 if swapped else 1]))

    model = model_of(build, {"x": BITS})
    assert apply_rules(model, [UniformFma()], load_target("ort-cpu"))["uniform-fma"] == 1
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))
    (got,) = run_model(model, {"x": BITS})
    fraction = (BITS >> np.uint32(9)) * 2.0**-23
    want = fraction * float(extent) + float(low)
    np.testing.assert_array_equal(got, want.astype(np.float32))


def test_the_interval_may_be_data() -> None:
    def build(b: GraphBuilder, x: oir.Value, low: oir.Value, extent: oir.Value) -> oir.Value:
        return b.Identity(b.Add(b.Mul(uniform(b, x), extent), low))

    inputs = {"x": BITS, "low": np.float32(0.1), "extent": np.float32(3)}
    model = model_of(build, {name: np.asarray(array) for name, array in inputs.items()})
    assert apply_rules(model, [UniformFma()], load_target("ort-cpu"))["uniform-fma"] == 1


@pytest.mark.parametrize(
    "build",
    [
        between(-1.0, 2.0),  # exact
        between(0.1, 3.0, digits=22),
        between(0.1, 3.0, digits=24),
        chain(("Mul", 3.0), ("Add", 0.1), digits=10, dtype=T.FLOAT16),
        chain(("Mul", 3.0), ("Add", 0.1), dtype=T.DOUBLE),
        chain(("Add", 0.1), ("Mul", 3.0)),
    ],
)
def test_sums_that_are_no_such_interval_stay(build: Build) -> None:
    model = model_of(build, {"x": BITS})
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))


def test_pixels_scaled_stay_in_f32() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scaled = b.Mul(b.cast(x, T.FLOAT), b.scalar(3 / 255, T.FLOAT))
        return b.Identity(b.Add(scaled, b.scalar(0.1, T.FLOAT)))

    Rewrite(build, {"x": np.arange(256, dtype=np.uint8)}, UniformFma()).nothing()


@pytest.mark.parametrize(
    "steps",
    [
        (("Add", 1.0),),
        (("Sub", 0.5),),
        (("Add", 1.0), ("Mul", 2.0), ("Sub", 2.0)),
    ],
)
def test_a_single_step_of_its_kind_stays(steps: tuple[tuple[str, float], ...]) -> None:
    rewrite(chain(*steps)).nothing()


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        ((("Add", 0.25), ("Add", 0.5)), 0.75),
        ((("Sub", 1.0), ("Add", 0.5)), -0.5),
        ((("Add", 1.0), ("Sub", 0.5)), 0.5),
        ((("Mul", 4.0),), 2.0**-21),
    ],
)
def test_the_number_of_one_step(steps: tuple[tuple[str, float], ...], number: float) -> None:
    found = rewrite(chain(*steps))
    assert sum(found.fired.values()) == 1
    last = next(
        node for node in reversed(list(found.model.graph)) if node.op_type in ("Add", "Mul")
    )
    constant = last.inputs[1]
    assert constant is not None and constant.const_value is not None
    assert constant.const_value.numpy() == number


def test_steps_between_two_numbers_and_products_with_zero_stay() -> None:
    def subtracted(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.Sub(b.scalar(1.0, T.FLOAT), uniform(b, x)))

    def of_two(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.Add(uniform(b, x), uniform(b, x)))

    def multiplied(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.Mul(uniform(b, x), b.scalar(0.0, T.FLOAT)))

    for build in (subtracted, of_two, multiplied):
        rewrite(build).nothing()


def test_an_interval_with_more_axes_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        product = b.Mul(uniform(b, x), b.const(np.full((1, 1), 3, np.float32)))
        return b.Identity(b.Add(product, b.scalar(0.1, T.FLOAT)))

    model = model_of(build, {"x": BITS})
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))


def test_a_fraction_that_is_moved_first_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        fraction = b.reshape(uniform(b, x), (8, 7))
        product = b.Mul(fraction, b.scalar(3.0, T.FLOAT))
        return b.Identity(b.Add(product, b.scalar(0.1, T.FLOAT)))

    model = model_of(build, {"x": BITS})
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))


def test_a_constant_and_a_number_are_left_to_folding() -> None:
    for op_type in ("Add", "Mul"):

        def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
            numbers = b.const(np.array([1, 2, 4], np.float32))
            return b.Identity(b.op(op_type, numbers, b.scalar(2.0, T.FLOAT)))  # noqa: B023

        rewrite(build).nothing()


def test_an_interval_of_doubles_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        product = b.Mul(uniform(b, x, T.DOUBLE), b.scalar(3.1, T.DOUBLE))
        return b.Identity(b.Add(product, b.scalar(0.1, T.DOUBLE)))

    model = model_of(build, {"x": BITS})
    assert not apply_rules(model, [UniformFma()], load_target("ort-cpu"))


@pytest.mark.parametrize("steps", [(("Add", 0.0),), (("Add", 1.0), ("Sub", 1.0)), (("Mul", 2.0),)])
def test_a_last_number_with_more_axes_stays(steps: tuple[tuple[str, float], ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        value = uniform(b, x)
        for op_type, number in steps[:-1]:
            value = b.op(op_type, value, b.scalar(number, T.FLOAT))
        op_type, number = steps[-1]
        return b.Identity(b.op(op_type, value, b.const(np.full((1, 1), number, np.float32))))

    rewrite(build).nothing()

"""Casts of casts, truth values that are compared as numbers, and comparisons that are strict."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, model_of
from rule_names import rule

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.patterns import COMPARISONS
from hlo2onnx.targets import load_target

T = oir.DataType
BITS = np.array([[True, False, True], [False, False, True]])
NUMBERS = np.array([[1, -7, 0], [-(2**31), 2**31 - 1, 5]], np.int32)
FLOATS = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)


# -- compose-casts --------------------------------------------------------------------------------


def casts(*dtypes: oir.DataType, low: int | None = None, high: int | None = None) -> Build:
    """Casts one after the other, of integers between bounds."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if low is not None:
            assert high is not None
            x = b.Max(b.Min(x, b.scalar_like(high, x)), b.scalar_like(low, x))
        for dtype in dtypes:
            x = b.Cast(x, to=dtype)
        return b.Identity(x)

    return build


@pytest.mark.parametrize("between", [T.FLOAT, T.FLOAT16, T.BFLOAT16, T.INT8, T.UINT64, T.DOUBLE])
@pytest.mark.parametrize("final", [T.BOOL, T.INT32, T.FLOAT, T.UINT8])
def test_casts_of_truth_values(between: oir.DataType, final: oir.DataType) -> None:
    left = () if final == T.BOOL else ("Cast",)
    Rewrite(casts(between, final), {"x": BITS}, rule("compose-casts")).gives("Identity", *left)


KEPT = [
    (T.INT64, T.INT32, None, None), (T.INT16, T.INT32, -(2**15), 2**15 - 1),
    (T.FLOAT, T.INT32, -(2**24), 2**24), (T.FLOAT16, T.INT64, 0, 2048), (T.UINT8, T.FLOAT, 0, 255),
    (T.INT64, T.INT8, None, None), (T.DOUBLE, T.FLOAT, None, None), (T.FLOAT, T.UINT8, 0, 255),
]  # fmt: skip


@pytest.mark.parametrize(("between", "final", "low", "high"), KEPT)
def test_casts_of_integers_that_are_held(
    between: oir.DataType, final: oir.DataType, low: int | None, high: int | None
) -> None:
    run = Rewrite(casts(between, final, low=low, high=high), {"x": NUMBERS}, rule("compose-casts"))
    assert run.fired and run.nodes["Cast"] == (final != T.INT32)


LOST = [
    (T.INT16, T.INT32, None, None), (T.INT16, T.INT32, -(2**15), 2**15),
    (T.FLOAT, T.INT32, None, None), (T.FLOAT, T.INT32, 0, 2**24 + 1), (T.BOOL, T.INT32, 0, 1),
    (T.UINT32, T.INT64, None, None), (T.FLOAT16, T.INT32, 0, 2049),
]  # fmt: skip


@pytest.mark.parametrize(("between", "final", "low", "high"), LOST)
def test_casts_that_change_integers_stay(
    between: oir.DataType, final: oir.DataType, low: int | None, high: int | None
) -> None:
    Rewrite(
        casts(between, final, low=low, high=high), {"x": NUMBERS}, rule("compose-casts")
    ).nothing()


def test_integers_that_saturate_stay() -> None:
    """A float that the last type does not hold is no case of wrapping."""
    Rewrite(casts(T.FLOAT, T.INT64, low=0, high=300), {"x": NUMBERS}, rule("compose-casts")).gives(
        "Cast", "Identity", "Max", "Min"
    )
    graph = casts(T.FLOAT, T.UINT8, low=0, high=200)
    assert Rewrite(graph, {"x": NUMBERS}, rule("compose-casts")).fired
    assert not _fires(casts(T.FLOAT, T.UINT8, low=0, high=300))


def _fires(build: Build) -> bool:
    """Whether the rule would, of numbers for which runtimes agree."""
    return bool(Rewrite(build, {"x": np.array([1, 2], np.int32)}, rule("compose-casts")).fired)


# -- compare-choices of cast booleans --------------------------------------------------------------


@pytest.mark.parametrize("op_type", sorted(COMPARISONS))
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("number", [0.0, 1.0, 0.5, 2.0, -1.0, np.nan])
def test_truth_of_a_number(op_type: str, swapped: bool, number: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        cast = b.Cast(x, to=T.FLOAT)
        operands = (cast, b.scalar_like(number, cast))
        return b.Identity(b.op(op_type, *operands[:: -1 if swapped else 1]))

    compare = {
        "Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
        "Less": np.less, "LessOrEqual": np.less_equal,
    }[op_type]  # fmt: skip
    off, on = (compare(*((bit, number)[:: -1 if swapped else 1])) for bit in (0.0, 1.0))
    run = Rewrite(build, {"x": BITS}, rule("compare-choices"))
    if off == on:
        run.gives("Expand", "Identity")
    else:
        run.gives("Identity", *([] if on else ["Not"]))


def test_masks_of_ones() -> None:
    """As flax's attention takes them."""

    def function(x: jax.Array, mask: jax.Array) -> jax.Array:
        ones = mask.astype(jnp.float32)
        return jnp.where(ones > 0, x, -1.0) + jnp.where(ones.astype(bool), x, 2.0)

    program = hlo2onnx.translate(jax.jit(function).lower(FLOATS, BITS))
    assert program.verify(FLOATS, BITS).ok
    assert program.report.nodes == {"Where": 2, "Add": 1}


# -- redundant-not-equal --------------------------------------------------------------------------


def test_remainders_of_floats() -> None:
    x = np.linspace(-9, 9, 20, dtype=np.float32)
    program = hlo2onnx.translate(jax.jit(lambda x: x % 2.5).lower(x))
    assert program.verify(x).ok
    assert program.report.nodes == {"Mod": 1, "Less": 1, "Add": 1, "Where": 1}


# -- edges --------------------------------------------------------------------------------------

LONG = np.array([0, 5, -7, 2**53, 2**53 + 1, -(2**53) - 1, 2**62], np.int64)
BITS_OF = {T.BFLOAT16: 8, T.FLOAT16: 11, T.FLOAT: 24, T.DOUBLE: 53}


@pytest.mark.parametrize("between", BITS_OF)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("beyond", [0, 1])
def test_how_many_bits_a_float_keeps(between: T, sign: int, beyond: int) -> None:
    """Not run: what is beyond them is rounded, or not, with the runtime."""
    most = sign * ((1 << BITS_OF[between]) + beyond)
    build = casts(between, T.INT64, low=min(most, 0), high=max(most, 0))
    model = model_of(build, {"x": LONG})
    assert bool(apply_rules(model, [rule("compose-casts")], load_target("ort-cpu"))) == (not beyond)


def test_casts_of_floats_stay() -> None:
    Rewrite(casts(T.DOUBLE, T.FLOAT), {"x": FLOATS}, rule("compose-casts")).nothing()
    Rewrite(casts(T.DOUBLE, T.FLOAT16), {"x": FLOATS}, rule("compose-casts")).nothing()


@pytest.mark.parametrize(("low", "fires"), [(-128, True), (-129, False)])
def test_the_lower_end_of_an_integer_type(low: int, fires: bool) -> None:
    build = casts(T.INT8, T.INT64, low=low, high=5)
    model = model_of(build, {"x": NUMBERS})
    assert bool(apply_rules(model, [rule("compose-casts")], load_target("ort-cpu"))) == fires


def test_a_number_in_two_shapes_is_one_number() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        zero = b.const(np.zeros((1, 1), np.float32))
        return b.Not(b.And(b.Less(x, b.scalar_like(0, x)), b.Not(b.Equal(zero, x))))

    Rewrite(build, {"x": FLOATS}, rule("redundant-not-equal")).gives("Not", "Less")


def test_truth_values_are_0_and_1() -> None:
    """Which is all that the narrowest integers hold."""
    model = model_of(casts(T.INT2, T.INT32), {"x": BITS})
    assert apply_rules(model, [rule("compose-casts")], load_target("ort-cpu"))

"""Near misses of the rules for integer arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, natural
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter

T = oir.DataType
X = np.array([0, 1, 7, -8, 2**31 - 1, -(2**31)], np.int32)
BELOW = np.array([1, 2, 3, 5, 7, 11], np.int32)


def floor_divide(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x // y, as jnp.floor_divide has it."""
    signs = b.Not(b.Equal(b.Sign(x), b.Sign(y)))
    return chosen(b, x, y, signs, remainder(b, x, y))


def floored(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x % y, as JAX spells it."""
    rest = remainder(b, x, y)
    return b.Where(b.Less(rest, b.scalar_like(0, x)), b.Add(rest, y), rest)


def of_several_numbers(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Add(b.Add(x, b.const(X)), b.const(X[::-1].copy()))


def of_two_values(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Add(b.Sub(x, y), b.scalar_like(1, x))


def of_a_product(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
    return [
        b.Add(b.Mul(x, b.scalar_like(2, x)), b.scalar_like(1, x)),
        b.Add(y, b.scalar_like(1, y)),
    ]


@pytest.mark.parametrize("build", [of_several_numbers, of_two_values, of_a_product])
def test_other_sums_stay(build: Build) -> None:
    Rewrite(build, {"x": X, "y": BELOW}, rule("reassociate-constants")).nothing()


def test_a_number_may_add_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one = b.const(np.ones((1, 1), np.int32))
        return b.Sub(one, b.Add(x, one))

    Rewrite(build, {"x": X}, rule("reassociate-constants")).gives("Sub")


def test_a_number_may_have_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        one, two = b.const(np.array([1], np.int32)), b.const(np.array([2], np.int32))
        return [b.Sub(b.Sub(two, x), one), b.Add(one, b.Add(two, b.Neg(x)))]

    Rewrite(build, {"x": X}, rule("reassociate-constants")).gives("Sub", "Neg", "Add")


def chosen(
    b: GraphBuilder, x: oir.Value, y: oir.Value, signs: oir.Value, rest: oir.Value
) -> oir.Value:
    quotient = b.Div(x, y)
    inexact = b.Not(b.Equal(rest, b.scalar_like(0, x)))
    less = b.Sub(quotient, b.scalar_like(1, x))
    return b.Where(b.And(signs, inexact), less, quotient)


def remainder(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Sub(x, b.Mul(b.Div(x, y), y))


SIGNS: dict[str, tuple[Build, bool]] = {
    "the other way round": (lambda b, x, y: b.Not(b.Equal(b.Sign(y), b.Sign(x))), True),
    "of another number": (lambda b, x, y: b.Not(b.Equal(b.Sign(b.Abs(x)), b.Sign(y))), False),
    "with another sign": (lambda b, x, y: b.Not(b.Equal(b.Sign(x), b.Sign(b.Neg(x)))), False),
    "with one": (lambda b, x, y: b.Not(b.Equal(b.scalar_like(1, x), b.Sign(x))), True),
    "with zero": (lambda b, x, y: b.Not(b.Equal(b.Sign(x), b.scalar_like(0, x))), False),
    "with minus one": (lambda b, x, y: b.Not(b.Equal(b.Sign(x), b.scalar_like(-1, x))), False),
    "that are equal": (lambda b, x, y: b.Equal(b.Sign(x), b.Sign(y)), False),
    "that are less": (lambda b, x, y: b.Not(b.Less(b.Sign(x), b.Sign(y))), False),
    "given": (lambda b, x, y: b.Not(b.Not(b.Less(x, y))), False),
}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("mod", [False, True])
def test_signs_that_are_compared(name: str, mod: bool) -> None:
    signs, fires = SIGNS[name]

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        x, y = natural(b, x), natural(b, y, 1)
        rest = b.Mod(x, y) if mod else remainder(b, x, y)
        return b.Identity(chosen(b, x, y, signs(b, x, y), rest))

    rewrite = Rewrite(build, {"x": X, "y": BELOW}, rule("floor-divide"))
    rewrite.gives("Identity", "Div", "Clip", "Clip") if fires else rewrite.nothing()


@pytest.mark.parametrize("low", [0, -1])
def test_divisors_that_may_not_be_positive(low: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Identity(floor_divide(b, natural(b, x), natural(b, y, low)))

    def rest(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Identity(remainder(b, natural(b, x), natural(b, y, low)))

    def floor(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Identity(floored(b, x, natural(b, y, low)))

    inputs = {"x": X, "y": BELOW}
    Rewrite(build, inputs, rule("floor-divide")).nothing()
    Rewrite(rest, inputs, rule("remainder")).nothing()
    Rewrite(floor, inputs, rule("floor-mod")).nothing()


def one_condition(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Identity(b.Where(b.Less(x, y), b.Neg(b.Div(x, y)), b.Div(x, y)))


def either_condition(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    signs = b.Not(b.Equal(b.Sign(x), b.Sign(y)))
    inexact = b.Not(b.Equal(b.Mod(x, y), b.scalar_like(0, x)))
    return b.Identity(b.Where(b.Or(signs, inexact), x, b.Div(x, y)))


def given_condition(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    signs = b.Not(b.Equal(b.Sign(x), b.Sign(y)))
    return b.Identity(b.Where(b.And(signs, b.Less(x, y)), x, b.Div(x, y)))


def of_no_remainder(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Identity(chosen(b, x, y, b.Not(b.Equal(b.Sign(x), b.Sign(y))), b.Add(x, y)))


def of_a_float_remainder(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    rest = b.Mod(x, y, fmod=1)
    return b.Identity(chosen(b, x, y, b.Not(b.Equal(b.Sign(x), b.Sign(y))), rest))


@pytest.mark.parametrize(
    "build",
    [one_condition, either_condition, given_condition, of_no_remainder, of_a_float_remainder],
)
def test_other_conditions_choose(build: Build) -> None:
    def natural_ones(b: GraphBuilder, x: oir.Value, y: oir.Value) -> Any:
        return build(b, natural(b, x), natural(b, y, 1))

    Rewrite(natural_ones, {"x": X, "y": BELOW}, rule("floor-divide")).nothing()


@pytest.mark.parametrize("shape", [(0,), (1, 1)])
def test_a_zero_that_decides_the_shape(shape: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x, y = natural(b, x), b.scalar(3, T.INT32)
        signs = b.Not(b.Equal(b.Sign(x), b.scalar(1, T.INT32)))
        inexact = b.Not(b.Equal(b.Mod(x, y), b.const(np.zeros(shape, np.int32))))
        return b.Identity(b.Where(b.And(signs, inexact), b.Neg(b.Div(x, y)), b.Div(x, y)))

    def one_quotient(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x, y = natural(b, x), b.scalar(3, T.INT32)
        quotient = b.Div(x, y)
        signs = b.Not(b.Equal(b.Sign(x), b.scalar(1, T.INT32)))
        inexact = b.Not(b.Equal(b.Mod(x, y), b.const(np.zeros(shape, np.int32))))
        return b.Identity(b.Where(b.And(signs, inexact), b.Neg(quotient), quotient))

    for whole in (build, one_quotient):
        Rewrite(whole, {"x": X[:1]}, rule("floor-divide")).nothing()


def test_remainders_of_floats_and_other_differences_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        x, y = b.Abs(x), b.Abs(y)
        return [remainder(b, x, y), b.Sub(x, y)]

    Rewrite(
        build, {"x": X.astype(np.float32), "y": BELOW.astype(np.float32)}, rule("remainder")
    ).nothing()


CONDITIONS: dict[str, Build] = {
    "less than one": lambda b, r, y: b.Less(r, b.scalar_like(1, r)),
    "at most zero": lambda b, r, y: b.LessOrEqual(r, b.scalar_like(0, r)),
    "greater": lambda b, r, y: b.Less(b.scalar_like(0, r), r),
    "less than the divisor": lambda b, r, y: b.Less(r, y),
    "another number": lambda b, r, y: b.Less(y, b.scalar_like(0, r)),
    "and not one": lambda b, r, y: b.And(
        b.Less(r, b.scalar_like(0, r)), b.Not(b.Equal(r, b.scalar_like(-1, r)))
    ),
    "and another is not zero": lambda b, r, y: b.And(
        b.Less(r, b.scalar_like(0, r)), b.Not(b.Equal(b.Neg(r), b.scalar_like(0, r)))
    ),
    "and zero": lambda b, r, y: b.And(
        b.Less(r, b.scalar_like(0, r)), b.Equal(r, b.scalar_like(0, r))
    ),
    "or not zero": lambda b, r, y: b.Or(
        b.Less(r, b.scalar_like(0, r)), b.Not(b.Equal(r, b.scalar_like(0, r)))
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_other_conditions_of_a_remainder(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.scalar_like(7, x)
        rest = remainder(b, x, y)
        return b.Identity(b.Where(CONDITIONS[name](b, rest, y), b.Add(rest, y), rest))

    Rewrite(build, {"x": X}, rule("floor-mod")).nothing()


@pytest.mark.parametrize("swapped", [False, True])
def test_the_order_of_conditions_and_terms(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        order = -1 if swapped else 1
        y = natural(b, y, 1)
        rest = remainder(b, x, y)
        zero = b.scalar_like(0, x)
        both = (b.Less(rest, zero), b.Not(b.Equal(*(rest, zero)[::order])))
        return b.Identity(b.Where(b.And(*both[::order]), b.Add(*(rest, y)[::order]), rest))

    rules = (rule("floor-mod"), rule("redundant-not-equal"))
    Rewrite(build, {"x": X, "y": BELOW}, *rules).gives("Identity", "Mod", "Clip")


SHIFTED: dict[str, Build] = {
    "subtracted": lambda b, x, r, y: b.Sub(r, y),
    "added twice": lambda b, x, r, y: b.Add(y, y),
    "to another": lambda b, x, r, y: b.Add(x, y),
    "given": lambda b, x, r, y: x,
    "several numbers": lambda b, x, r, y: b.Add(r, b.const(np.full(6, 8, np.int32))),
    "equal numbers": lambda b, x, r, y: b.Add(r, b.const(np.array([7], np.int32))),
}


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("several", [False, True])
def test_what_is_added_to_a_remainder(name: str, several: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.const(np.full(6, 7, np.int32)) if several else b.scalar_like(7, x)
        rest = remainder(b, x, y)
        less = b.Less(rest, b.scalar_like(0, x))
        return b.Identity(b.Where(less, SHIFTED[name](b, x, rest, y), rest))

    rewrite = Rewrite(build, {"x": X}, rule("floor-mod"))
    fires = name == "equal numbers" and not several
    rewrite.gives("Identity", "Mod") if fires else rewrite.nothing()


def test_what_is_chosen_must_be_a_remainder_of_integers() -> None:
    def no_remainder(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.Where(b.Less(x, b.scalar_like(0, x)), b.Add(x, b.scalar_like(7, x)), x))

    def of_fmod(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rest, y = b.Mod(x, b.scalar_like(7, x), fmod=1), b.scalar_like(7, x)
        return b.Identity(b.Where(b.Less(rest, b.scalar_like(0, x)), b.Add(rest, y), rest))

    for build in (no_remainder, of_fmod):
        Rewrite(build, {"x": X}, rule("floor-mod")).nothing()
    floats = X.astype(np.float32)
    Rewrite(
        lambda b, x: floored(b, x, b.scalar_like(7, x)), {"x": floats}, rule("floor-mod")
    ).nothing()


def test_a_divisor_may_add_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(floored(b, x, b.const(np.array([[7]], np.int32))))

    Rewrite(build, {"x": X}, rule("floor-mod")).gives("Identity", "Mod")


def test_a_python_remainder_has_the_sign_of_its_divisor() -> None:
    """Of Mod the sum is not needed either."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.scalar_like(7, x)
        rest = b.Mod(x, y)
        less = b.Less(rest, b.scalar_like(0, x))
        return b.Identity(b.Where(less, b.Add(rest, y), rest))

    Rewrite(build, {"x": X}, rule("floor-mod")).gives("Identity", "Mod")


def test_targets_without_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        y = b.scalar_like(7, x)
        return [remainder(b, natural(b, x), y), floored(b, x, y)]

    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    Rewrite(build, {"x": X}, rule("remainder"), rule("floor-mod")).nothing()


@pytest.mark.parametrize("swapped", [False, True])
def test_another_sum_than_that_with_the_divisor_stays(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        zero, five = b.scalar_like(0, x), b.scalar_like(5, x)
        rest = b.Sub(x, b.Mul(b.Div(x, five), five))
        added = b.Add(y, rest) if swapped else b.Add(rest, y)
        return b.Neg(b.Where(b.Less(rest, zero), added, rest))

    x = np.array([7, -7, 5, 0], np.int32)
    Rewrite(build, {"x": x, "y": x}, rule("floor-mod")).nothing()

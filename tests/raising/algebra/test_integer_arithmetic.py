"""Offsets are added up; quotients and remainders of natural numbers need no guards."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, clipped, fires, natural
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder

T = oir.DataType
X = np.array([0, 1, 7, -8, 2**31 - 1, -(2**31)], np.int32)


@pytest.mark.parametrize(
    ("build", "left"),
    [
        (lambda b, x, k: b.Add(b.Add(x, k(2)), k(2**31 - 1)), "Add"),
        (lambda b, x, k: b.Sub(b.Add(k(2), x), k(5)), "Add"),
        (lambda b, x, k: b.Sub(b.Sub(k(7), x), k(1)), "Sub"),
        (lambda b, x, k: b.Sub(k(7), b.Sub(k(1), x)), "Add"),
        (lambda b, x, k: b.Sub(k(-(2**31)), b.Add(x, k(1))), "Sub"),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_compose_offsets(build: object, left: str, dtype: type) -> None:
    def whole(b: GraphBuilder, x: oir.Value) -> oir.Value:
        def k(item: int) -> oir.Value:
            return b.const(np.array(item % 2**64, np.uint64).astype(dtype))

        return build(b, x, k)  # type: ignore[operator, no-any-return]

    Rewrite(whole, {"x": X.astype(dtype)}, rule("reassociate-constants")).gives(left)


def test_offsets_of_floats_round() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Add(b.Add(x, b.scalar(1, T.FLOAT)), b.scalar(-1, T.FLOAT))

    Rewrite(build, {"x": np.full(2, 1e-9, np.float32)}, rule("reassociate-constants")).nothing()


def test_a_sum_that_others_read_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        inner = b.Add(x, b.scalar(1, T.INT32))
        return [b.Neg(inner), b.Add(inner, b.scalar(1, T.INT32))]

    Rewrite(build, {"x": X}, rule("reassociate-constants")).nothing()


def floor_divide(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """x // y, as jnp.floor_divide has it."""
    quotient = b.Div(x, y)
    rest = b.Sub(x, b.Mul(quotient, y))
    zero, one = b.scalar_like(0, x), b.scalar_like(1, x)
    signs = b.Not(b.Equal(b.Sign(x), b.Sign(y)))
    inexact = b.Not(b.Equal(rest, zero))
    return b.Where(b.And(signs, inexact), b.Sub(quotient, one), quotient)


def test_floor_divide() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Identity(floor_divide(b, natural(b, x), natural(b, y, 1)))

    inputs = {"x": X, "y": X[::-1].copy()}
    Rewrite(build, inputs, rule("floor-divide"), rule("remainder")).gives(
        "Identity", "Div", "Clip", "Clip"
    )


def test_floor_divide_by_a_number() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x, y = natural(b, x), b.scalar(3, T.INT32)
        quotient = b.Div(x, y)
        signs = b.Not(b.Equal(b.Sign(x), b.scalar(1, T.INT32)))
        inexact = b.Not(b.Equal(b.Mod(x, y), b.scalar(0, T.INT32)))
        less = b.Sub(quotient, b.scalar(1, T.INT32))
        return b.Identity(b.Where(b.And(inexact, signs), less, quotient))

    Rewrite(build, {"x": X}, rule("floor-divide")).gives("Identity", "Div", "Clip")


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("number", [1, 3, 127])
def test_floor_divide_of_what_may_be_negative(number: int, dtype: type) -> None:
    """The remainder has the sign of x."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return floor_divide(b, x, b.scalar_like(number, x))

    limits = np.iinfo(dtype)
    near = [limits.min, limits.min + 1, -4, -3, -2, -1, 0, 1, 2, 3, 4, limits.max - 1, limits.max]
    x = np.array(near, dtype)
    if dtype is np.int8:  # the runtime has no kernels of this type
        assert fires(build, {"x": x}, rule("floor-divide"))
        return
    found = Rewrite(build, {"x": x}, rule("floor-divide"))
    if dtype is np.int64:  # it has no Clip of this type
        found.gives("Div", "Mul", "Sub", "Less", "Sub", "Where")
    else:
        found.gives("Clip", "BitwiseXor", "Div", "BitwiseXor")


@pytest.mark.parametrize("kind", ["bounds", "quotient", "remainder"])
def test_floor_divide_with_a_remainder(kind: str) -> None:
    """Where quotient or remainder are needed, or bounds of the result may prove something."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        x = clipped(b, x, -100, 100) if kind == "bounds" else x
        y = b.scalar(3, T.INT32)
        made = floor_divide(b, x, y)
        quotient = next(node for node in x.consumers() if node.op_type == "Div").outputs[0]
        rest = next(node for node in x.consumers() if node.op_type == "Sub").outputs[0]
        others = {"bounds": x, "quotient": quotient, "remainder": rest}
        return [made, b.Neg(others[kind])]

    found = Rewrite(build, {"x": X}, rule("floor-divide"))
    clip = ["Clip"] if kind == "bounds" else []
    found.gives("Div", "Mul", "Sub", "Less", "Sub", "Where", "Neg", *clip)


def test_floor_divide_by_what_may_be_negative() -> None:
    inputs = {"x": X, "y": np.array([3, -2, 1, 5, -7, 2, 9, 4], np.int32)[: X.size]}
    Rewrite(floor_divide, inputs, rule("floor-divide")).nothing()

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return floor_divide(b, x, b.scalar(-3, T.INT32))

    Rewrite(build, {"x": X}, rule("floor-divide")).nothing()


def test_floor_divide_with_a_remainder_of_the_divisors_sign() -> None:
    """It is never negative."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y, one = b.scalar(3, T.INT32), b.scalar(1, T.INT32)
        quotient = b.Div(x, y)
        inexact = b.Not(b.Equal(b.Mod(x, y), b.scalar(0, T.INT32)))
        both = b.And(b.Not(b.Equal(b.Sign(x), one)), inexact)
        return b.Where(both, b.Sub(quotient, one), quotient)

    Rewrite(build, {"x": X}, rule("floor-divide")).nothing()


def test_floor_divide_compares_with_another_number() -> None:
    """x % y != 1 is no question for a remainder."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x, y, one = natural(b, x), b.scalar(3, T.INT32), b.scalar(1, T.INT32)
        quotient = b.Div(x, y)
        both = b.And(b.Not(b.Equal(b.Sign(x), one)), b.Not(b.Equal(b.Mod(x, y), one)))
        return b.Where(both, b.Sub(quotient, one), quotient)

    Rewrite(build, {"x": X}, rule("floor-divide")).nothing()


@pytest.mark.parametrize("low", [0, -1])
def test_remainder(low: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x, y = natural(b, x, low), b.scalar(7, T.INT32)
        return b.Sub(x, b.Mul(y, b.Div(x, y)))

    rewrite = Rewrite(build, {"x": X}, rule("remainder"))
    rewrite.gives("Clip", "Mod") if low == 0 else rewrite.nothing()


def test_the_remainder_of_another_number() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        x = natural(b, x)
        return b.Sub(x, b.Mul(b.Div(x, b.scalar(7, T.INT32)), b.scalar(6, T.INT32)))

    Rewrite(build, {"x": X}, rule("remainder")).nothing()


# -- remainders with the sign of the divisor ------------------------------------------------------


def floored(
    b: GraphBuilder, x: oir.Value, y: oir.Value, also: bool = True, added: int | None = None
) -> oir.Value:
    """As JAX spells x % y, less what other rules know."""
    rest = b.Sub(x, b.Mul(b.Div(x, y), y))
    zero = b.scalar_like(0, x)
    condition = b.Less(rest, zero)
    if also:
        condition = b.And(condition, b.Not(b.Equal(rest, zero)))
    shifted = b.Add(rest, y if added is None else b.scalar_like(added, x))
    return b.Where(condition, shifted, rest)


@pytest.mark.parametrize("also", [True, False])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_floor_remainder(dtype: type, also: bool) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 6, 7, -1, -7, -8, info.max, info.min, info.min + 1], dtype)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return floored(b, x, b.scalar_like(7, x), also)

    Rewrite(build, {"x": x}, rule("floor-mod"), rule("redundant-not-equal")).gives("Mod")


def test_floor_remainder_of_a_positive_number_known_at_run_time() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return floored(b, x, b.Clip(y, b.scalar_like(1, y), b.scalar_like(9, y)))

    y = np.array([1, 2, 3, 4, 5, 6], np.int32)
    rules = (rule("floor-mod"), rule("redundant-not-equal"))
    Rewrite(build, {"x": X, "y": y}, *rules).gives("Clip", "Mod")


@pytest.mark.parametrize("divisor", ["negative", "unknown", "another"])
def test_remainders_that_keep_their_sign(divisor: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        by = {"negative": b.scalar_like(-7, x), "unknown": y}.get(divisor, b.scalar_like(7, x))
        return floored(b, x, by, added=6 if divisor == "another" else None)

    y = np.array([1, 2, 3, 4, 5, 6], np.int32)
    rules = (rule("floor-mod"), rule("redundant-not-equal"))
    fired = Rewrite(build, {"x": X, "y": y}, *rules).fired
    assert not fired["floor-mod"]

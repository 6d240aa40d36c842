"""Integers as bits: what the helpers of handlers emit, and where they need less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted, emitter

from dialect_handlers.common import bits as integer_bits

T = oir.DataType
INT32 = np.array([-(2**31), -77, -1, 0, 1, 5, 2**31 - 1], np.int32)
NATURAL = np.array([0, 1, 2, 77, 2**31 - 1], np.int32)


def test_types_of_a_width() -> None:
    for width in (4, 8, 16, 32, 64):
        assert integer_bits.unsigned_type(width).name == f"UINT{width}"
        assert integer_bits.signed_type(width).name == f"INT{width}"


def test_wrapped_numbers() -> None:
    for dtype, low, high in ((T.INT8, -128, 127), (T.UINT8, 0, 255), (T.INT4, -8, 7)):
        modulus = high - low + 1
        for number in range(-3 * modulus, 3 * modulus):
            wrapped = integer_bits.wrapped(number, dtype)
            assert low <= wrapped <= high and (wrapped - number) % modulus == 0


def test_the_one_value_of_a_constant() -> None:
    em = emitter()
    for array, value in (
        (np.array([[3, 3], [3, 3]], np.int32), 3),
        (np.array(-7, np.int8), -7),
        (np.array([3, 3, 4], np.int32), None),
        (np.array([4, 3, 3], np.int32), None),
        (np.zeros(0, np.int32), None),
    ):
        assert integer_bits.uniform(em, em.const(array)) == value
    assert integer_bits.uniform(em, em.value("x", T.INT32, (2,))) is None


@pytest.mark.parametrize(("amount", "known"), [(-1, None), (0, 0), (7, 7), (8, None), (300, None)])
def test_known_amounts_are_less_than_the_width(amount: int, known: int | None) -> None:
    em = emitter()
    x = em.value("x", T.INT8, (2,))
    assert integer_bits.known_amount(em, x, em.const(np.array([amount, amount], np.int32))) == known
    assert integer_bits.known_amount(em, x, em.value("amount", T.INT32, (2,))) is None


def test_what_is_provably_in_range() -> None:
    em = emitter()
    x = em.const(np.array([-2, 5], np.int32))
    assert integer_bits.in_range(em, x, -2, 5)
    assert not integer_bits.in_range(em, x, -1, 5)
    assert not integer_bits.in_range(em, x, -2, 4)
    assert not integer_bits.in_range(em, em.value("f", T.FLOAT, ()), 0, 1)


SHIFTS: list[tuple[str, int, np.ndarray, list[str], Callable[[int], int]]] = [
    ("shift_left", 0, INT32, [], lambda x: x),
    ("shift_left", 3, INT32, ["Mul"], lambda x: x << 3),
    ("shift_left", 31, INT32, ["Mul"], lambda x: x << 31),
    ("shift_left", 3, INT32.view(np.uint32), ["BitShift"], lambda x: x << 3),
    ("shift_right_logical", 0, INT32, [], lambda x: x),
    ("shift_right_logical", 3, INT32, ["Cast", "BitShift", "Cast"], lambda x: x % 2**32 >> 3),
    ("shift_right_logical", 3, INT32.view(np.uint32), ["BitShift"], lambda x: x >> 3),
    ("shift_right_logical", 3, NATURAL, ["Div"], lambda x: x >> 3),
    ("shift_right_arithmetic", 0, INT32, [], lambda x: x),
    ("shift_right_arithmetic", 3, INT32, ["BitwiseAnd", "Div"], lambda x: x >> 3),
    ("shift_right_arithmetic", 30, INT32, ["BitwiseAnd", "Div"], lambda x: x >> 30),
    ("shift_right_arithmetic", 31, INT32, ["Less", "Where"], lambda x: x >> 31),
    ("shift_right_arithmetic", 3, NATURAL, ["Div"], lambda x: x >> 3),
]


@pytest.mark.parametrize(("name", "amount", "x", "nodes", "expected"), SHIFTS)
def test_shifts_by_a_known_amount(
    name: str, amount: int, x: np.ndarray, nodes: list[str], expected: Callable[[int], int]
) -> None:
    def build(em: Any, x: oir.Value) -> oir.Value:
        return getattr(integer_bits, name)(em, x, amount)

    ranges = {"x": (0, 2**31 - 1)} if x is NATURAL else None
    made = Emitted(build, {"x": x}, ranges=ranges)
    assert made.nodes == nodes
    numbers = [integer_bits.wrapped(expected(int(item)), T.from_numpy(x.dtype)) for item in x]
    np.testing.assert_array_equal(made.results[0], np.array(numbers, x.dtype))


def test_a_range_that_reaches_below_zero_needs_the_whole_shift() -> None:
    for name in ("shift_right_logical", "shift_right_arithmetic"):
        made = Emitted(
            lambda em, x, name=name: getattr(integer_bits, name)(em, x, 3),
            {"x": INT32},
            ranges={"x": (-1, 2**31 - 1)},
        )
        assert len(made.nodes) > 1


def test_an_arithmetic_shift_of_unsigned_integers() -> None:
    x = INT32.view(np.uint32)
    made = Emitted(lambda em, x: integer_bits.shift_right_arithmetic(em, x, 4), {"x": x})
    np.testing.assert_array_equal(made.results[0], (INT32 >> 4).view(np.uint32))


@pytest.mark.parametrize(("high", "guards"), [(31, 0), (32, 1)])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT", "ARITHMETIC"])
def test_amounts_that_are_known_to_be_inside(direction: str, high: int, guards: int) -> None:
    amounts = np.array([0, 1, 5, 17, 30, 31, high], np.int32)

    def build(em: Any, x: oir.Value, by: oir.Value) -> oir.Value:
        if direction == "ARITHMETIC":
            return integer_bits.shift_arithmetic(em, x, by)
        return integer_bits.shift_logical(em, x, by, direction)

    for low, more in ((0, guards), (-1, 1)):
        made = Emitted(build, {"x": INT32, "by": amounts}, ranges={"by": (low, high)})
        guard = "Min" if direction == "ARITHMETIC" else "Where"
        assert made.nodes.count(guard) == more
        x = INT32.astype(np.int64)
        expected = {
            "LEFT": (x << amounts) * (amounts < 32),
            "RIGHT": ((x % 2**32) >> amounts) * (amounts < 32),
            "ARITHMETIC": x >> amounts,
        }[direction]
        np.testing.assert_array_equal(made.results[0], expected.astype(np.int32))

"""The guards of integer division, which depend on the known ranges of the operands."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from against_xla import against_xla
from rule_names import RULE_NAMES

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

KNOWN = {
    "any": "%0 = stablehlo.add %w, %w : @",
    "not the least": "%0 = stablehlo.maximum %w, %above : @",
    "from i8": "%0 = stablehlo.convert %s : (tensor<25xi8>) -> @",
    "from 0": "%0 = stablehlo.convert %u : (tensor<25xui8>) -> @",
    "from 1": """%n = stablehlo.convert %u : (tensor<25xui8>) -> @
                 %0 = stablehlo.add %n, %one : @""",
    "up to -1": """%n = stablehlo.convert %u : (tensor<25xui8>) -> @
                   %0 = stablehlo.subtract %minus, %n : @""",
    "up to -2": """%n = stablehlo.convert %u : (tensor<25xui8>) -> @
                   %m = stablehlo.subtract %minus, %n : @
                   %0 = stablehlo.subtract %m, %one : @""",
}
"""An operand %0 of type @, of which this is known."""


def program(pairs: list[tuple[str, str]], op: str, element: str = "i32") -> str:
    """A module with a result for each pair of operands."""
    dtype = f"tensor<25x{element}>"
    lines = []
    for number, pair in enumerate(pairs):
        for side, name in zip("xy", pair, strict=True):
            own = f"{side}{number}"
            text = re.sub(r"%([nm])\b", rf"%\1{own}", KNOWN[name])
            text = re.sub(r"%([wsu])\b", rf"%\1{side}", text)
            text = text.replace("%0 ", f"%{own} ")
            lines.append(text.replace("@", dtype))
        lines.append(f"%r{number} = stablehlo.{op} %x{number}, %y{number} : {dtype}")
    results = ", ".join(f"%r{number}" for number in range(len(pairs)))
    types = ", ".join([dtype] * len(pairs))
    minus = int(np.array(-1).astype(numpy_type(element)))
    least = int(np.iinfo(numpy_type(element)).min) + 1
    return f"""
func.func public @main(
    %wx: {dtype}, %sx: tensor<25xi8>, %ux: tensor<25xui8>,
    %wy: {dtype}, %sy: tensor<25xi8>, %uy: tensor<25xui8>) -> ({types}) {{
  %one = stablehlo.constant dense<1> : {dtype}
  %minus = stablehlo.constant dense<{minus}> : {dtype}
  %above = stablehlo.constant dense<{least}> : {dtype}
  {chr(10).join(lines)}
  return {results} : {types}
}}"""


def guards(op: str, x: str, y: str, element: str = "i32") -> dict[str, int]:
    """How often the operators of the division occur, but those that operands are made with."""
    found = hlo2onnx.translate(program([(x, y)], op, element), without=RULE_NAMES).report.nodes
    telling = ("Div", "Mod", "Mul", "Equal", "And", "Or", "Where")
    return {name: found[name] for name in telling if found[name]}


MAY_BE_ZERO = ("any", "not the least", "from i8", "from 0")
MAY_OVERFLOW = ("any", "not the least", "from i8", "up to -1")
"""Divisors that may be 0, and those that may be -1 while x may be the least integer."""


@pytest.mark.parametrize("y", KNOWN)
@pytest.mark.parametrize("x", ["any", "not the least", "from 0"])
def test_guards_of_a_quotient(x: str, y: str) -> None:
    zero, overflow = y in MAY_BE_ZERO, x == "any" and y in MAY_OVERFLOW
    expected = {
        "Div": 1,
        "Equal": zero + 2 * overflow,
        "And": int(overflow),
        "Or": int(zero and overflow),
        "Where": (zero or overflow) + zero,
    }
    assert guards("divide", x, y) == {name: count for name, count in expected.items() if count}


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ("any", "any", {"Div": 1, "Mul": 1, "Equal": 3, "And": 1, "Or": 1, "Where": 1}),
        ("any", "from 1", {"Div": 1, "Mul": 1}),
        ("from i8", "from 0", {"Div": 1, "Mul": 1, "Equal": 1, "Where": 1}),
        ("from 0", "any", {"Div": 1, "Mul": 1, "Equal": 1, "Where": 1}),
        ("from 0", "up to -1", {"Div": 1, "Mul": 1}),
        ("from 0", "from 0", {"Mod": 1, "Equal": 1, "Where": 2}),
        ("from 1", "from 1", {"Mod": 1}),
    ],
)
def test_guards_of_a_remainder(x: str, y: str, expected: dict[str, int]) -> None:
    assert guards("remainder", x, y) == expected


@pytest.mark.parametrize(
    ("element", "overflows"),
    [("i16", 0), ("i32", 1), ("i64", 1), ("ui16", 0), ("ui32", 0), ("ui64", 0)],
)
def test_only_wide_signed_integers_overflow(element: str, overflows: int) -> None:
    """Below 32 bits the quotient wraps by itself."""
    assert guards("divide", "any", "any", element).get("And", 0) == overflows


@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_all_pairs(op: str) -> None:
    pairs = list(product(["any", "not the least", "from 0"], KNOWN))
    wx = np.array([-(2**30), 2**30, 1, -5, 0], np.int32)  # twice the first two is the least
    wy = np.array([2**31 - 1, -(2**31), 0, 3, -1], np.int32)
    s, u = np.array([0, -1, 1, -128, 127], np.int8), np.array([0, 7, 1, 255, 0], np.uint8)
    left = [np.repeat(item, 5) for item in (wx, s, u)]
    right = [np.tile(item, 5) for item in (wy, s, u)]
    against_xla(program(pairs, op), *left, *right).bit_exact()

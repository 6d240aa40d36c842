"""Comparators are known by what they compare, and near misses are not."""

from __future__ import annotations

import numpy as np
import pytest
from emitting import emitter

from dialect_handlers.common import sorting
from dialect_handlers.common.sort_keys import Order, sort_keys
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.lowering.registry import Registry
from hlo2onnx.lowering.walker import Walker

SORT = """
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {{
  %s:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64}}> ({{
  ^bb0(%l0: tensor<f32>, %r0: tensor<f32>, %l1: tensor<i32>, %r1: tensor<i32>):
    {body}
    stablehlo.return %before : tensor<i1>
  }}) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %s#0, %s#1 : tensor<4xf32>, tensor<4xi32>
}}"""

Keys = list[tuple[int, Order, bool]]


def keys(body: str, functions_text: str = "") -> Keys | None:
    """The number of the operand (-1 for a function of it), the order and the direction of each
    key."""
    module = parse_module(SORT.format(body=body) + functions_text, "the test")
    em, functions = emitter(), functions_of(module.operation)
    Walker(em, functions, Registry())
    (sort,) = [
        op
        for op in functions["main"].regions[0].blocks[0].operations
        if op.operation.name == "stablehlo.sort"
    ]
    block = sort.operation.regions[0].blocks[0]
    found = sort_keys(em, block)
    if found is None:
        return None
    arguments = {argument: at // 2 for at, argument in enumerate(block.arguments) if at % 2 == 0}
    return [(arguments.get(key.value, -1), key.order, key.descending) for key in found]


def compare(
    name: str, direction: str, lhs: str, rhs: str, element: str = "f32", kind: str = ""
) -> str:
    kind = f", {kind}" if kind else ""
    types = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    return f"{name} = stablehlo.compare {direction}, {lhs}, {rhs}{kind} : {types}\n"


NUMBERS, TOTAL = Order.NUMBERS, Order.TOTAL


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (("LT", "%l0", "%r0"), (0, NUMBERS, False)),
        (("LE", "%l0", "%r0"), (0, NUMBERS, False)),
        (("GT", "%l0", "%r0"), (0, NUMBERS, True)),
        (("GE", "%l0", "%r0"), (0, NUMBERS, True)),
        (("LT", "%r0", "%l0"), (0, NUMBERS, True)),
        (("GT", "%r0", "%l0"), (0, NUMBERS, False)),
        (("LT", "%l0", "%r0", "f32", "TOTALORDER"), (0, TOTAL, False)),
        (("GT", "%l0", "%r0", "f32", "TOTALORDER"), (0, TOTAL, True)),
        (("LT", "%l1", "%r1", "i32"), (1, NUMBERS, False)),
        (("GE", "%l1", "%r1", "i32"), (1, NUMBERS, True)),
        (("EQ", "%l0", "%r0"), None),
        (("NE", "%l0", "%r0"), None),
        (("LT", "%l0", "%l0"), None),
    ],
)
def test_one_key(comparison: tuple[str, ...], expected: tuple[int, Order, bool] | None) -> None:
    assert keys(compare("%before", *comparison)) == (expected and [expected])


FUNCTIONS = {
    "of one side": "%a = stablehlo.negate %l0 : @\n%b = stablehlo.negate %r0 : @\n",
    "of other things": "%a = stablehlo.negate %l0 : @\n%b = stablehlo.abs %r0 : @\n",
    "of both sides": "%a = stablehlo.subtract %l0, %r0 : @\n%b = stablehlo.subtract %r0, %l0 : @\n",
    "of nothing": "%a = stablehlo.constant dense<1.0> : @\n"
    "%b = stablehlo.constant dense<1.0> : @\n",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("of one side", [(-1, NUMBERS, False)]), ("of other things", None), ("of both sides", None),
     ("of nothing", None)],
)  # fmt: skip
def test_functions(name: str, expected: Keys | None) -> None:
    made = FUNCTIONS[name].replace("@", "tensor<f32>")
    assert keys(made + compare("%before", "LT", "%a", "%b")) == expected


LESS = compare("%less", "LT", "%l0", "%r0")
SAME = compare("%same", "EQ", "%l0", "%r0")
OTHER = compare("%other", "NE", "%l0", "%r0")
REST = compare("%rest", "GT", "%l1", "%r1", "i32")
CHAIN = LESS + SAME + OTHER + REST
BOTH: Keys = [(0, NUMBERS, False), (1, NUMBERS, True)]
I1 = ": tensor<i1>"


@pytest.mark.parametrize("parts", ["%same, %rest", "%rest, %same"])
@pytest.mark.parametrize("whole", ["%less, %both", "%both, %less"])
def test_before_or_equal_and_rest(parts: str, whole: str) -> None:
    end = f"%both = stablehlo.and {parts} {I1}\n%before = stablehlo.or {whole} {I1}"
    assert keys(CHAIN + end) == BOTH


def test_a_choice_by_equality() -> None:
    for choice, expected in (
        ("%same, %rest, %less", BOTH),
        ("%other, %less, %rest", BOTH),
        ("%same, %less, %rest", None),
        ("%other, %rest, %less", None),
        ("%less, %rest, %less", None),
    ):
        end = f"%before = stablehlo.select {choice} : tensor<i1>, tensor<i1>"
        assert keys(CHAIN + end) == expected, choice


def test_equality_in_the_total_order() -> None:
    for direction, choice in (("EQ", "%t, %rest, %less"), ("NE", "%t, %less, %rest")):
        test = compare("%t", direction, "%l0", "%r0", "f32", "TOTALORDER")
        end = f"%before = stablehlo.select {choice} : tensor<i1>, tensor<i1>"
        assert keys(CHAIN + test + end) == BOTH


def test_chains_that_are_none() -> None:
    ends = {
        "or, or": f"%both = stablehlo.or %same, %rest {I1}\n"
        f"%before = stablehlo.or %less, %both {I1}",
        "and, and": f"%both = stablehlo.and %same, %rest {I1}\n"
        f"%before = stablehlo.and %less, %both {I1}",
        "not equal": f"%both = stablehlo.and %other, %rest {I1}\n"
        f"%before = stablehlo.or %less, %both {I1}",
        "the rest is no key": f"%both = stablehlo.and %same, %other {I1}\n"
        f"%before = stablehlo.or %less, %both {I1}",
        "equality of the second": compare("%equal", "EQ", "%l1", "%r1", "i32")
        + f"%both = stablehlo.and %equal, %rest {I1}\n%before = stablehlo.or %less, %both {I1}",
        "no first key": f"%both = stablehlo.and %same, %rest {I1}\n"
        f"%before = stablehlo.or %other, %both {I1}",
    }
    for name, end in ends.items():
        assert keys(CHAIN + end) is None, name


def canonical(nan: str = "0x7FC00000", zero: str = "0.0", test: str = "EQ") -> str:
    """JAX's comparator of floats, or nearly."""
    lines = [
        f"%nan = stablehlo.constant dense<{nan}> : tensor<f32>",
        f"%zero = stablehlo.constant dense<{zero}> : tensor<f32>",
    ]
    for side in ("l0", "r0"):
        choose = ": tensor<i1>, tensor<f32>"
        lines += [
            compare(f"%z{side}", test, f"%{side}", "%zero"),
            f"%a{side} = stablehlo.select %z{side}, %zero, %{side} {choose}",
            compare(f"%n{side}", "NE", f"%{side}", f"%{side}"),
            f"%c{side} = stablehlo.select %n{side}, %nan, %a{side} {choose}",
        ]
    return "\n".join(lines) + "\n" + compare("%before", "LT", "%cl0", "%cr0", "f32", "TOTALORDER")


def test_the_canonical_floats_of_jax() -> None:
    assert keys(canonical()) == [(0, NUMBERS, False)]
    assert keys(canonical(nan="1.0")) == [(-1, TOTAL, False)]
    assert keys(canonical(zero="1.0")) == [(-1, TOTAL, False)]
    assert keys(canonical(test="NE")) == [(-1, TOTAL, False)]


FUNCTION = """
func.func private @key(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %minus = stablehlo.negate %x : tensor<f32>
  %c = stablehlo.compare EQ, %x, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %0 = stablehlo.select %c, %zero, %minus : tensor<i1>, tensor<f32>
  %1 = stablehlo.select %c, %x, %0 : tensor<i1>, tensor<f32>
  return %1 : tensor<f32>
}"""


def test_a_choice_within_a_function() -> None:
    """What it chooses from is no value of the comparator's."""
    calls = "".join(
        f"%{name} = func.call @key(%{side}) : (tensor<f32>) -> tensor<f32>\n"
        for name, side in (("a", "l0"), ("b", "r0"))
    )
    assert keys(calls + compare("%before", "LT", "%a", "%b"), FUNCTION) == [(-1, NUMBERS, False)]


def test_steps_of_the_network_sort_everything() -> None:
    """By the 0-1 principle: all sequences of zeros and ones."""
    for extent in (1, 2, 3, 4, 5, 7, 8, 9):
        every = (np.arange(2**extent)[:, None] >> np.arange(extent)) & 1
        for p, r, d in sorting._steps(extent):
            for i in range(extent - d):
                if i & p == r:
                    low = np.minimum(every[:, i], every[:, i + d])
                    every[:, i + d] = np.maximum(every[:, i], every[:, i + d])
                    every[:, i] = low
        assert (np.diff(every, axis=1) >= 0).all()
        doublings = max(extent - 1, 1).bit_length()
        assert len(sorting._steps(extent)) == doublings * (doublings + 1) // 2

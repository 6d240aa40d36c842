"""Integer arithmetic on numbers and extents: a table for each operator, and unknown results."""

from __future__ import annotations

from typing import Any

import onnx_ir as oir
import pytest
import sympy

import hlo2onnx
from hlo2onnx.ir.dim_arithmetic import FORMULAS, fits, plain
from hlo2onnx.ir.dims import Shapes, expression, symbol, trip_number

T = oir.DataType
N = sympy.Symbol("n", integer=True, positive=True)
M = sympy.Symbol("m", integer=True, nonnegative=True)
UPPER = N - sympy.floor(N / 2)  # at least 0, which SymPy does not see
TRIP = expression(trip_number("trip", 9))


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("add", (N, 2), N + 2),
        ("subtract", (N, 2), N - 2),
        ("multiply", (N, M), N * M),
        ("negate", (N,), -N),
        ("maximum", (N, 0), N),
        ("maximum", (0, N), N),
        ("maximum", (N, M), sympy.Max(N, M)),
        ("maximum", (2, 5), 5),
        ("maximum", (UPPER, 0), UPPER),
        ("maximum", (0, UPPER), UPPER),
        ("minimum", (UPPER, 0), 0),
        ("minimum", (0, UPPER), 0),
        ("minimum", (N, 0), 0),
        ("minimum", (0, N), 0),
        ("minimum", (N, M), sympy.Min(N, M)),
        ("minimum", (2, 5), 2),
        ("clamp", (0, N, M), sympy.Min(N, M)),
        ("clamp", (0, -N, 7), 0),
        ("clamp", (-1, N + 3, 2), 2),
        ("divide", (M, 2), sympy.floor(M / 2)),
        ("divide", (7, 2), 3),
        ("divide", (-7, 2), None),
        ("divide", (N, M), None),
        ("divide", (N, -2), None),
        ("divide", (0, N), 0),
        ("remainder", (M, N), sympy.Mod(M, N)),
        ("remainder", (-N, 2), None),
        ("remainder", (N, M), None),
        ("sign", (N,), 1),
        ("sign", (-N,), -1),
        ("sign", (0,), 0),
        ("sign", (M,), None),
        ("convert", (True,), 1),
        ("convert", (N,), N),
        ("and", (True, False), False),
        ("and", (6, 3), 2),
        ("and", (N, 3), None),
        ("and", (3, N), None),
        ("or", (True, False), True),
        ("or", (6, 3), 7),
        ("or", (N, 3), None),
        ("or", (3, N), None),
        ("select", (True, N, M), N),
        ("select", (False, N, M), M),
    ],
)
def test_arithmetic(name: str, operands: tuple[Any, ...], expected: Any) -> None:
    found = FORMULAS[name](*operands)
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)


def test_a_converted_boolean_is_a_number() -> None:
    assert type(FORMULAS["convert"](True)) is int


@pytest.mark.parametrize(
    ("x", "y", "order"),
    [
        (N, 0, 1), (0, N, -1), (N, N, 0), (M + 1, M, 1), (2, 5, -1), (5, 5, 0), (True, 0, 1),
        (True, 1, 0), (N, M, None), (M, 0, "not less"), (0, M, "not more"),
        (2 * N, N + 1, "not less"), ((N + 1) ** 2, N**2 + 2 * N + 1, 0),
    ],
)  # fmt: skip
def test_comparisons(x: Any, y: Any, order: int | str | None) -> None:
    """Which verdicts follow from the order of two items, all that is known of it included."""
    wanted = {
        1: (False, True, True, True, False, False),
        -1: (False, True, False, False, True, True),
        0: (True, False, True, False, True, False),
        None: (None,) * 6,
        "not less": (None, None, True, None, None, False),
        "not more": (None, None, None, False, True, None),
    }[order]
    names = ("EQ", "NE", "GE", "GT", "LE", "LT")
    assert tuple(FORMULAS[f"compare {name}"](x, y) for name in names) == wanted


@pytest.mark.parametrize(
    ("item", "dtype", "is_one"),
    [
        (127, T.INT8, True),
        (128, T.INT8, False),
        (-1, T.UINT8, False),
        (N, T.INT32, True),
        (-N, T.INT32, True),
        (N, T.INT16, False),
        (N, T.UINT32, True),
        (N - 1, T.UINT32, True),
        (N - 2, T.UINT32, False),
        (N * M, T.INT64, True),
        (True, T.BOOL, True),
        (1, T.BOOL, False),
        (N, T.BOOL, False),
        (TRIP, T.INT32, True),
        (N - TRIP + (1 << 16), T.INT32, True),
        (N - TRIP + (1 << 16) + 1, T.INT32, False),
        (-TRIP - (1 << 16), T.INT32, True),
        (2 * TRIP, T.INT32, False),
        (N * TRIP, T.INT32, False),
    ],
)
def test_what_a_type_holds(item: Any, dtype: oir.DataType, is_one: bool) -> None:
    assert fits([item], dtype) == is_one
    assert fits([True if dtype == T.BOOL else 3, item], dtype) == is_one


def test_plain_numbers() -> None:
    number = plain((N + 1) - N)
    assert number == 1 and type(number) is int
    assert plain(2 * (N + 1)) == 2 * N + 2
    assert plain(True) is True


PROGRAM = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  %1 = stablehlo.cosine %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


def test_equal_static_shapes_are_one_that_nothing_changes() -> None:
    shapes = Shapes()
    first, second = shapes.shape([2, 3]), shapes.shape((2, 3))
    assert first is second
    assert first.dims == (2, 3)
    with pytest.raises(TypeError):
        first[0] = 4


def test_other_shapes_are_not_shared() -> None:
    shapes = Shapes()
    assert shapes.shape([2, 3]) != shapes.shape([3, 2])
    assert Shapes().shape([2]) is not shapes.shape([2])


def test_symbolic_shapes_can_be_changed() -> None:
    shapes = Shapes()
    first, second = (shapes.shape([symbol("b", positive=True), 3]) for _ in range(2))
    first[0] = 4
    assert str(second) == "[b,3]"


def test_users_can_change_the_shapes_of_outputs() -> None:
    graph = hlo2onnx.translate(PROGRAM).model.graph
    (inner, output) = (node.outputs[0] for node in graph)
    assert isinstance(output.shape, oir.Shape)
    output.shape[0] = "b"
    assert inner.shape == [2]

"""What lowering knows of a loop's iteration number and counters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from every_size import every_size
from jax import lax
from rule_names import RULE_NAMES

import hlo2onnx
from hlo2onnx.ir.ranges import RANGE, Range

COUNT = """
func.func public @main(%start: tensor<i8>, %bound: tensor<{t}>, %x: tensor<i64>) -> tensor<i64> {{
  {first}
  %0:2 = stablehlo.while(%i = %s, %n = %x) : tensor<{t}>, tensor<i64>
    cond {{
      %1 = stablehlo.compare {direction}, %i, %bound : (tensor<{t}>, tensor<{t}>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<{t}>
      %1 = stablehlo.{op} %i, %one : tensor<{t}>
      %2 = stablehlo.convert %i : (tensor<{t}>) -> tensor<i64>
      %3 = stablehlo.multiply %n, %n : tensor<i64>
      %4 = stablehlo.add %3, %2 : tensor<i64>
      stablehlo.return %1, %4 : tensor<{t}>, tensor<i64>
    }}
  return %0#1 : tensor<i64>
}}"""


def counting(direction: str, t: str = "i32", first: str | None = None) -> str:
    """Counts by one from an i8, or from a constant, to a bound given at run time."""
    start = f"stablehlo.convert %start : (tensor<i8>) -> tensor<{t}>"
    if t == "i8":
        start = "stablehlo.not %start : tensor<i8>"
    if first is not None:
        start = f"stablehlo.constant dense<{first}> : tensor<{t}>"
    op = "add" if direction in ("LT", "LE") else "subtract"
    return COUNT.format(direction=direction, t=t, first=f"%s = {start}", op=op)


def loop_of(program: hlo2onnx.OnnxProgram) -> oir.Node:
    """The one Loop of a model."""
    (loop,) = [node for node in program.model.graph.all_nodes() if node.op_type == "Loop"]
    return loop


def number_of(program: hlo2onnx.OnnxProgram) -> oir.Value:
    """The iteration number of the Loop."""
    return loop_of(program).attributes["body"].as_graph().inputs[0]


@pytest.mark.parametrize(
    ("direction", "t", "first", "last"),
    [
        ("LT", "i32", None, 2**31 - 1 + 128),
        ("LE", "i32", None, 2**31 - 1 + 128),
        ("GT", "i32", None, 2**31 + 127),
        ("GE", "i32", None, 2**31 + 127),
        ("LT", "i32", "5", 2**31 - 1 - 5),
        ("GE", "i32", "5", 2**31 + 5),
        ("LT", "ui32", "5", 2**32 - 1 - 5),
        ("GT", "ui32", "5", 5),
        ("LT", "i8", None, 255),
        ("GT", "i8", None, 255),
    ],
)
def test_range_of_the_iteration_number(
    direction: str, t: str, first: str | None, last: int
) -> None:
    """The counter stays within its type."""
    program = hlo2onnx.translate(counting(direction, t, first), without=RULE_NAMES)
    assert number_of(program).meta[RANGE] == Range(0, last)


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("start", [-128, 0, 127])
def test_trips_from_a_start_to_a_bound(start: int, direction: str) -> None:
    for bound in (start - 3, start, start + 3):
        arguments = np.int8(start), np.int32(bound), np.int64(1)
        against_xla(counting(direction), *arguments).bit_exact()


def test_range_of_a_known_number_of_trips() -> None:
    for trips in (2, 7):
        program = hlo2onnx.translate(
            lambda x, n=trips: lax.fori_loop(0, n, lambda i, c: c * x + i, x),
            np.float32(1),
            without=RULE_NAMES,
        )
        assert number_of(program).meta[RANGE] == Range(0, trips - 1)
        assert program.report.nodes["Add"] == 1  # the counter is the iteration number


@pytest.mark.parametrize(
    ("start", "step", "nodes"),
    [
        (0, 1, {}),
        (0, 3, {"Mul": 1}),
        (0, -1, {"Sub": 1}),
        (2, 1, {"Add": 1}),
        (2, 3, {"Mul": 1, "Add": 1}),
        (2, -1, {"Sub": 1}),
    ],
)
def test_counters_in_as_few_nodes_as_there_are(
    start: int, step: int, nodes: dict[str, int]
) -> None:
    """start + trip * step without what does nothing."""

    def body(_: Any, state: Any) -> Any:
        i, c = state
        return i + step, jnp.bitwise_xor(c, i)

    program = hlo2onnx.translate(
        lambda x: lax.fori_loop(0, 5, body, (jnp.int32(start), x))[1],
        np.int32(3),
        without=RULE_NAMES,
    )
    made = [node.op_type for node in loop_of(program).attributes["body"].as_graph()]
    assert {name: made.count(name) for name in ("Mul", "Add", "Sub") if name in made} == nodes
    assert program.verify(np.int32(3)).ok


@pytest.mark.wide
@pytest.mark.parametrize("first", [0, 2])
def test_the_counter_of_a_symbolic_loop_is_an_extent(first: int) -> None:
    """So that what is cut off at the counter has a shape in each trip."""

    def summed(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return c + x[i] * (x.shape[0] - i)

        return lax.fori_loop(first, x.shape[0], body, jnp.zeros(2))

    every_size(summed, "n + 2, 2", sizes=(1, 2, 5))


def test_a_bound_that_is_an_extent() -> None:
    """Not the argument of a state, and with a start of its own."""

    def summed(x: Any, start: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < 2 * x.shape[0] + 1,
            lambda s: (s[0] + 1, s[1] * 0.5 + s[0]),
            (start, 0.0),
        )

    every_size(summed, "n", "int32[]", sizes=(1, 4))


ROWS = """
func.func public @main(%x: tensor<3x2xf32>, %u: tensor<{u}xf32>)
    -> (tensor<3x2xf32>, tensor<i32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3x2xf32>
    cond {{
      %1 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      {row}
      %3 = stablehlo.dynamic_update_slice %y, %row, %i, %zero
        : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
      stablehlo.return %1, %3 : tensor<i32>, tensor<3x2xf32>
    }}
  return %0#1, %0#0 : tensor<3x2xf32>, tensor<i32>
}}"""


def test_a_row_from_outside_of_the_loop() -> None:
    x, update = np.ones((3, 2), np.float32), np.array([[2, 3]], np.float32)
    text = ROWS.replace("%row", "%u").format(u="1x2", row="")
    run = against_xla(text, x, update, without=RULE_NAMES).bit_exact()
    assert len(loop_of(run.program).outputs) == 1


def test_a_counter_that_wraps_is_no_extent() -> None:
    """100 * i in a byte is 0, 100, -56, 44, ..., and indices are clamped."""
    table = np.arange(300, dtype=np.float32)

    def summed(x: Any) -> Any:
        def body(_: Any, state: Any) -> Any:
            j, c = state
            row = lax.dynamic_index_in_dim(jnp.asarray(table), j, keepdims=False)
            return j + jnp.int8(100), 2 * c + row

        return lax.fori_loop(0, x.shape[0], body, (jnp.int8(0), x[0]))[1]

    every_size(summed, "n", sizes=(2, 6))

"""Facts about while loops: changes of a state that hold in every trip, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import defining_operation
from hlo2onnx.ir.dims import expression, symbol
from hlo2onnx.lowering.while_loops import LoopForm, loop_form, trip_count

LOOP = """
func.func public @main(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>, %n: tensor<i32>,
                       %u: tensor<1x3xf32>) -> tensor<4x3xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %0:4 = stablehlo.while(%a = %x, %b = %y, %i = {start}, %m = %n)
      : tensor<4x3xf32>, tensor<4x3xf32>, tensor<i32>, tensor<i32>
    cond {{
      {test}
      stablehlo.return %1 : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      {body}
    }}
  return %0#1 : tensor<4x3xf32>
}}
func.func private @write(%b: tensor<4x3xf32>, %u: tensor<1x3xf32>, %i: tensor<i32>)
    -> tensor<4x3xf32> {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %b, %u, %i, %c
      : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}}
"""
WRITE = (
    "func.call @write({buffer}, %u, {row})"
    " : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>) -> tensor<4x3xf32>"
)
RETURN = (
    "stablehlo.return {}, {}, %next, %m"
    " : tensor<4x3xf32>, tensor<4x3xf32>, tensor<i32>, tensor<i32>"
)


COMPARE = "%1 = stablehlo.compare {} : (tensor<i32>, tensor<i32>) -> tensor<i1>"


def form_of(
    body: str,
    compare: str = "LT, %i, %four",
    start: str = "%zero",
    test: str = "",
    **more: Any,
) -> LoopForm:
    """The form of `LOOP` with this body; constants are known, arguments are not."""
    test = test or COMPARE.format(compare)
    source = load(LOOP.format(body=body, test=test, start=start), (), {}, None)
    functions = functions_of(source.module.operation)
    operations = functions["main"].regions[0].blocks[0].operations
    (loop,) = [op.operation for op in operations if op.operation.name == "stablehlo.while"]
    return loop_form(loop, functions, **{"known": _known, **more})


def _known(value: Any) -> Any:
    operation = defining_operation(value)
    if operation is None or operation.name != "stablehlo.constant":
        return None
    return np.array(to_python(operation.attributes["value"])).item()


def writing(row: str = "%i", buffer: str = "%b", lines: str = "", results: str = "%a, %w") -> str:
    """A body that writes one row of a buffer."""
    write = WRITE.format(buffer=buffer, row=row)
    return f"{lines}\n%w = {write}\n" + RETURN.format(*results.split(", "))


def test_invariants_counters_and_trips() -> None:
    form = form_of(RETURN.format("%a", "%x"))
    assert form.invariants == {0, 3}
    assert dict(form.counters) == {2: 1}
    assert (form.trips, form.limit) == (4, None)
    assert not form.stacks


def test_a_bound_from_outside_is_a_limit() -> None:
    for compare in ("LT, %i, %n", "LT, %i, %m", "GT, %m, %i"):
        form = form_of(RETURN.format("%a", "%b"), compare)
        assert form.trips is None and form.limit is not None
        assert (form.limit.counter, form.limit.direction) == (2, "LT")


@pytest.mark.parametrize("compare", ["NE, %i, %n", "GT, %i, %n", "LT, %n, %n", "EQ, %i, %n"])
def test_no_limit_where_the_counter_might_pass_its_bound(compare: str) -> None:
    form = form_of(RETURN.format("%a", "%b"), compare)
    assert (form.trips, form.limit) == (None, None)


BACK = """%d = stablehlo.subtract %three, %i : tensor<i32>"""
SHIFTED = """%d = stablehlo.add %i, %one : tensor<i32>"""
NORMAL = """
  %k = stablehlo.constant dense<0> : tensor<i32>
  %neg = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %s = stablehlo.add %i, %four : tensor<i32>
  %d = stablehlo.select %neg, %s, %i : tensor<i1>, tensor<i32>
"""
AS_VECTOR = """
  %v = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<1xi32>
  %d = stablehlo.reshape %v : (tensor<1xi32>) -> tensor<i32>
"""


@pytest.mark.parametrize(
    ("row", "lines", "reverse"),
    [("%i", "", False), ("%d", BACK, True), ("%d", NORMAL, False), ("%d", AS_VECTOR, False)],
    ids=["forwards", "backwards", "index normalised", "as a vector of one"],
)
def test_stacks(row: str, lines: str, reverse: bool) -> None:
    assert form_of(writing(row, lines=lines)).stacks == {1: reverse}


SUM = "%s = stablehlo.add {0}, {0} : tensor<4x3xf32>"
CAPTURED = """%s = "stablehlo.case"(%i) ({
    %q = stablehlo.negate %b : tensor<4x3xf32>
    stablehlo.return %q : tensor<4x3xf32>
  }) : (tensor<i32>) -> tensor<4x3xf32>"""
NEAR_MISSES = {
    "rows shifted by one": writing("%d", lines=SHIFTED),
    "always the same row": writing("%three"),
    "a row unknown now": writing("%m"),
    "read before": writing(lines=SUM.format("%b"), results="%s, %w"),
    "read within a region": writing(lines=CAPTURED, results="%s, %w"),
    "another buffer": writing(buffer="%a"),
    "returned twice": writing(results="%w, %w"),
    "written, then read": writing().replace(
        "stablehlo.return %a, %w", SUM.format("%w") + "\nstablehlo.return %s, %w"
    ),
    "written twice": writing().replace(
        "stablehlo.return %a, %w",
        "%v = " + WRITE.format(buffer="%w", row="%i") + "\nstablehlo.return %a, %v",
    ),
    "written in two ways": writing().replace(
        "stablehlo.return %a, %w",
        "%v = " + WRITE.format(buffer="%b", row="%i") + "\nstablehlo.return %v, %w",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_no_stack(name: str) -> None:
    form = form_of(NEAR_MISSES[name])
    assert form.trips == 4
    assert not form.stacks


def test_no_stack_where_rows_keep_their_first_content() -> None:
    assert not form_of(writing(), "LT, %i, %three").stacks
    assert not form_of(writing(), start="%three").stacks
    assert not form_of(writing(), "LT, %i, %n").stacks


LAST = """
  %l = stablehlo.subtract %m, %one : tensor<i32>
  %d = stablehlo.subtract %l, %i : tensor<i32>
"""
NARROWED = """
  %k = stablehlo.convert %i : (tensor<i32>) -> tensor<i8>
  %d = stablehlo.convert %k : (tensor<i8>) -> tensor<i32>
"""
WIDENED = NARROWED.replace("i8", "i64")


@pytest.mark.parametrize(
    ("row", "lines", "stacks"),
    [
        ("%i", "", {1: False}),
        ("%d", LAST, {1: True}),
        ("%d", WIDENED, {1: False}),
        ("%d", NARROWED, {}),
        ("%d", SHIFTED, {}),
        ("%m", "", {}),
    ],
)
def test_stacks_of_as_many_rows_as_an_extent(row: str, lines: str, stacks: dict[int, bool]) -> None:
    """The number of trips is n, an extent; so is that of the buffers' rows."""
    count = symbol("n", positive=True)

    def known(value: Any) -> Any:
        is_n = str(value.type) == "tensor<i32>" and defining_operation(value) is None
        return expression(count) if is_n else _known(value)

    def shape(value: Any) -> list[Any]:
        dims = shape_of(value.type)
        return [count, *dims[1:]] if dims else []

    form = form_of(writing(row, lines=lines), "LT, %i, %n", known=known, shape=shape)
    assert form.trips == count
    assert form.stacks == stacks


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
def test_trip_count(dtype: Any, direction: str) -> None:
    """Against counting, for starts and bounds at both ends of the type."""
    info, element = np.iinfo(dtype), oir.DataType.from_numpy(np.dtype(dtype))
    holds = {
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }[direction]
    numbers = [info.min, info.min + 3, 1, 7, info.max - 2, info.max]
    for start in numbers:
        for bound in numbers:
            for step in (1, -1, 2, -3, 0):
                found = trip_count(int(start), step, direction, int(bound), element)
                counter, count = start, 0
                while holds(counter, bound) and info.min <= counter <= info.max and count < 300:
                    counter, count = counter + step, count + 1
                ends = count < 300 and info.min <= counter <= info.max
                assert found == (count if ends else None), (start, bound, step)

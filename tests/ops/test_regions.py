"""Regions are recognised by what they compute, not by how they are spelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from edge_values import edge_values

from dialect_handlers.common.regions import (
    ARG_EXTREMES,
    Combiner,
    is_neutral,
    neutral,
    recognise,
    recognise_each,
)
from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.registry import Registry
from hlo2onnx.lowering.walker import Walker
from hlo2onnx.options import Options
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target


@dataclass
class Regions:
    """A module, which must outlive what is read from it, an emitter over it and the bodies of
    its reduces."""

    module: Any
    em: Emitter
    bodies: list[Any]


def regions(text: str) -> Regions:
    module = parse_module(text, "the test")
    graph = oir.Graph([], [], nodes=[], opset_imports={"": 23})
    constants = Constants()
    em = Emitter(graph, 23, Options(), load_target("ort-cpu"), Report("", ""), constants)
    functions = functions_of(module.operation)
    Walker(em, functions, Registry())
    bodies = [
        op.operation.regions[0].blocks[0]
        for function in functions.values()
        for op in function.regions[0].blocks[0].operations
        if op.operation.name == "stablehlo.reduce"
    ]
    return Regions(module, em, bodies)


def one_pair(body: str, result: str, element: str = "f32", functions: str = "") -> str:
    """A module that reduces with a body over %a and %b."""
    return f"""
module {{
  func.func public @main(%x: tensor<4x{element}>, %init: tensor<{element}>) -> tensor<{element}> {{
    %r = stablehlo.reduce(%x init: %init) across dimensions = [0]
        : (tensor<4x{element}>, tensor<{element}>) -> tensor<{element}>
     reducer(%a: tensor<{element}>, %b: tensor<{element}>) {{
      {body}
      stablehlo.return {result} : tensor<{element}>
    }}
    return %r : tensor<{element}>
  }}
  {functions}
}}"""


def recognised(module: str) -> Combiner | None:
    found = regions(module)
    return recognise(found.em, found.bodies[0])


NAMES = ["add", "multiply", "minimum", "maximum", "and", "or", "xor"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operands", ["%a, %b", "%b, %a"])
def test_one_op_in_either_order(name: str, operands: str) -> None:
    body = f"%0 = stablehlo.{name} {operands} : tensor<i32>"
    assert recognised(one_pair(body, "%0", "i32")) == Combiner(name)


@pytest.mark.parametrize(
    ("name", "known_as"),
    [("add", "or"), ("maximum", "or"), ("or", "or"), ("multiply", "and"), ("minimum", "and"),
     ("and", "and"), ("xor", "xor")],
)  # fmt: skip
def test_on_booleans_arithmetic_is_logic(name: str, known_as: str) -> None:
    body = f"%0 = stablehlo.{name} %a, %b : tensor<i1>"
    assert recognised(one_pair(body, "%0", "i1")) == Combiner(known_as)


def test_regions_that_return_an_argument() -> None:
    assert recognised(one_pair("", "%a")) == Combiner.LHS
    assert recognised(one_pair("", "%b")) == Combiner.RHS


CALLEE = """
  func.func private @f(%p: tensor<f32>, %q: tensor<f32>) -> tensor<f32> {
    %0 = func.call @g(%q, %p) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @g(%p: tensor<f32>, %q: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.maximum %p, %q : tensor<f32>
    return %0 : tensor<f32>
  }"""


def test_calls_and_conversions_that_do_nothing_are_looked_through() -> None:
    call = "%0 = func.call @f(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>"
    assert recognised(one_pair(call, "%0", functions=CALLEE)) == Combiner.MAXIMUM
    convert = """%0 = stablehlo.convert %a : tensor<f32>
      %1 = stablehlo.multiply %b, %0 : tensor<f32>"""
    assert recognised(one_pair(convert, "%1")) == Combiner.MULTIPLY


def test_a_function_that_calls_itself_has_no_name() -> None:
    function = """
  func.func private @f(%p: tensor<f32>, %q: tensor<f32>) -> tensor<f32> {
    %0 = func.call @f(%q, %p) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }"""
    call = "%0 = func.call @f(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>"
    assert recognised(one_pair(call, "%0", functions=function)) is None


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("%0 = stablehlo.subtract %a, %b : tensor<f32>", "%0"),
        ("%0 = stablehlo.add %a, %a : tensor<f32>", "%0"),
        ("%0 = stablehlo.add %a, %init : tensor<f32>", "%0"),
        ("", "%init"),
        (
            "%0 = stablehlo.convert %a : (tensor<f32>) -> tensor<bf16>\n"
            "%1 = stablehlo.convert %0 : (tensor<bf16>) -> tensor<f32>\n"
            "%2 = stablehlo.add %1, %b : tensor<f32>",
            "%2",
        ),
        (
            "%0 = stablehlo.add %a, %b : tensor<f32>\n%1 = stablehlo.tanh %0 : tensor<f32>",
            "%1",
        ),
    ],
)
def test_near_misses_have_no_name(body: str, result: str) -> None:
    assert recognised(one_pair(body, result)) is None


def test_each_pair_of_a_variadic_region_has_its_own_name() -> None:
    found = regions("""
module { func.func public @main(%x: tensor<4xf32>, %y: tensor<4xi1>, %z: tensor<4xi8>,
    %p: tensor<f32>, %q: tensor<i1>, %r: tensor<i8>) -> (tensor<f32>, tensor<i1>, tensor<i8>) {
  %o:3 = stablehlo.reduce(%x init: %p), (%y init: %q), (%z init: %r) across dimensions = [0]
    : (tensor<4xf32>, tensor<4xi1>, tensor<4xi8>, tensor<f32>, tensor<i1>, tensor<i8>)
    -> (tensor<f32>, tensor<i1>, tensor<i8>)
   reducer(%a: tensor<f32>, %d: tensor<f32>) (%b: tensor<i1>, %e: tensor<i1>)
          (%c: tensor<i8>, %f: tensor<i8>) {
    %0 = stablehlo.minimum %d, %a : tensor<f32>
    %1 = stablehlo.add %b, %e : tensor<i1>
    %2 = stablehlo.subtract %c, %f : tensor<i8>
    stablehlo.return %0, %1, %2 : tensor<f32>, tensor<i1>, tensor<i8>
  }
  return %o#0, %o#1, %o#2 : tensor<f32>, tensor<i1>, tensor<i8>
} }""")
    (body,) = found.bodies
    assert recognise_each(found.em, body) == [Combiner.MINIMUM, Combiner.OR, None]
    assert recognise(found.em, body) is None


@pytest.mark.parametrize("element", ["float32", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("index", ["int32", "uint8"])
@pytest.mark.parametrize(
    ("function", "name"),
    [(jax.lax.argmax, Combiner.ARGMAX), (jax.lax.argmin, Combiner.ARGMIN)],
)
def test_arg_extremes_as_jax_lowers_them(
    element: str, index: str, function: Callable, name: Combiner
) -> None:
    x = jnp.zeros((3, 4), element)
    lowered = jax.jit(lambda x: function(x, 1, jnp.dtype(index))).lower(x)
    assert recognised(lowered.as_text()) == name


ARG_BODY = """
module {{ func.func public @main(%x: tensor<4xf32>, %y: tensor<4xi32>, %p: tensor<f32>,
    %q: tensor<i32>) -> (tensor<f32>, tensor<i32>) {{
  %o:2 = stablehlo.reduce(%x init: %p), (%y init: %q) across dimensions = [0]
    : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {{
    %c = stablehlo.compare {at_least}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>
    %e = stablehlo.compare {equal}, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %m = stablehlo.{tie} %j, %i : tensor<i32>
    %w = stablehlo.select %e, %m, %k : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }}
  return %o#0, %o#1 : tensor<f32>, tensor<i32>
}} }}"""


@pytest.mark.parametrize(
    ("at_least", "equal", "tie", "name"),
    [
        ("GE", "EQ", "minimum", Combiner.ARGMAX_NAN_UNDEFINED),
        ("LE", "EQ", "minimum", Combiner.ARGMIN_NAN_UNDEFINED),
        ("GE", "EQ", "maximum", None),
        ("GE", "NE", "minimum", None),
        ("EQ", "EQ", "minimum", None),
    ],
)
def test_arg_extremes_as_xla_builds_them(
    at_least: str, equal: str, tie: str, name: Combiner | None
) -> None:
    assert recognised(ARG_BODY.format(at_least=at_least, equal=equal, tie=tie)) == name


def test_the_total_order_is_another_comparison() -> None:
    text = ARG_BODY.format(at_least="GE", equal="EQ", tie="minimum")
    total = text.replace("GE, %a, %b", "GE, %a, %b, TOTALORDER")
    assert total != text
    assert recognised(total) is None


# -- neutral elements --------------------------------------------------------------------------

APPLY: dict[str, Callable] = {
    "add": np.add,
    "multiply": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
FOUR_BITS = ("i4", "ui4")
NUMBERS = [e for e in ELEMENT_TYPES if e not in ("i2", "ui2", "f8E8M0FNU", "f4E2M1FN", "i1")]


@pytest.mark.parametrize("element", NUMBERS)
def test_neutral_elements_leave_every_number_as_it_is(element: str) -> None:
    integer = "i" in element
    for name in NAMES if integer else NAMES[:4]:
        e = neutral(Combiner(name), ELEMENT_TYPES[element])
        x = np.arange(-4, 4).astype(ELEMENT_TYPES[element].numpy())
        if element not in FOUR_BITS:
            x = np.concatenate([x, edge_values(element)])
        assert e.dtype == x.dtype
        if element in FOUR_BITS:  # ml_dtypes has no bitwise ufuncs; int8 holds them all
            x, e = x.astype(np.int8), e.astype(np.int8)
        with np.errstate(all="ignore"):
            for result in (APPLY[name](e, x), APPLY[name](x, e)):
                same = (result == x) | (result != result)
                assert same.all()
                if not integer:
                    assert (np.signbit(result) == np.signbit(x))[x == x].all()


@pytest.mark.parametrize(("name", "element"), [("and", True), ("or", False), ("xor", False)])
def test_neutral_booleans(name: str, element: bool) -> None:
    assert neutral(Combiner(name), oir.DataType.BOOL) == np.bool_(element)


def test_neutral_is_a_proof() -> None:
    em = regions("module { func.func public @main() { return } }").em
    assert is_neutral(em, Combiner.ADD, em.scalar(0.0, oir.DataType.FLOAT))
    assert is_neutral(em, Combiner.MAXIMUM, em.scalar(-np.inf, oir.DataType.BFLOAT16))
    assert is_neutral(em, Combiner.MINIMUM, em.scalar(127, oir.DataType.INT8))
    lowest = ml_dtypes.finfo(np.float32).min
    assert not is_neutral(em, Combiner.MAXIMUM, em.scalar(lowest, oir.DataType.FLOAT))
    assert not is_neutral(em, Combiner.MULTIPLY, em.scalar(0, oir.DataType.INT32))
    assert not is_neutral(em, Combiner.ADD, em.value("run_time", oir.DataType.FLOAT, ()))
    assert not is_neutral(em, Combiner.LHS, em.scalar(0, oir.DataType.INT32))
    assert set(ARG_EXTREMES.values()) == {Combiner.MAXIMUM, Combiner.MINIMUM}

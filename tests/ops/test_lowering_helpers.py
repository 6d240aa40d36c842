"""Helpers that several handlers share, one by one: what they make, and the least that tells."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as oir
import pytest
from against_xla import against_xla
from emitting import Emitted, emitter

from dialect_handlers.common.contraction import _join, _part
from dialect_handlers.common.regions import Expressions
from dialect_handlers.common.sorting import _by_comparing
from dialect_handlers.common.subgraphs import known_integer, scalar_content, set_outputs
from dialect_handlers.common.tensors import count_along, filled_like, zeros_like
from dialect_handlers.func.call import _check_counts, _check_types
from hlo2onnx import translate
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.values import Shape
from hlo2onnx.lowering.emitter import Emitter

T = oir.DataType
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("dims", "dtype", "is_stored"),
    [
        ((1 << 16,), T.INT32, True),
        (((1 << 16) + 1,), T.INT32, False),
        ((1 << 15,), T.DOUBLE, True),
        (((1 << 15) + 1,), T.DOUBLE, False),
        (((1 << 18) + 1,), T.UINT8, True),
        (((1 << 17) + 1,), T.UINT16, False),
    ],
)
def test_counts_that_are_stored(dims: tuple[int], dtype: oir.DataType, is_stored: bool) -> None:
    made = Emitted(lambda em: count_along(em, dims, 0, dtype))
    assert ("Range" not in made.nodes) == is_stored
    made.gives(np.arange(dims[0]).astype(dtype.numpy()))


@pytest.mark.parametrize("shapes", [None, {"x": (oir.SymbolicDim("n"), 3)}])
def test_splats(shapes: dict[str, Shape] | None) -> None:
    """A constant where the shape is known, an Expand where it is not."""
    fives = Emitted(lambda em, x: filled_like(em, 5, x), {"x": X}, shapes)
    assert fives.nodes == (["Expand"] if shapes is None else ["Shape", "Expand"])
    fives.gives(np.full_like(X, 5))
    Emitted(lambda em, x: zeros_like(em, x), {"x": X}, shapes).gives(np.zeros_like(X))


@pytest.mark.parametrize(
    ("groups", "joined", "join", "part"),
    [
        ([1, 1], (2, 3), [], []),
        ([1, 0, 1], (2, 1, 3), ["Unsqueeze"], ["Squeeze"]),
        ([0, 1, 1], (1, 2, 3), ["Unsqueeze"], ["Squeeze"]),
        ([2], (6,), ["Reshape"], ["Reshape"]),
        ([2, 0], (6, 1), ["Reshape"], ["Reshape"]),
    ],
)
def test_axes_are_joined_and_parted(
    groups: list[int], joined: tuple[int, ...], join: list[str], part: list[str]
) -> None:
    made = Emitted(lambda em, x: _join(em, x, groups), {"x": X})
    assert made.nodes == join
    made.gives(X.reshape(joined))
    back = Emitted(lambda em, x: _part(em, x, groups, (2, 3)), {"x": X.reshape(joined)})
    assert back.nodes == part
    back.gives(X)


@pytest.mark.parametrize(
    ("name", "types", "culprit"),
    [
        ("Max", [T.FLOAT] * 3, None),
        ("Max", [T.FLOAT, T.FLOAT, T.BOOL], "bool as data_0"),
        ("Where", [T.BOOL, T.FLOAT, T.FLOAT], None),
        ("Where", [T.FLOAT, T.FLOAT, T.FLOAT], "float as condition"),
        ("Gather", [T.FLOAT, T.INT32], None),
        ("Gather", [T.FLOAT, T.FLOAT], "float as indices"),
        ("Pow", [T.FLOAT, T.INT8], None),
        ("Pow", [T.INT8, T.FLOAT], "int8 as X"),
    ],
)
def test_types_of_composites(name: str, types: list[oir.DataType], culprit: str | None) -> None:
    schema = onnx.defs.get_schema(name, 23, "")
    inputs = [oir.val(f"x{index}", dtype, (2,)) for index, dtype in enumerate(types)]
    if culprit is None:
        _check_types(schema, inputs)
    else:
        with pytest.raises(UnsupportedOp, match=f"{name} takes no {culprit}"):
            _check_types(schema, inputs)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "culprit"),
    [
        ("Where", 3, 1, None),
        ("Where", 2, 1, "3 to 3 operands, not 2"),
        ("Where", 4, 1, "3 to 3 operands, not 4"),
        ("Clip", 1, 1, None),
        ("Clip", 3, 1, None),
        ("Clip", 4, 1, "1 to 3 operands, not 4"),
        ("Where", 3, 2, "1 to 1 results, not 2"),
        ("TopK", 2, 1, "2 to 2 results, not 1"),
    ],
)
def test_counts_of_composites(name: str, inputs: int, outputs: int, culprit: str | None) -> None:
    schema = onnx.defs.get_schema(name, 23, "")
    if culprit is None:
        _check_counts(schema, inputs, outputs)
    else:
        with pytest.raises(UnsupportedOp, match=culprit):
            _check_counts(schema, inputs, outputs)


def test_expressions_are_numbered_by_what_they_are() -> None:
    e = Expressions(Constants(), {})
    x, y = e.argument(0), e.argument(1)
    assert x != y
    assert e.argument(0) == x
    zeros = [e.constant(number, "f32") for number in (0.0, -0.0, 1.0, -1.0, np.nan, -np.nan)]
    assert len(set(zeros)) == 6
    assert e.constant(-0.0, "f32") == zeros[1]
    assert e.constant(0.0, "f64") != zeros[0]
    for name in ("add", "multiply", "minimum", "maximum", "and", "or", "xor"):
        assert e.node(name, x, y) == e.node(name, y, x)
    assert e.node("subtract", x, y) != e.node("subtract", y, x)
    assert e.node("and", x, y) != e.node("or", x, y)


def test_comparators_of_symbolic_extents_are_refused() -> None:
    def build(em: Emitter, x: oir.Value) -> oir.Value:
        with pytest.raises(UnsupportedOp, match="static"):
            _by_comparing(em, None, [(x,)], 0, None)
        return x

    Emitted(build, {"x": X}, {"x": (oir.SymbolicDim("n"), 3)})


BITS = """
func.func @main(%x: tensor<6xui32>) -> tensor<6xf32> {{
  %mask = stablehlo.constant dense<{mask}> : tensor<6xui32>
  %code = stablehlo.constant dense<{code}> : tensor<6xui32>
  %m = stablehlo.and %x, %mask : tensor<6xui32>
  %b = stablehlo.or {operands} : tensor<6xui32>
  %r = stablehlo.bitcast_convert %b : (tensor<6xui32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}}"""


@pytest.mark.parametrize("operands", ["%m, %code", "%code, %m"])
@pytest.mark.parametrize(
    ("code", "mask", "in_octave"),
    [
        (0x3F800000, 0x007FFFFF, True),
        (0x3F800000, 0x00FFFFFF, False),
        (0x3F800001, 0x007FFFFE, False),
        (0x7F000000, 0x007FFFFF, True),
        (0x7F800000, 0x007FFFFF, False),
        (0x0C000000, 0x007FFFFF, True),
        (0x0B800000, 0x007FFFFF, False),
        (0x00000000, 0x007FFFFF, False),
        (0xBF800000, 0x007FFFFF, False),
    ],
)
def test_bits_of_one_octave(code: int, mask: int, in_octave: bool, operands: str) -> None:
    """Random bits as the mantissa of a constant exponent are computed, others are decoded."""
    x = np.array([0, 1, 0x7FFFFF, 0x2AAAAA, 0xFFFFFFFF, 0x12345678], np.uint32)
    run = against_xla(BITS.format(code=code, mask=mask, operands=operands), x).bit_exact()
    nodes = run.program.report.nodes
    assert (nodes["Where"] + nodes["BitCast"] + nodes["Gather"] == 0) == in_octave


def test_stored_integers_of_32_bits_are_dequantized_in_f32_only() -> None:
    text = """
    func.func @main(%x: tensor<3x!quant.uniform<i32:E, 0.1>>) -> tensor<3xE> {
      %0 = stablehlo.uniform_dequantize %x : (tensor<3x!quant.uniform<i32:E, 0.1>>) -> tensor<3xE>
      return %0 : tensor<3xE>
    }"""
    for element, operator in (("f32", 1), ("bf16", 0), ("f64", 0)):
        nodes = translate(text.replace("E", element)).report.nodes
        assert nodes["DequantizeLinear"] == operator


CLAMP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %lo = stablehlo.constant dense<{lo}> : tensor<{lows}f32>
  %hi = stablehlo.constant dense<{hi}> : tensor<{highs}f32>
  %r = stablehlo.clamp %lo, %x, %hi
    : (tensor<{lows}f32>, tensor<4xf32>, tensor<{highs}f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""


@pytest.mark.parametrize(
    ("lo", "hi", "nodes"),
    [
        ("0.5", "2.0", ["Clip"]),
        ("0x7FC00000", "2.0", None),
        ("0.5", "0x7FC00000", None),
        ("[0.5, 1.0, 1.5, 0.0]", "2.0", ["Max", "Min"]),
        ("0.5", "[2.0, 3.0, 1.5, 1.0]", ["Max", "Min"]),
        ("[0.5, 1.0, 1.5, 0.0]", "[2.0, 3.0, 1.5, 1.0]", ["Max", "Min"]),
    ],
)
def test_clamp(lo: str, hi: str, nodes: list[str] | None) -> None:
    """Clip ignores bounds that are NaN and takes scalars alone."""
    text = CLAMP.format(lo=lo, hi=hi, lows="4x" * ("[" in lo), highs="4x" * ("[" in hi))
    run = against_xla(text, np.array([-1, 1.25, 9, np.nan], np.float32)).bit_exact()
    if nodes is not None:
        run.graph_is(*nodes)


SORT = """
func.func @main(%x: tensor<{dims}xi32>) -> tensor<{dims}xi32> {{
  %r = "stablehlo.sort"(%x) ({{
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) {{dimension = {axis} : i64}} : (tensor<{dims}xi32>) -> tensor<{dims}xi32>
  return %r : tensor<{dims}xi32>
}}"""


@pytest.mark.parametrize(
    ("dims", "axis", "sorts"),
    [((5, 0), 0, False), ((0, 5), 0, False), ((0, 5), 1, False), ((1, 5), 0, False),
     ((1, 5), 1, True), ((2, 5), 0, True)],
)  # fmt: skip
def test_what_is_not_sorted(dims: tuple[int, ...], axis: int, sorts: bool) -> None:
    x = np.arange(dims[0] * dims[1], dtype=np.int32)[::-1].reshape(dims).copy()
    run = against_xla(SORT.format(dims="x".join(map(str, dims)), axis=axis), x).bit_exact()
    assert (run.program.report.nodes["TopK"] == 1) == sorts


@pytest.mark.parametrize(("element", "steps"), [("ui8", 3), ("ui16", 4), ("ui32", 5), ("ui64", 6)])
def test_leading_zeros_take_a_step_for_each_doubling(element: str, steps: int) -> None:
    text = """
    func.func @main(%x: tensor<3xE>) -> tensor<3xE> {
      %r = stablehlo.count_leading_zeros %x : tensor<3xE>
      return %r : tensor<3xE>
    }"""
    x = np.array([0, 1, 200]).astype(element.replace("ui", "uint"))
    run = against_xla(text.replace("E", element), x).bit_exact()
    assert run.program.report.nodes["BitwiseOr"] == steps


@pytest.mark.parametrize(
    ("element", "opset", "operators"),
    [("u16", 20, 0), ("u16", 21, 1), ("u8", 18, 1), ("i4", 21, 1), ("i16", 23, 1)],
)
def test_since_when_types_are_stored(element: str, opset: int, operators: int) -> None:
    text = """
    func.func @main(%x: tensor<3x!quant.uniform<E:f32, 0.1>>) -> tensor<3xf32> {
      %0 = stablehlo.uniform_dequantize %x : (tensor<3x!quant.uniform<E:f32, 0.1>>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    program = translate(text.replace("E", element), opset=opset)
    assert program.report.nodes["DequantizeLinear"] == operators


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (np.array(3), True),
        (np.array(True), True),
        (np.array(3, np.uint8), True),
        (np.array(3.0), False),
        (np.array([3]), False),
        (None, False),
    ],
)
def test_integers_known_now(content: np.ndarray | None, known: bool) -> None:
    em = emitter()
    value = em.value("x", T.INT64, []) if content is None else em.const(content)
    asked = SimpleNamespace(parts=lambda parts: parts, facts=Facts(), has_symbols=True)
    found = known_integer(asked, [value])  # type: ignore[arg-type]
    assert (found is not None) == known
    assert known_integer(asked, [value, value]) is None  # type: ignore[arg-type]
    if known:
        assert isinstance(scalar_content(asked, [value]), np.ndarray)  # type: ignore[arg-type]
        assert found == content
        assert np.shape(found) == ()


def test_outputs_of_a_subgraph_are_its_own_and_each_another() -> None:
    em = emitter()
    x = em.value("x", T.FLOAT, [2])
    with em.subgraph([x], "body") as graph:
        own = em.Neg(x)
        set_outputs(em, graph, [own, own, x, em.Abs(x)])
    assert len(set(graph.outputs)) == 4
    assert [value.producer().op_type for value in graph.outputs] == [
        "Neg", "Identity", "Identity", "Abs",
    ]  # fmt: skip


def test_axes_that_change_places_while_they_are_broadcast() -> None:
    text = """
    func.func @main(%x: tensor<?x3xf32>) -> tensor<3x4x?xf32> {
      %c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
      %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.concatenate %c, %v, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 0]
        : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<3x4x?xf32>
      return %0 : tensor<3x4x?xf32>
    }"""
    found = translate(text)(X)
    np.testing.assert_array_equal(found, np.broadcast_to(X.T[:, None], (3, 4, 2)))

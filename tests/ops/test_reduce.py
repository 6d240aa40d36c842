"""reduce over every kind of region, against XLA."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import Run, against_xla
from edge_values import edge_values
from hypothesis import given, settings
from hypothesis import strategies as st

import hlo2onnx
from hlo2onnx.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]
INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
NEUTRAL = {"add": 0, "multiply": 1, "or": 0, "xor": 0}


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{dim}x' for dim in shape)}{element}>"


def literal(number: float | np.generic, element: str) -> str:
    """A number as MLIR writes it; floats by their bits, so that infinities are no special case."""
    if element == "i1":
        return "true" if number else "false"
    array = np.asarray(number).astype(numpy_type(element))
    if "i" in element:
        return str(int(array))
    return f"0x{array.tobytes()[::-1].hex().upper()}"


def neutral(op: str, element: str) -> float:
    if op in NEUTRAL:
        return NEUTRAL[op]
    dtype = numpy_type(element)
    if dtype.kind == "b":
        return op in ("minimum", "and")
    if op == "and":
        return -1 if dtype.kind == "i" else np.iinfo(dtype).max
    if "i" not in element:
        return np.inf if op == "minimum" else -np.inf
    return np.iinfo(dtype).max if op == "minimum" else np.iinfo(dtype).min


def values(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Edge values of the type, shuffled into a shape."""
    edges = edge_values(element)
    picks = np.random.default_rng(seed).integers(0, edges.size, shape)
    return edges[picks].reshape(shape)


def tame(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Numbers whose sums and products of floats stay finite."""
    rng = np.random.default_rng(seed)
    if element in INTEGERS or element == "i1":
        return values(element, shape, seed)
    return rng.standard_normal(shape).astype(numpy_type(element))


def reduces(op: str, element: str, cases: Sequence[tuple[Sequence[int], Sequence[int]]]) -> str:
    """A module with one reduce of the named op per (shape, dimensions)."""
    lines, results = [], []
    for index, (shape, dimensions) in enumerate(cases):
        kept = tensor([d for axis, d in enumerate(shape) if axis not in dimensions], element)
        lines.append(
            f"%{index} = stablehlo.reduce(%arg{index} init: %init) applies stablehlo.{op}"
            f" across dimensions = {list(dimensions)}"
            f" : ({tensor(shape, element)}, tensor<{element}>) -> {kept}"
        )
        results.append(kept)
    arguments = ", ".join(f"%arg{i}: {tensor(s, element)}" for i, (s, _) in enumerate(cases))
    start = literal(neutral(op, element), element)
    return f"""
module {{ func.func public @main({arguments}) -> ({", ".join(results)}) {{
  %init = stablehlo.constant dense<{start}> : tensor<{element}>
  {chr(10).join(lines)}
  return {", ".join(f"%{i}" for i in range(len(cases)))} : {", ".join(results)}
}} }}"""


CASES = [
    ((3, 4, 5), (1,)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5), (0, 1, 2)),
    ((6, 1), (1,)),
    ((3, 0, 2), (1,)),
    ((0, 3), (1,)),
    ((7,), ()),
    ((), ()),
]


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1"])
@pytest.mark.parametrize("op", ["add", "multiply", "minimum", "maximum", "and", "or", "xor"])
def test_named_regions(op: str, element: str) -> None:
    if element in FLOATS and op in ("and", "or", "xor"):
        return
    make = values if op in ("minimum", "maximum") or element not in FLOATS else tame
    inputs = [make(element, shape, seed) for seed, (shape, _) in enumerate(CASES)]
    run = against_xla(reduces(op, element, CASES), *inputs)
    run.close() if element in FLOATS else run.bit_exact()


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", ["add", "multiply", "minimum", "maximum"])
def test_nan_and_infinities(op: str, element: str) -> None:
    """Each row pairs two special values with ordinary ones before, between and after them."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    rows = [[2.0, a, -3.0, b, 0.5] for a in special for b in special]
    x = np.array(rows).astype(numpy_type(element))
    against_xla(reduces(op, element, [(x.shape, (1,)), (x.T.shape, (0,))]), x, x.T.copy()).close()


def test_maximum_of_what_overflows_when_summed() -> None:
    """The guard against NaN must not take an overflow for one."""
    big = np.finfo(np.float32).max
    x = np.array([[big, -big, big, -big], [-big] * 4, [big] * 4, [np.inf, big, -np.inf, -big]])
    for op in ("minimum", "maximum"):
        against_xla(reduces(op, "f32", [((4, 4), (1,))]), x.astype(np.float32)).bit_exact()


@pytest.mark.parametrize("element", ["i64", "ui64", "ui32"])
def test_integers_around_2_to_the_31(element: str) -> None:
    """Where the runtime's INT64 extremes and f64 sums go wrong."""
    rng = np.random.default_rng(6)
    shape = (4, 9, 17)
    cases = [(shape, dims) for dims in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]]
    for low, high in [(0, 2**32), (2**31 - 9, 2**31 + 9), (-(2**33), 2**33), (2**60, 2**63 - 1)]:
        x = rng.integers(low, high, shape).astype(numpy_type(element))
        for op in ("minimum", "maximum", "add", "multiply"):
            against_xla(reduces(op, element, cases), *[x] * len(cases)).bit_exact()
        against_jax(lambda x: jax.lax.argmax(x, 2, np.int32), x).bit_exact()


# -- initial values ----------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "ui8", "i1"])
@pytest.mark.parametrize("op", ["add", "multiply", "minimum", "maximum"])
def test_an_init_that_is_not_neutral_counts_once(op: str, element: str) -> None:
    text = reduces(op, element, [((3, 4), (1,)), ((2, 0), (1,)), ((3,), ())])
    inputs = [tame(element, shape) for shape in [(3, 4), (2, 0), (3,)]]
    dtype = numpy_type(element)
    start = text.index("%init = ")
    constant = text[start : text.index("\n", start)]
    for init in (0, 1, 3):
        changed = constant.replace(
            literal(neutral(op, element), element), literal(dtype.type(init), element)
        )
        run = against_xla(text.replace(constant, changed), *inputs)
        run.close() if element in FLOATS else run.bit_exact()
    at_run_time = text.replace(constant, "").replace("@main(", f"@main(%init: tensor<{element}>, ")
    for init in edge_values(element)[2:7]:
        run = against_xla(at_run_time, np.asarray(init), *inputs)
        run.close() if element in FLOATS else run.bit_exact()


# -- regions without a name --------------------------------------------------------------------

SHAPES = [((n,), (0,)) for n in (1, 2, 3, 5, 8, 13)] + [
    ((3, 7), (0,)),
    ((3, 7), (1,)),
    ((2, 3, 5), (0, 2)),
    ((2, 0, 3), (0,)),
    ((2, 0, 3), (1,)),
]


@pytest.mark.parametrize(("shape", "dimensions"), SHAPES)
def test_operands_keep_their_order(shape: Sequence[int], dimensions: Sequence[int]) -> None:
    """Affine maps mod 2^32 compose associatively, not commutatively."""

    def compose(f: Sequence, g: Sequence) -> Sequence:
        return f[0] * g[0], f[1] * g[0] + g[1]

    def function(a: jax.Array, b: jax.Array) -> Sequence[jax.Array]:
        return jax.lax.reduce((a, b), (jnp.int32(1), jnp.int32(0)), compose, dimensions)

    rng = np.random.default_rng(1)
    a, b = rng.integers(-(2**31), 2**31, (2, *shape)).astype(np.int32)
    against_jax(function, a, b).bit_exact()


def test_the_init_comes_first() -> None:
    def pick(f: Sequence, g: Sequence) -> Sequence:
        return f[0] * g[0], f[1] * g[0] + g[1]

    def function(a: jax.Array, b: jax.Array, start: jax.Array) -> Sequence[jax.Array]:
        return jax.lax.reduce((a, b), (start[0], start[1]), pick, (0,))

    a, b, start = [*np.arange(3, 15, dtype=np.int32).reshape(2, 6).tolist(), [7, 11]]
    against_jax(function, *(np.array(x, np.int32) for x in (a, b, start))).bit_exact()


@pytest.mark.parametrize("side", [0, 1])
def test_regions_that_return_an_argument(side: int) -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.lax.reduce(x, np.int32(-1), lambda *pair: pair[side], (1,))

    against_jax(function, np.arange(15, dtype=np.int32).reshape(3, 5)).bit_exact()


def test_a_region_that_returns_a_constant() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.lax.reduce(x, np.int32(5), lambda lhs, rhs: jnp.int32(5), (1,))

    against_jax(function, np.arange(15, dtype=np.int32).reshape(3, 5)).bit_exact()


def test_operands_of_unlike_types() -> None:
    """A count and a maximum that share a condition: neither result stands alone."""

    def combine(lhs: Sequence, rhs: Sequence) -> Sequence:
        return (
            jnp.maximum(lhs[0], rhs[0]),
            jnp.where(lhs[0] > rhs[0], lhs[1], jnp.where(lhs[0] < rhs[0], rhs[1], lhs[1] + rhs[1])),
        )

    def function(x: jax.Array, count: jax.Array) -> Sequence[jax.Array]:
        return jax.lax.reduce((x, count), (np.float32(-np.inf), np.int8(0)), combine, (0, 1))

    x = np.random.default_rng(2).integers(0, 5, (7, 9, 2)).astype(np.float32)
    against_jax(function, x, np.ones(x.shape, np.int8)).bit_exact()


def test_pairs_that_do_not_meet_are_reduced_apart() -> None:
    def function(x: jax.Array, y: jax.Array) -> Sequence[jax.Array]:
        return jax.lax.reduce(
            (x, y),
            (np.float32(0), np.uint8(255)),
            lambda p, q: (p[0] + q[0], jnp.minimum(p[1], q[1])),
            (0,),
        )

    x, y = tame("f32", (5, 3)), values("ui8", (5, 3))
    against_jax(function, x, y).close().graph_is("ReduceSum", "ReduceMin")


CAPTURED = """
module { func.func public @main(%x: tensor<3x11xf32>, %top: tensor<f32>) -> tensor<3xf32> {
  %init = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = stablehlo.reduce(%x init: %init) across dimensions = [1]
    : (tensor<3x11xf32>, tensor<f32>) -> tensor<3xf32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %0 = func.call @higher(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.minimum %0, %top : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return %r : tensor<3xf32>
}
func.func private @higher(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.maximum %a, %b : tensor<f32>
  return %0 : tensor<f32>
} }"""


def test_a_region_reads_values_from_outside() -> None:
    """XLA compiles no such region, so numpy stands in for it."""
    x = tame("f32", (3, 11))
    x[1, 4] = np.nan
    program = hlo2onnx.translate(CAPTURED)
    for top in np.float32([0.25, 100.0]):
        np.testing.assert_array_equal(program(x, top), np.minimum(x.max(1), top))


def test_a_region_that_calls_a_function_has_its_name() -> None:
    text = CAPTURED.replace("stablehlo.minimum %0, %top", "stablehlo.minimum %0, %0")
    text = text.replace("%1 = stablehlo.minimum %0, %0 : tensor<f32>", "")
    text = text.replace("return %1 : tensor<f32>", "return %0 : tensor<f32>")
    run = against_xla(text, tame("f32", (3, 11)), np.float32(0), nan="runtime")
    run.bit_exact().graph_is("ReduceMax")


# -- argmax and argmin -------------------------------------------------------------------------

ARG = {"argmax": jax.lax.argmax, "argmin": jax.lax.argmin}


@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1"])
@pytest.mark.parametrize("name", ARG)
def test_arg_extremes(name: str, element: str) -> None:
    index = {"i1": np.uint8, "f32": np.int64, "f64": np.int16}.get(element, np.int32)

    def function(*operands: jax.Array) -> list[jax.Array]:
        return [ARG[name](x, axis, index) for x, axis in zip(operands, (0, 1, 2, 0), strict=True)]

    shapes = [(40, 6), (6, 40), (2, 3, 9), (1,)]
    against_jax(function, *(values(element, shape) for shape in shapes)).bit_exact()


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", ARG)
def test_arg_extremes_between_special_values(name: str, element: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    rows = [[a, b, c] for a in special for b in special for c in special]
    x = np.array(rows).astype(numpy_type(element))
    against_jax(lambda x: ARG[name](x, 1, np.int32), x).bit_exact()


PAIRS = """
module {{ func.func public @main(%x: tensor<3x9x{value}>, %i: tensor<3x9x{index}>)
    -> (tensor<3x{value}>, tensor<3x{index}>) {{
  %p = stablehlo.constant dense<{start}> : tensor<{value}>
  %q = stablehlo.constant dense<{first}> : tensor<{index}>
  %iota = stablehlo.iota dim = {dim} : tensor<3x9x{index}>
  %o:2 = stablehlo.reduce(%x init: %p), ({indices} init: %q) across dimensions = [1]
    : (tensor<3x9x{value}>, tensor<3x9x{index}>, tensor<{value}>, tensor<{index}>)
    -> (tensor<3x{value}>, tensor<3x{index}>)
   reducer(%a: tensor<{value}>, %b: tensor<{value}>) (%j: tensor<{index}>, %k: tensor<{index}>) {{
    %gt = stablehlo.compare GT, %a, %b : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %nan = stablehlo.compare NE, %a, %a : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %wins = stablehlo.or %gt, %nan : tensor<i1>
    %eq = stablehlo.compare EQ, %a, %b : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %lt = stablehlo.compare LT, %j, %k : (tensor<{index}>, tensor<{index}>) -> tensor<i1>
    %tie = stablehlo.and %eq, %lt : tensor<i1>
    %0 = stablehlo.select %wins, %a, %b : tensor<i1>, tensor<{value}>
    %first = stablehlo.or %wins, %tie : tensor<i1>
    %1 = stablehlo.select %first, %j, %k : tensor<i1>, tensor<{index}>
    stablehlo.return %0, %1 : tensor<{value}>, tensor<{index}>
  }}
  return %o#0, %o#1 : tensor<3x{value}>, tensor<3x{index}>
}} }}"""


def pairs(**changes: str) -> str:
    defaults = {"value": "i32", "index": "i32", "start": "-2147483648", "first": "0"}
    return PAIRS.format(**{**defaults, "dim": "1", "indices": "%iota", **changes})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, True),
        ({"value": "f32", "start": "0xFF800000"}, True),
        ({"start": "3"}, True),
        ({"start": "100"}, True),
        ({"start": "3", "first": "5"}, True),
        # NaN wins whatever else there is: a constant.
        ({"value": "f32", "start": "0x7FC00000"}, False),
        ({"first": "-1"}, True),
        ({"indices": "%i"}, False),
        ({"dim": "0"}, False),
        ({"value": "f32", "start": "0xFF800000", "indices": "%i"}, False),
        ({"index": "f32", "first": "0.0"}, False),
        ({"index": "i4", "indices": "%iota"}, False),
    ],
)
def test_both_results_of_an_arg_extreme(changes: dict[str, str], named: bool) -> None:
    text = pairs(**changes)
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (3, 9)).astype(numpy_type(changes.get("value", "i32")))
    x[2] = np.iinfo(np.int32).min if x.dtype.kind == "i" else -np.inf
    if x.dtype.kind == "f":
        x[0, 4] = np.nan
    if changes.get("index") == "i4":
        text = text.replace("%i: tensor<3x9xi4>", "%i: tensor<3x9xi32>")
        text = as_i32_result(text)
    i = rng.integers(0, 4, (3, 9)).astype(
        numpy_type(changes.get("index", "i32").replace("i4", "i32"))
    )
    run = against_xla(text, x, i).bit_exact()
    assert (run.nodes["ArgMax"] > 0) == named


def as_i32_result(text: str) -> str:
    """ORT's Python API takes no 4-bit arrays, so the model gives a wider one."""
    return text.replace(
        "-> (tensor<3xi32>, tensor<3xi4>) {\n", "-> (tensor<3xi32>, tensor<3xi32>) {\n", 1
    ).replace(
        "return %o#0, %o#1 : tensor<3xi32>, tensor<3xi4>",
        "%wide = stablehlo.convert %o#1 : (tensor<3xi4>) -> tensor<3xi32>\n"
        "return %o#0, %wide : tensor<3xi32>, tensor<3xi32>",
    )


XLA_FORM = """
module { func.func public @main(%x: tensor<3x9xf32>) -> tensor<3xi32> {
  %p = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %q = stablehlo.constant dense<0> : tensor<i32>
  %iota = stablehlo.iota dim = 1 : tensor<3x9xi32>
  %o:2 = stablehlo.reduce(%x init: %p), (%iota init: %q) across dimensions = [1]
    : (tensor<3x9xf32>, tensor<3x9xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
    %le = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %0 = stablehlo.select %le, %a, %b : tensor<i1>, tensor<f32>
    %eq = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %low = stablehlo.minimum %j, %k : tensor<i32>
    %1 = stablehlo.select %le, %j, %k : tensor<i1>, tensor<i32>
    %2 = stablehlo.select %eq, %low, %1 : tensor<i1>, tensor<i32>
    stablehlo.return %0, %2 : tensor<f32>, tensor<i32>
  }
  return %o#1 : tensor<3xi32>
} }"""


def test_argmin_as_xla_builds_it_is_one_node() -> None:
    x = np.random.default_rng(4).integers(-3, 4, (3, 9)).astype(np.float32)
    x[1] = np.inf
    against_xla(XLA_FORM, x).bit_exact().graph_is("ArgMin", "Cast")


# -- complex numbers ---------------------------------------------------------------------------


def complex_values(shape: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)).astype(np.complex64)


@pytest.mark.parametrize("function", [jnp.sum, jnp.prod, jnp.max, jnp.min])
@pytest.mark.parametrize(("shape", "axis"), [((5, 3), 0), ((2, 7), 1), ((2, 3, 3), (0, 2))])
def test_complex(function: Callable, shape: Sequence[int], axis: int | tuple[int, ...]) -> None:
    against_jax(lambda x: function(x, axis), complex_values(shape)).close()


def test_a_complex_init_counts_once() -> None:
    def function(x: jax.Array, init: jax.Array) -> list[jax.Array]:
        return [
            jax.lax.reduce(x, init, jax.lax.add, (0,)),
            jax.lax.reduce(x, init, jax.lax.mul, (0,)),
            jax.lax.reduce(x, np.complex64(1 + 1j), jax.lax.mul, (0,)),
            jax.lax.reduce(x, np.complex64(-3j), jax.lax.add, (0,)),
            jax.lax.reduce(x, np.complex64(3), jax.lax.add, (0,)),
            jax.lax.reduce(x[:0], init, jax.lax.mul, (0,)),
        ]

    against_jax(function, complex_values((5, 3)), np.complex64(2 - 1j)).close()


# -- the graph ---------------------------------------------------------------------------------


def against_jax(function: Callable, *inputs: np.ndarray, **options: object) -> Run:
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*inputs).as_text()
    return against_xla(text, *inputs, **options)


def test_sums_of_integers_are_one_node_where_they_cannot_overflow() -> None:
    mask = values("i1", (3, 40, 4))
    count = against_jax(lambda x: jnp.sum(x, 1, np.int32), mask).bit_exact()
    count.graph_is("Cast", "ReduceSum")
    small = values("i8", (3, 40, 4))
    against_jax(lambda x: jnp.sum(x, (0, 2), np.int8), small).bit_exact().has_no("MatMul")
    any_value = values("i32", (3, 40, 4))
    for axis in (0, 1, 2, (0, 2), (0, 1, 2)):
        run = against_jax(lambda x, a=axis: jnp.sum(x, a, np.int32), any_value).bit_exact()
        run.has_no("ReduceSum")
        assert run.nodes["MatMul"] == 1


def test_sum_is_one_node() -> None:
    x = tame("f32", (3, 4, 5))
    against_jax(lambda x: x.sum((0, 2)), x).close().graph_is("ReduceSum")
    against_jax(lambda x: x.prod(1), x).close().graph_is("ReduceProd")


def test_max_of_what_cannot_be_nan_is_one_node() -> None:
    x = values("i32", (3, 4))
    against_jax(lambda x: x.max(1), x).bit_exact().graph_is("ReduceMax")
    against_jax(lambda x: x.astype(np.float32).min(1), x).close().graph_is("Cast", "ReduceMin")


def test_the_guard_against_nan() -> None:
    x = values("f32", (8, 5))
    guarded = ("Relu", "ReduceSum", "IsNaN", "ReduceMax", "Where")
    against_jax(lambda x: x.max(1), x).bit_exact().graph_is(*guarded)
    tame_x = tame("f32", (8, 5))
    against_jax(lambda x: x.max(1), tame_x, nan="runtime").bit_exact().graph_is("ReduceMax")
    argmax = against_jax(lambda x: jnp.argmax(x, 1), tame_x, nan="runtime").bit_exact()
    assert argmax.nodes["ArgMax"] == 1
    argmax.has_no("IsNaN", "Where")


@pytest.mark.parametrize("function", [jnp.abs, lambda x: jnp.abs(x) + jnp.sqrt(x)])
def test_the_guard_of_what_is_not_negative(function: Callable[[jax.Array], jax.Array]) -> None:
    x = values("f32", (8, 5))
    run = against_jax(lambda x: function(x).max(1), x).close()
    assert (run.nodes["ReduceSum"], run.nodes["IsNaN"], run.nodes["Relu"]) == (1, 1, 0)


def test_argmax_of_integers_is_one_node_and_a_cast() -> None:
    x = values("i32", (3, 4))
    run = against_jax(lambda x: jax.lax.argmax(x, 1, np.int32), x)
    run.bit_exact().graph_is("ArgMax", "Cast")


def test_all_and_any_count_in_integers() -> None:
    x = values("i1", (3, 4))
    against_jax(lambda x: x.all(1), x).bit_exact().graph_is("Cast", "ReduceMin", "Cast")
    against_jax(lambda x: x.any(1), x).bit_exact().graph_is("Cast", "ReduceMax", "Cast")


def test_reducing_over_ones_is_no_reduction() -> None:
    x = values("f32", (6, 1))
    against_jax(lambda x: x.max(1), x).bit_exact().graph_is("Squeeze")


def test_halving_takes_log2_steps() -> None:
    x = values("i32", (100, 3))
    run = against_jax(lambda x: jax.lax.reduce_xor(x, (0,)), x).bit_exact()
    assert run.nodes["BitwiseXor"] == math.ceil(math.log2(100))


# -- properties --------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_shape_any_dimensions(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), max_size=4), "shape")
    dimensions = data.draw(st.sets(st.sampled_from(range(len(shape)))) if shape else st.just(set()))
    op = data.draw(st.sampled_from(["add", "multiply", "minimum", "maximum", "and", "or", "xor"]))
    some = ["i32", "i64", "ui8", "i1"]
    floats = ["f32", "f16"] if op in ("minimum", "maximum") else []
    element = data.draw(st.sampled_from(some + floats), "element")
    x = values(element, shape, data.draw(st.integers(0, 99), "seed"))
    against_xla(reduces(op, element, [(shape, sorted(dimensions))]), x).bit_exact()

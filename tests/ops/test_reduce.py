"""reduce over every kind of region, against XLA."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax, against_xla
from edge_values import edge_values
from reduce_case import FLOATS, INTEGERS, literal, neutral, reduces, tame, values

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

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


@pytest.mark.costly
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


@pytest.mark.wide
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


@pytest.mark.wide
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


def test_halving_takes_log2_steps() -> None:
    x = values("i32", (100, 3))
    run = against_jax(lambda x: jax.lax.reduce_xor(x, (0,)), x).bit_exact()
    assert run.nodes["BitwiseXor"] == math.ceil(math.log2(100))

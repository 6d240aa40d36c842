"""Reductions, sorts and selections over symbolic extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax
from jax.export import symbolic_shape

import hlo2onnx

REDUCTIONS: dict[str, Callable[[jax.Array], Any]] = {
    "mean, deviation": lambda x: (x.mean(0), x.std(0)),
    "extremes, product": lambda x: (x.max(0), x.min(0), x.prod(0)),
    "any, all": lambda x: ((x > 0).any(0), (x > 0).all(0)),
    "argmax, argmin": lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 0)),
    "argmax of NaN": lambda x: jnp.argmax(jnp.where(x > 1, jnp.nan, x), 0),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 0),
    "without a name": lambda x: lax.reduce(x, -jnp.inf, jnp.logaddexp, (0,)),
    "without a name, two axes": lambda x: lax.reduce(x, -jnp.inf, jnp.logaddexp, (0, 1)),
    "two at once": lambda x: lax.reduce(
        (x, 2 * x),
        (1.0, 0.0),
        lambda a, b: (a[0] * b[0], a[0] * b[1] + a[1] * b[0]),
        (0,),
    ),
    "product of integers": lambda x: (jnp.round(2 * x) + 1).astype(jnp.int32).prod(0),
    "product of integers, other axis": lambda x: (jnp.round(2 * x) + 1).astype(jnp.int32).prod(1),
    "product of bytes": lambda x: (jnp.round(2 * x) + 1).astype(jnp.uint8).prod(dtype=jnp.uint8),
    "complex product": lambda x: lax.complex(x, -x).prod(0),
}
SORTS: dict[str, Callable[[jax.Array], Any]] = {
    "sort": lambda x: (jnp.sort(x, 0), jnp.sort(x, 1)),
    "descending": lambda x: jnp.sort(x, 0, descending=True),
    "argsort": lambda x: jnp.argsort(jnp.round(x), 0),
    "two keys": lambda x: lax.sort((jnp.round(x[:, 0]), x[:, 1], x[:, 2]), num_keys=2),
    "top_k": lambda x: lax.top_k(x, 3),
    "top_k of all": lambda x: lax.top_k(x.T, x.shape[0]),
    "approx_max_k": lambda x: lax.approx_max_k(x, 2),
    "approx_max_k of all": lambda x: lax.approx_max_k(x.T, x.shape[0]),
    "approx_max_k of a symbolic axis": lambda x: lax.approx_max_k(x.T, 1),
    "median, quantile": lambda x: (jnp.median(x, 0), jnp.quantile(x, 0.3, axis=0)),
    "permutation": lambda x: jax.random.permutation(jax.random.key(0), x, axis=1),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    every_size(REDUCTIONS[name], "b, 8")


@pytest.mark.costly
@pytest.mark.parametrize("name", SORTS)
def test_sorts(name: str) -> None:
    every_size(SORTS[name], "b, 8")


def reduction(region: str, init: str = "0.0") -> str:
    return f"""
      func.func public @main(%x: tensor<?x2xf32>) -> tensor<2xf32> {{
        %z = stablehlo.constant dense<{init}> : tensor<f32>
        %0 = "stablehlo.reduce"(%x, %z) ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            {region}
            stablehlo.return %1 : tensor<f32>
        }}) {{dimensions = array<i64: 0>}} : (tensor<?x2xf32>, tensor<f32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }}"""


REGIONS = {
    "add": reduction("%1 = stablehlo.add %a, %b : tensor<f32>"),
    "maximum": reduction("%1 = stablehlo.maximum %a, %b : tensor<f32>", "0xFF800000"),
    "without a name": reduction(
        """%2 = stablehlo.multiply %a, %b : tensor<f32>
           %3 = stablehlo.add %a, %b : tensor<f32>
           %1 = stablehlo.add %2, %3 : tensor<f32>"""
    ),
}


@pytest.mark.parametrize("name", REGIONS)
def test_nothing_to_reduce(name: str) -> None:
    """JAX's dimensions are at least 1, those of other producers are not."""
    program = hlo2onnx.translate(REGIONS[name])
    for rows in (0, 1, 6):
        x = np.random.default_rng(rows).uniform(0.1, 1, (rows, 2)).astype(np.float32)
        assert program.verify(x).ok


@pytest.mark.costly
@pytest.mark.parametrize("dims", ["n", "n, 3", "3, n", "n, m"])
@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("dtype", [bool, np.float32])
def test_any_and_all_of_nothing(dims: str, axis: int | None, dtype: type) -> None:
    """JAX takes named extents for at least 1. The model also runs without rows."""

    def function(x: jax.Array) -> tuple[jax.Array, ...]:
        return x.any(axis), x.all(axis), (x > 0).any(axis), ~(x == 0).all(axis, keepdims=True)

    program = hlo2onnx.translate(function, jax.ShapeDtypeStruct(symbolic_shape(dims), dtype))
    for size in (0, 2):
        shape = tuple(size if dim.isalpha() else int(dim) for dim in dims.split(", "))
        x = np.resize(np.array([1, 0, 1, 1], dtype), shape)
        for found, expected in zip(program(x), jax.jit(function)(x), strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.uint32, np.uint8])
@pytest.mark.parametrize(
    "reduce",
    [lax.reduce_max, lax.reduce_min, lax.reduce_or, lax.reduce_and, lax.reduce_xor, lax.reduce_sum],
)
def test_integers_of_no_rows(reduce: Callable[..., jax.Array], dtype: type) -> None:
    """The model also runs at the extent 0, which JAX' names leave out."""
    x = np.array([[1, 7], [4, 2], [9, 9]], dtype)
    program = hlo2onnx.translate(lambda x: reduce(x, (0,)), x, dynamic="n, 2")
    for rows in (0, 1, 3):
        expected = reduce(x[:rows], (0,))
        np.testing.assert_array_equal(program(x[:rows]), expected, strict=True)


def test_the_shapes_of_halves() -> None:
    """Only the leading extent changes from step to step."""
    program = hlo2onnx.translate(lambda x: lax.reduce(x, -jnp.inf, jnp.logaddexp, (0,)), "n, 2, 3")
    (loop,) = [node for node in program.model.graph if node.op_type == "Loop"]
    assert [list(value.shape)[1:] for value in loop.outputs] == [[2, 3]]


@pytest.mark.parametrize(
    ("op", "initial", "expected"),
    [
        ("multiply", 1, lambda x: x.prod(0)),
        ("maximum", -(2**63), lambda x: x.max(0, initial=-(2**63))),
        ("minimum", 2**63 - 1, lambda x: x.min(0, initial=2**63 - 1)),
    ],
)
def test_integers_of_so_many_rows(
    op: str, initial: int, expected: Callable[[np.ndarray], np.ndarray]
) -> None:
    """There may be none."""
    program = hlo2onnx.translate(
        f"""
        module {{ func.func public @main(%arg0: tensor<?x3xi64>) -> tensor<3xi64> {{
          %1 = stablehlo.constant dense<{initial}> : tensor<i64>
          %0 = stablehlo.reduce(%arg0 init: %1) applies stablehlo.{op}
            across dimensions = [0] : (tensor<?x3xi64>, tensor<i64>) -> tensor<3xi64>
          return %0 : tensor<3xi64>
        }} }}
        """
    )
    rng = np.random.default_rng(0)
    for rows in (0, 1, 2, 3, 64, 101):
        x = 2 * rng.integers(-9, 9, (rows, 3)) + 1
        np.testing.assert_array_equal(program(x), expected(x))


@pytest.mark.wide
def test_variances_over_images_of_any_size() -> None:
    """There are elements: nothing has to ask whether there are."""

    def normalized(x: jax.Array) -> jax.Array:
        mean = x.mean((1, 2), keepdims=True)
        return (x - mean) * lax.rsqrt(x.var((1, 2), keepdims=True) + 1e-5)

    program = every_size(normalized, "b, 4*h, w, 3")
    assert not {"Greater", "Where", "Shape"} & program.report.nodes.keys()


def test_an_extent_in_a_type_without_room() -> None:
    """200 is -56 as a byte: that is no number of terms."""

    def divided(x: jax.Array) -> jax.Array:
        return x.sum(0) / jnp.asarray(x.shape[0]).astype(jnp.int8).astype(jnp.float32)

    every_size(divided, "n, 2", sizes=(1, 200))


def test_means_over_images_that_were_halved() -> None:
    """Rounded up they are not empty, rounded down they may be."""
    halved = lambda x: lax.reduce_window(  # noqa: E731
        x, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), ((0, 0), (1, 1), (0, 0))
    )
    program = every_size(lambda x: halved(halved(x)).mean(1), "b, h, 8")
    assert program.report.nodes["ReduceMean"] == 1
    assert not {"ReduceSum", "Shape"} & program.report.nodes.keys()

"""Vectors that are computed component by component."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array
from rewriting import Rewrite
from target_costs import with_costs
from verified import verified

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.pack_columns import PackColumns
from hlo2onnx.raising.rules.shapes.reshape import IdentityGather

NAME = "pack-columns"
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 4)).astype(np.float32)
ODD = np.array([[np.nan, -0.0, np.inf], [0.0, -np.inf, 1e38], [-0.0, 0.0, 3.0]], np.float32)


def product(a: Array, b: Array) -> Array:
    """Of two quaternions."""
    return jnp.array([
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ])  # fmt: skip


def read_components(a: Array, b: Array) -> Any:
    """Others read components of the vector."""
    c = product(a, b)
    return c, c[1] * c[2], jnp.sin(c[0])


def conjugate(a: Array, b: Array) -> Array:
    """Constants among the factors, and functions of one operand."""
    return product(jnp.stack([a[0], -a[1], -a[2], -a[3]]), jnp.abs(b))


def rows(a: Array, b: Array) -> Array:
    """Vectors of three numbers for each component."""
    m, v = jnp.outer(a, b[:3]), b[1:]
    return jnp.stack([m[0] * v[1] - m[1] * v[0], m[1] * v[2] - m[2] * v[1],
                      m[2] * v[0] - m[0] * v[2]])  # fmt: skip


def matrix(a: Array, b: Array) -> Array:
    """A product of matrices written out."""
    x, y = jnp.outer(a[:3], b[:3]), jnp.outer(b[1:], a[1:])
    return jnp.stack(
        [jnp.stack([sum(x[i, k] * y[k, j] for k in range(3)) for j in range(3)]) for i in range(3)]
    )


PROGRAMS = [(function, 0) for function in (product, read_components, conjugate, rows, matrix)]
PROGRAMS += [(product, 5), (read_components, 5)]


@pytest.mark.parametrize(("function", "batch"), PROGRAMS)
def test_the_numbers_are_the_same(function: Callable[..., Any], batch: int) -> None:
    args = [np.stack([x + k for k in range(batch)]) if batch else x for x in (A, B)]
    lowered = jax.jit(jax.vmap(function) if batch else function).lower(*args)
    packed, apart = hlo2onnx.translate(lowered), hlo2onnx.translate(lowered, without=NAME)
    assert packed.report.rules[NAME]
    assert packed.report.nodes.total() < apart.report.nodes.total()
    for one, other in zip(*map(jax.tree.leaves, (packed(*args), apart(*args))), strict=True):
        np.testing.assert_array_equal(one, other)


def test_cross_products_of_zeros_infinities_and_nan() -> None:
    program, apart = verified(jnp.cross, *ODD[:2]), verified(jnp.cross, *ODD[:2], without=NAME)
    assert program.report.rules[NAME]
    for a, b in itertools.product(ODD, ODD):
        found, wanted = np.asarray(program(a, b)), np.asarray(apart(a, b))
        np.testing.assert_array_equal(found, wanted)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


# -- single graphs ------------------------------------------------------------------------------


Value = oir.Value
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = X[::-1] * 3 - 5


def columns(b: GraphBuilder, x: Value) -> list[Value]:
    return b.outputs("Split", x, b.i64([1, 1, 1]), axis=1, n_outputs=3)


def cross(b: GraphBuilder, p: list[Value], q: list[Value]) -> list[Value]:
    pairs = [(1, 2), (2, 0), (0, 1)]
    return [b.Sub(b.Mul(p[i], q[j]), b.Mul(p[j], q[i])) for i, j in pairs]


def run(build: Callable[..., Any], x: np.ndarray = X, y: np.ndarray = Y) -> Rewrite:
    def whole(b: GraphBuilder, x: Value, y: Value) -> Any:
        return build(b, columns(b, x), columns(b, y))

    return Rewrite(whole, {"x": x, "y": y}, PackColumns())


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_cross_product(dtype: Any) -> None:
    made = run(lambda b, p, q: b.concat(cross(b, p, q), 1), X.astype(dtype), Y.astype(dtype))
    made.gives("Gather", "Gather", "Mul", "Gather", "Gather", "Mul", "Sub")


def test_components_are_split_off() -> None:
    def build(b: GraphBuilder, p: list[Value], q: list[Value]) -> Any:
        parts = cross(b, p, q)
        early = b.Exp(parts[0])
        return b.concat(parts, 1), early, b.Neg(parts[2])

    assert run(build).nodes["Split"] == 1


def test_columns_of_columns() -> None:
    """The one column of a column is that of the tensor."""

    def build(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
        (last,) = b.outputs("Split", p[2], b.i64([1]), axis=1, n_outputs=1)
        return b.concat(cross(b, [*p[:2], last], q), 1)

    assert run(build).fired


def test_parts_that_stand_twice_in_a_concat() -> None:
    def build(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
        parts = cross(b, p, q)
        return b.concat([*parts, parts[1]], 1), b.Exp(parts[0])

    made = run(build)
    assert made.fired and made.nodes["Mul"] == 2


def weights(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
    """Factors that are no constants."""
    return b.concat([p[0], b.Mul(p[1], q[0]), b.Mul(p[2], q[1])], 1)


def depends(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
    """Each component is computed from the one before."""
    parts = [b.Mul(b.Add(p[0], q[0]), p[1])]
    for k in (1, 2):
        parts.append(b.Mul(b.Add(parts[-1], q[k]), p[1]))
    return b.concat(parts, 1)


def read_early(b: GraphBuilder, p: list[Value], q: list[Value]) -> Any:
    """What is read of the first component is needed for the others."""
    first = b.Sub(b.Mul(p[1], q[2]), b.Mul(p[2], q[1]))
    x = columns(b, b.Concat(b.Exp(first), p[1], p[2], axis=1))
    second = b.Sub(b.Mul(x[0], q[0]), b.Mul(x[1], q[2]))
    third = b.Sub(b.Mul(x[1], q[1]), b.Mul(x[2], q[0]))
    return b.concat([first, second, third], 1)


def other_axis(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
    return b.concat(cross(b, p, q), 0)


def result(b: GraphBuilder, p: list[Value], q: list[Value]) -> Any:
    """All components are results of the model."""
    parts = cross(b, p, q)
    return [b.concat(parts, 1), *parts]


def exponents_of_two_types(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
    numbers = [np.float32(3), np.int32(3), np.int32(2)]
    return b.concat([b.Pow(b.Abs(x), b.const(n)) for x, n in zip(p, numbers, strict=True)], 1)


def the_same(b: GraphBuilder, p: list[Value], q: list[Value]) -> Any:
    """As many equal parts as they have rows."""
    x = b.MatMul(p[0], b.Transpose(q[0], perm=[1, 0]))
    return b.concat([b.reshape(x, [1, 2, 2]), b.unsqueeze(x, [0])], 0)


NEAR_MISSES = [weights, depends, read_early, other_axis, result]
NEAR_MISSES += [exponents_of_two_types, the_same]


@pytest.mark.parametrize("build", NEAR_MISSES)
def test_near_misses(build: Callable[..., Any]) -> None:
    run(build).nothing()


@pytest.mark.parametrize("height, fires", [(500, True), (2000, False)])
def test_large_constants_are_not_stored_again(height: int, fires: bool) -> None:
    x = np.zeros((height, 3), np.float32)

    def build(b: GraphBuilder, x: Value) -> Value:
        weights = [b.const(np.full((height, 1), k, np.float32)) for k in range(3)]
        return b.concat([b.Mul(y, w) for y, w in zip(columns(b, x), weights, strict=True)], 1)

    target = with_costs(joined_elements_per_node=10**9)
    assert bool(Rewrite(build, {"x": x}, PackColumns(), target=target).fired) == fires


def test_operands_of_an_extreme_keep_their_places() -> None:
    """Of +0 and -0, Max gives the first one. A Concat of the columns in order would be no node."""

    def build(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
        return b.concat([b.Max(p[0], q[0]), b.Max(q[1], p[1]), b.Max(p[2], q[2])], 1)

    run(build).gives("Split", "Split", "Concat", "Concat", "Max")


def test_integers_keep_their_signs_apart() -> None:
    """Add in one component and Sub in another."""

    def build(b: GraphBuilder, p: list[Value], q: list[Value]) -> Value:
        return b.concat([b.Add(b.Mul(p[0], q[0]), p[1]), b.Sub(b.Mul(p[1], q[1]), p[2]),
                         b.Sub(b.Mul(p[2], q[2]), p[0])], 1)  # fmt: skip

    run(build, X.astype(np.int32), Y.astype(np.int32)).nothing()
    assert run(build).fired


def test_long_columns_stay_apart() -> None:
    """Gathering them would take longer than the nodes that are saved."""
    x = RNG.normal(size=(5_000, 3)).astype(np.float32)
    run(lambda b, p, q: b.concat(cross(b, p, q), 1), x, x[::-1]).nothing()


# -- gathers of everything ------------------------------------------------------------------------


def gathered(indices: Any, axis: int = 1) -> Rewrite:
    return Rewrite(
        lambda b, x: b.Neg(b.op("Gather", x, b.i64(indices), axis=axis)), {"x": X}, IdentityGather()
    )


def test_gathers_of_all_rows_in_order() -> None:
    gathered([0, 1, 2]).gives("Neg")
    gathered([0, 1], axis=0).gives("Neg")
    gathered([[0], [1]], axis=0).gives("Reshape", "Neg")


@pytest.mark.parametrize("indices", [[0, 2, 1], [0, 1], [0, 1, 2, 2], [-3, -2, -1], 0])
def test_other_gathers(indices: Any) -> None:
    gathered(indices).nothing()


NUMBERS = np.arange(5, dtype=np.int32)


@pytest.mark.parametrize(
    ("table", "bounds", "fires"),
    [
        (NUMBERS, (0, 4), True),
        (NUMBERS, (1, 3), True),
        (NUMBERS, (-1, 4), False),
        (NUMBERS, (0, 5), False),
        (NUMBERS[::-1].copy(), (0, 4), False),
        (NUMBERS + np.int32(1), (0, 4), False),
        (NUMBERS.astype(np.float32), (0, 4), False),
        (NUMBERS[:, None], (0, 4), False),
    ],
)
def test_gathers_from_the_places(table: Any, bounds: tuple[int, int], fires: bool) -> None:
    """A number that is the place where it stands."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        low, high = (b.scalar(bound, oir.DataType.INT32) for bound in bounds)
        return b.Neg(b.op("Gather", b.const(table), b.Clip(x, low, high), axis=0))

    for x in (np.array([[3, 0], [1, 4]], np.int32), np.int32(2)):
        rewrite = Rewrite(build, {"x": np.asarray(x)}, IdentityGather())
        rewrite.gives("Clip", "Neg") if fires else rewrite.nothing()


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, -1, 0], [0, 1, 0, 0]])
def test_pads_of_nothing(pads: list[int]) -> None:
    made = Rewrite(lambda b, x: b.Neg(b.Pad(x, b.i64(pads), mode="edge")), {"x": X},
                   IdentityGather())  # fmt: skip
    assert bool(made.fired) == (not any(pads))

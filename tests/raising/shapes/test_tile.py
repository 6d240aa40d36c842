"""Tile: where whole axes are repeated, and where each element is."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.shapes.tile import TileOperator

X = np.arange(2 * 3 * 8, dtype=np.float32).reshape(2, 3, 8)


def views(*shapes: tuple[int, ...]) -> Callable[[GraphBuilder, oir.Value], oir.Value]:
    """Reshape, Expand and Reshape to these shapes."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        before, after, whole = map(b.i64, shapes)
        return b.Reshape(b.Expand(b.Reshape(x, before), after), whole)

    return build


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 1, 3, 8), (2, 4, 3, 8), (2, 12, 8)),
        ((1, 2, 1, 3, 1, 8), (5, 2, 4, 3, 1, 8), (10, 12, 8)),
        ((1, 2, 3, 8), (3, 2, 3, 8), (6, 3, 8)),
        ((2, 3, 1, 8), (2, 3, 2, 8), (2, 3, 16)),
    ],
)
def test_tile(shapes: tuple[tuple[int, ...], ...]) -> None:
    Rewrite(views(*shapes), {"x": X}, TileOperator()).gives("Tile")


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 1, 8), (2, 3, 4, 8), (2, 12, 8)),
        ((2, 1, 3, 8), (2, 2, 3, 8), (4, 3, 8)),
        ((2, 1, 24), (2, 2, 24), (2, 6, 8)),
        ((2, 3, 8, 1), (2, 3, 8, 2), (2, 3, 16)),
        ((2, 3, 1, 8), (2, 3, 2, 8), (12, 8)),
    ],
    ids=["rows", "the axis before", "what is one axis then", "elements", "another rank"],
)
def test_repetitions_of_something_else(shapes: tuple[tuple[int, ...], ...]) -> None:
    Rewrite(views(*shapes), {"x": X}, TileOperator()).nothing()


def test_small_blocks_are_expanded() -> None:
    build = views((2, 3, 1, 4), (2, 3, 5, 4), (2, 3, 20))
    Rewrite(build, {"x": X[..., :4]}, TileOperator()).nothing()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?"])
def test_tile_in_jax(dtype: str) -> None:
    function = jax.jit(lambda x: jnp.tile(x, (2, 3, 1)))
    with jax.enable_x64(True):
        program = hlo2onnx.translate(function.lower(X.astype(dtype)))
        want = np.asarray(function(X.astype(dtype)))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Tile"]
    np.testing.assert_array_equal(program(X.astype(dtype)), want)


def test_repeat_in_jax() -> None:
    function = jax.jit(lambda x: jnp.repeat(x, 2, 1))
    program = hlo2onnx.translate(function.lower(X))
    assert "Tile" not in [node.op_type for node in program.model_proto.graph.node]
    np.testing.assert_array_equal(program(X), function(X))


@pytest.mark.parametrize(
    ("x", "shapes"),
    [
        (X, ((2, 1, 3, 8), (2, 2, 3, 8), (4, 6, 4))),
        (X, ((2, 1, 3, 8), (2, 2, 3, 8), (2, 3, 16))),
        (X, ((1, 2, 3, 8), (2, 2, 3, 8), (2, 6, 8))),
        (X[:, :0], ((2, 0, 1, 8), (2, 0, 2, 8), (2, 0, 16))),
        (X, ((2, 3, 8), (4, 2, 3, 8), (8, 3, 8))),
        (X[..., :7], ((2, 3, 1, 7), (2, 3, 5, 7), (2, 3, 35))),
        (X[..., :1], ((1, 2, 3, 1), (3, 2, 3, 1), (6, 3, 1))),
    ],
    ids=["cut", "another order", "in turns", "no rows", "ranks", "small", "six"],
)
def test_other_repetitions(x: np.ndarray, shapes: tuple[tuple[int, ...], ...]) -> None:
    Rewrite(views(*shapes), {"x": x}, TileOperator()).nothing()


def test_the_smallest_block() -> None:
    """What is repeated at once begins with the last axis that is repeated."""
    build = views((1, 2, 2, 1, 2), (3, 2, 2, 1, 2), (6, 2, 2))
    Rewrite(build, {"x": X[:, :2, :2]}, TileOperator()).gives("Tile")
    inner = views((1, 2, 1, 2, 2), (3, 2, 3, 2, 2), (6, 6, 2))
    Rewrite(inner, {"x": X[:, :2, :2]}, TileOperator()).nothing()


def test_chains_with_something_else_in_between() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        view = b.Reshape(x, b.i64([2, 1, 3, 8]))
        wide = b.Expand(b.Neg(view), b.i64([2, 4, 3, 8]))
        return [
            b.Reshape(wide, b.i64([2, 12, 8])),
            b.Reshape(b.Neg(wide), b.i64([2, 12, 8])),
            b.Reshape(b.Neg(x), b.i64([6, 8])),
            b.Reshape(b.Neg(x), b.i64([2, 24])),
        ]

    Rewrite(build, {"x": X}, TileOperator()).nothing()


def test_free_shapes_are_not_tiled() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        shape = (oir.SymbolicDim("n"), 1, 3, 8)
        view = b.op("Reshape", x, b.i64([-1, 1, 3, 8]), types=[(x.dtype, shape)])
        wide = b.op("Expand", view, b.i64([2, 4, 3, 8]), types=[(x.dtype, (2, 4, 3, 8))])
        return b.Reshape(wide, b.i64([2, 12, 8]))

    Rewrite(build, {"x": X}, TileOperator()).nothing()


def test_targets_without_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    Rewrite(views((2, 3, 1, 8), (2, 3, 2, 8), (2, 3, 16)), {"x": X}, TileOperator()).nothing()


def test_a_free_tensor_that_is_not_repeated() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        free = [(x.dtype, (oir.SymbolicDim("n"), 3, 8))]
        wide = b.Expand(b.Reshape(b.op("Identity", x, types=free), b.i64([6, 8])), b.i64([6, 8]))
        return b.op("Reshape", wide, b.i64([-1, 3, 8]), types=free)

    Rewrite(build, {"x": X}, TileOperator()).nothing()

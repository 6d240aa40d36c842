"""The rules on resampled images alone, on small graphs, and the weights they know."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.resize import (
    NearestResize,
    RepeatToResize,
    ResizeOperator,
)
from hlo2onnx.raising.rules.nn.resize_modes import (
    LINEAR,
    LINEAR_ANTIALIASED,
    Mode,
    interpolation,
)

RNG = np.random.default_rng(0)


def image(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


# -- products --------------------------------------------------------------------------------------


def weights(before: int, after: int, mode: Mode = LINEAR) -> np.ndarray:
    return interpolation(mode, before, after).astype(np.float32)


def right(b: GraphBuilder, x: oir.Value, matrix: np.ndarray) -> oir.Value:
    return b.MatMul(x, b.const(matrix))


def left(b: GraphBuilder, x: oir.Value, matrix: np.ndarray) -> oir.Value:
    return b.MatMul(b.const(np.ascontiguousarray(matrix.T)), x)


W = weights(8, 16)


def turned(b: GraphBuilder, x: oir.Value, *perm: int, matrix: np.ndarray = W) -> oir.Value:
    """The last axis resampled, then one that a Transpose brings to the end."""
    return right(b, b.transpose(right(b, x, matrix), perm), matrix)


MEANS = np.full((8, 5), 1 / 8, np.float32)
"""Weights of no mode."""

PRODUCTS: dict[str, tuple[tuple[int, ...], Build]] = {
    "the last axes": ((2, 8, 8), lambda b, x: turned(b, x, 0, 2, 1)),
    "the last axes of four": ((2, 3, 8, 8), lambda b, x: turned(b, x, 0, 1, 3, 2)),
    "axes in between": (
        (2, 8, 8, 3),
        lambda b, x: turned(b, b.transpose(x, (0, 1, 3, 2)), 0, 2, 3, 1, matrix=MEANS),
    ),
    "of no mode": (
        (2, 8, 8),
        lambda b, x: turned(b, x, 0, 2, 1, matrix=MEANS),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_without_moves_between(name: str) -> None:
    shape, build = PRODUCTS[name]
    found = Rewrite(build, {"x": image(*shape)}, ResizeOperator(), tolerance=1e-6)
    assert found.fired and found.nodes["MatMul"] == 2 and not found.nodes["Resize"]


STAY: dict[str, tuple[tuple[int, ...], Build]] = {
    "nothing in between": ((2, 8, 8), lambda b, x: left(b, right(b, x, W), W)),
    "one move to other axes": ((2, 8, 3, 8), lambda b, x: turned(b, x, 0, 2, 3, 1)),
    "three axes": (
        (8, 8, 8),
        lambda b, x: right(b, b.transpose(left(b, right(b, x, W), W), (1, 2, 0)), W),
    ),
    "one axis twice": ((2, 8), lambda b, x: right(b, right(b, x, W), weights(16, 8))),
    "one axis": ((2, 8, 8), lambda b, x: right(b, b.transpose(x, (0, 2, 1)), W)),
    "no weights": (
        (2, 8, 8),
        lambda b, x: turned(b, x, 0, 2, 1, matrix=np.ones((8, 16), np.float32)),
    ),
    "operands": ((2, 8, 8), lambda b, x: b.MatMul(x, x)),
    "of others": (
        (2, 8, 8),
        lambda b, x: right(b, b.transpose(foreign(right(b, x, W)), (0, 2, 1)), W),
    ),
    "a vector of weights": (
        (2, 8, 8),
        lambda b, x: turned(b, x, 0, 2, 1, matrix=np.full((8, 1), 1 / 8, np.float32)),
    ),
    "several matrices": (
        (2, 8, 8),
        lambda b, x: right(b, b.transpose(right(b, x, np.stack([W, W])), (0, 2, 1)), W),
    ),
    "axes that are joined": (
        (2, 2, 4, 8),
        lambda b, x: left(b, b.reshape(right(b, x, W), (2, 8, 16)), W),
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_products_that_stay(name: str) -> None:
    shape, build = STAY[name]
    assert not fires(build, {"x": image(*shape)}, ResizeOperator())


def test_products_of_doubles_stay() -> None:
    wide = W.astype(np.float64)
    inputs = {"x": image(2, 8, 8).astype(np.float64)}
    assert not fires(lambda b, x: turned(b, x, 0, 2, 1, matrix=wide), inputs, ResizeOperator())


@pytest.mark.parametrize(
    ("before", "after", "mode", "is_fast"),
    [(72, 144, LINEAR, True), (60, 120, LINEAR, False), (270, 540, LINEAR_ANTIALIASED, True)],
)
def test_from_which_size_on_it_is_a_resize(
    before: int, after: int, mode: Mode, is_fast: bool
) -> None:
    matrix = weights(before, after, mode)
    found = Rewrite(
        lambda b, x: left(b, right(b, x, matrix), matrix),
        {"x": image(1, 1, before, before)},
        ResizeOperator(),
        tolerance=2e-6,
    )
    assert found.nodes["Resize"] == is_fast


def test_channels_last_are_a_resize_whatever_their_size() -> None:
    found = Rewrite(
        lambda b, x: turned(b, b.transpose(x, (0, 1, 3, 2)), 0, 2, 3, 1),
        {"x": image(2, 8, 8, 3)},
        ResizeOperator(),
        tolerance=2e-6,
    )
    assert found.nodes["Resize"] == 1 and not found.nodes["MatMul"]


# -- gathers ---------------------------------------------------------------------------------------

ROWS = np.arange(8) // 2


def gathered(b: GraphBuilder, x: oir.Value, *axes: int, index: np.ndarray = ROWS) -> oir.Value:
    for axis in axes:
        x = b.Gather(x, b.const(index), axis=axis)
    return x


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (1, 2)])
@pytest.mark.parametrize("index", [ROWS, ROWS - 4])
def test_gathers(axes: tuple[int, ...], index: np.ndarray) -> None:
    shape = [4 if n in axes else 3 for n in range(4)]
    found = Rewrite(
        lambda b, x: gathered(b, x, *axes, index=index), {"x": image(*shape)}, NearestResize()
    )
    assert found.nodes["Resize"] == 1 and not found.nodes["Gather"]


GATHERS: dict[str, tuple[tuple[int, ...], Build]] = {
    "one axis": ((1, 2, 4, 4), lambda b, x: gathered(b, x, 3)),
    "one axis twice": ((1, 2, 4, 4), lambda b, x: gathered(b, x, 3, 3, index=np.arange(4))),
    "a table of rows": (
        (1, 2, 4, 4),
        lambda b, x: gathered(b, gathered(b, x, 3), 2, index=ROWS.reshape(4, 2)),
    ),
    "one row": ((1, 2, 4, 4), lambda b, x: gathered(b, gathered(b, x, 3), 2, index=np.array([2]))),
    "a row": ((1, 2, 4, 4), lambda b, x: gathered(b, gathered(b, x, 2), 3, index=np.array(2))),
    "repeated rows": (
        (1, 2, 4, 1),
        lambda b, x: gathered(b, gathered(b, x, 2), 3, index=np.zeros(8, np.int64)),
    ),
    "of others": ((1, 2, 4, 4), lambda b, x: gathered(b, foreign(gathered(b, x, 3)), 2)),
    "other rows": ((1, 2, 4, 4), lambda b, x: gathered(b, x, 2, 3, index=ROWS[::-1].copy())),
}


@pytest.mark.parametrize("name", GATHERS)
def test_other_gathers(name: str) -> None:
    shape, build = GATHERS[name]
    assert not fires(build, {"x": image(*shape)}, NearestResize())


def test_gathers_along_the_first_axes() -> None:
    found = Rewrite(lambda b, x: gathered(b, x, 0, 1), {"x": image(4, 4, 2, 2)}, NearestResize())
    found.gives("Transpose", "Resize", "Transpose")


def test_computed_indices_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(gathered(b, x, 2), i, axis=3)

    assert not fires(build, {"x": image(1, 2, 4, 4), "i": ROWS}, NearestResize())


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_gathers_of_types_without_a_kernel(dtype: type) -> None:
    x = np.ones((1, 2, 4, 4), dtype)
    assert not fires(lambda b, x: gathered(b, x, 2, 3), {"x": x}, NearestResize())


def test_gathers_of_nothing() -> None:
    x = np.ones((0, 2, 4, 4), np.float32)
    assert not fires(lambda b, x: gathered(b, x, 2, 3), {"x": x}, NearestResize())


# -- repeated pixels -------------------------------------------------------------------------------


def repeated(
    b: GraphBuilder, x: oir.Value, rows: int = 2, columns: int = 2, images: int = 1
) -> oir.Value:
    n, c, h, w = x.shape.numpy()  # type: ignore[union-attr]
    wide = b.expand(b.reshape(x, (n, 1, c, h, 1, w, 1)), (n, images, c, h, rows, w, columns))
    return b.reshape(wide, (n * images, c, h * rows, w * columns))


@pytest.mark.parametrize("counts", [(2, 2), (3, 2), (5, 4)])
def test_repeated_pixels(counts: tuple[int, int]) -> None:
    found = Rewrite(
        lambda b, x: repeated(b, x, *counts), {"x": image(2, 3, 4, 5)}, RepeatToResize()
    )
    found.gives("Resize")


def read_twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    wide = b.expand(b.reshape(x, (2, 3, 4, 1, 4, 1)), (2, 3, 4, 2, 4, 2))
    return [b.reshape(wide, (2, 3, 8, 8)), b.Neg(wide)]


REPEATED: dict[str, Build] = {
    "one axis": lambda b, x: repeated(b, x, 2, 1),
    "three axes": lambda b, x: repeated(b, x, 2, 2, 2),
    "images and rows": lambda b, x: repeated(b, x, 2, 1, 2),
    "read twice": read_twice,
    "an operand": lambda b, x: b.reshape(x, (2, 3, 16)),
    "a function": lambda b, x: b.reshape(b.Exp(x), (2, 3, 16)),
    "an expanded operand": lambda b, x: b.reshape(b.expand(x, (5, 2, 3, 4, 4)), (10, 3, 4, 4)),
    "tiles": lambda b, x: b.reshape(
        b.expand(b.reshape(x, (2, 3, 1, 4, 1, 4)), (2, 3, 2, 4, 2, 4)), (2, 3, 8, 8)
    ),
    "axes that are split": lambda b, x: b.reshape(
        b.expand(b.reshape(x, (2, 3, 4, 1, 4, 1)), (2, 3, 4, 2, 4, 2)), (2, 3, 4, 16)
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_other_repetitions(name: str) -> None:
    assert not fires(REPEATED[name], {"x": image(2, 3, 4, 4)}, RepeatToResize())


@pytest.mark.parametrize(("rows", "fits"), [(32, True), (33, False)])
def test_coordinates_that_f32_cannot_tell(rows: int, fits: bool) -> None:
    """Thirds of 33 rows are too close to the border of two pixels."""
    pixels = {"x": image(1, 1, rows, 2)}
    assert fires(lambda b, x: repeated(b, x, 3, 2), pixels, RepeatToResize()) == fits


def test_repeated_pixels_of_three_axes_and_other_types() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        wide = b.expand(b.reshape(x, (3, 4, 1, 4, 1)), (3, 4, 2, 4, 2))
        return b.reshape(wide, (3, 8, 8))

    assert not fires(build, {"x": image(3, 4, 4)}, RepeatToResize())
    integers = {"x": np.ones((2, 3, 4, 4), np.int64)}
    assert not fires(repeated, integers, RepeatToResize())

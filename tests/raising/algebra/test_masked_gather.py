"""Masked gathers read the fill value behind the last row and column."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from jax.scipy import ndimage
from rewriting import Rewrite, fires
from target_costs import use_costs, with_costs

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.masked_gather import MaskedGather

T = oir.DataType
MANY = with_costs(gathered_scalars=4)
IMAGE = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
EDGES = [0, 1, 2, 3, -1, -2, -3, -4, 2**31 - 1, -(2**31)]
ROWS, COLUMNS = np.array(list(itertools.product(EDGES, EDGES)), np.int32).T.copy()


def inside(b: GraphBuilder, i: oir.Value, extent: int) -> oir.Value:
    return b.Equal(b.Clip(i, b.scalar_like(0, i), b.scalar_like(extent - 1, i)), i)


def gathered(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
    """x[i, j] as JAX lowers it: negative indices count from the end, others are clamped."""
    columns = []
    for index, extent in zip((i, j), (2, 3), strict=True):
        shifted = b.Add(index, b.scalar_like(extent, index))
        whole = b.Where(b.Less(index, b.scalar_like(0, index)), shifted, index)
        clip = b.Clip(whole, b.scalar_like(0, index), b.scalar_like(extent - 1, index))
        columns.append(b.unsqueeze(clip, [1]))
    return b.GatherND(x, b.cast(b.concat(columns, 1), T.INT64))


def test_every_pair_of_edges() -> None:
    """Each index may be before the first element, inside, and behind the last one."""

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        mask = b.And(inside(b, i, 2), inside(b, j, 3))
        return b.Where(mask, gathered(b, x, i, j), b.scalar_like(-7, x))

    names = ["Pad", "Reshape", "Clip", "Clip", "Mul", "Add", "GatherElements"]
    Rewrite(build, {"x": IMAGE, "i": ROWS, "j": COLUMNS}, MaskedGather(), target=MANY).gives(*names)


Masked = Callable[[GraphBuilder, oir.Value, oir.Value, oir.Value], oir.Value]
NEAR_MISSES: dict[str, Masked] = {
    "one index unchecked": lambda b, x, i, j: inside(b, i, 2),
    "checked twice": lambda b, x, i, j: b.And(inside(b, i, 2), inside(b, i, 2)),
    "another condition": lambda b, x, i, j: b.And(
        b.And(inside(b, i, 2), inside(b, j, 3)), b.Less(i, j)
    ),
    "fewer rows": lambda b, x, i, j: b.And(inside(b, i, 1), inside(b, j, 3)),
    "exchanged": lambda b, x, i, j: b.And(inside(b, i, 3), inside(b, j, 2)),
    "either": lambda b, x, i, j: b.Or(inside(b, i, 2), inside(b, j, 3)),
    "from the end": lambda b, x, i, j: b.And(
        b.Equal(b.Clip(i, b.scalar_like(-2, i), b.scalar_like(1, i)), i), inside(b, j, 3)
    ),
    "the next index": lambda b, x, i, j: b.And(
        inside(b, b.Add(i, b.scalar_like(1, i)), 2), inside(b, j, 3)
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_other_masks_stay(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        mask = NEAR_MISSES[name](b, x, i, j)
        return b.Where(mask, gathered(b, x, i, j), b.scalar_like(-7, x))

    assert not fires(build, {"x": IMAGE, "i": ROWS, "j": COLUMNS}, MaskedGather(), target=MANY)


def test_what_else_stays() -> None:
    def masked(b: GraphBuilder, chosen: oir.Value, i: oir.Value, j: oir.Value, fill: Any) -> Any:
        return b.Where(b.And(inside(b, i, 2), inside(b, j, 3)), chosen, fill)

    def read_twice(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> Any:
        chosen = gathered(b, x, i, j)
        return b.Add(masked(b, chosen, i, j, b.scalar_like(-7, x)), chosen)

    def filled(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> Any:
        return masked(b, gathered(b, x, i, j), i, j, b.cast(i, T.FLOAT))

    def opposite(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> Any:
        mask = b.And(inside(b, i, 2), inside(b, j, 3))
        return b.Where(mask, b.scalar_like(-7, x), gathered(b, x, i, j))

    def plain(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> Any:
        return masked(b, gathered(b, x, i, j), i, j, b.scalar_like(-7, x))

    inputs = {"x": IMAGE, "i": ROWS, "j": COLUMNS}
    for build in (read_twice, filled, opposite):
        assert not fires(build, inputs, MaskedGather(), target=MANY), build.__name__
    few = {"x": IMAGE, "i": ROWS[:5], "j": COLUMNS[:5]}
    assert not fires(plain, few, MaskedGather(), target=MANY), "the image is larger"
    assert not fires(plain, inputs, MaskedGather(), target=with_costs(gathered_scalars=101))
    assert fires(plain, inputs, MaskedGather(), target=MANY)


NOT_FINITE = (np.inf, -np.inf, np.nan)
PLACES = np.array(
    [0, 0.5, -0.5, -1, -1.5, 1, 1.5, 2, 2.5, 3, 3.5, 2**31, -(2**31), 3e38, *NOT_FINITE], np.float32
)


@pytest.mark.parametrize("fill", [0.0, -0.0, 2.5, np.nan, np.inf])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_map_coordinates(rank: int, fill: float, monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, gathered_scalars=4)
    places = [PLACES] if rank == 1 else np.meshgrid(*[PLACES] * rank)
    image = np.arange(1, 1 + 3**rank, dtype=np.float32).reshape((3,) * rank)

    def at(x: jax.Array, *places: jax.Array) -> jax.Array:
        found: jax.Array = ndimage.map_coordinates(x, list(places), 1, cval=fill)
        return found

    text = jax.jit(at).lower(jnp.asarray(image), *places).as_text()
    run = against_xla(text, image, *places).close()
    run.has_no("IsNaN")
    # Conversions of floats that are larger than all integers need no Where.
    assert run.nodes["Where"] == (3 if rank == 1 else 0)
    assert run.nodes["Pad"] == (rank > 1)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 4, 4), (2, 2, 3, 3)])
def test_several_images(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices before the first element of an image do not read the image before."""
    use_costs(monkeypatch, gathered_scalars=4)
    images = np.arange(1, 1 + math.prod(shape), dtype=np.float32).reshape(shape)
    places = np.stack([np.stack(np.meshgrid(PLACES, PLACES + n)) for n in range(shape[0])])
    if len(shape) == 4:
        places = np.stack([places, places[:, ::-1] + 0.25], 1)

    def at(image: jax.Array, places: jax.Array) -> jax.Array:
        found: jax.Array = ndimage.map_coordinates(image, list(places), 1, cval=-9)
        return found

    for _ in shape[2:]:
        at = jax.vmap(at)
    text = jax.jit(at).lower(images, places).as_text()
    run = against_xla(text, images, places).close()
    assert (run.nodes["Pad"], run.nodes["GatherND"]) == (1, 0)


POINTS = np.array([-(2.0**31), -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5], np.float32)
POINTS = np.concatenate([POINTS, np.array([2, 2.5, 3, 4, 5.5, 2**31, 3e38, np.inf], np.float32)])
AT, BESIDE = (part.reshape(-1) for part in np.meshgrid(POINTS, POINTS))


def converted(
    b: GraphBuilder, x: oir.Value, low: float = -(2.0**31), high: float = 2**31 - 128, **other: Any
) -> oir.Value:
    """x as i32, as StableHLO converts it; or with other bounds."""
    clip = b.Clip(x, b.scalar_like(low, x), b.scalar_like(high, x))
    compared = other.get("compared", x)
    above = b.GreaterOrEqual(compared, b.scalar_like(other.get("limit", 2.0**31), x))
    most = b.scalar(other.get("most", 2**31 - 1), T.INT32)
    return b.Where(above, most, b.cast(clip, T.INT32))


def rewritten_at(index: Callable[..., oir.Value]) -> Rewrite:
    """A masked gather at index(b, u, v) of two floats and at a converted float."""

    def build(b: GraphBuilder, x: oir.Value, u: oir.Value, v: oir.Value) -> oir.Value:
        i, j = index(b, u, v), converted(b, v)
        return b.Where(
            b.And(inside(b, i, 2), inside(b, j, 3)), gathered(b, x, i, j), b.scalar_like(-7, x)
        )

    inputs = {"x": IMAGE, "u": AT, "v": BESIDE}
    return Rewrite(build, inputs, MaskedGather(), target=MANY)


@pytest.mark.parametrize("added", [-1, 0, 1])
def test_converted_floats_are_bounded_before(added: int) -> None:
    def index(b: GraphBuilder, u: oir.Value, v: oir.Value) -> oir.Value:
        i = converted(b, u)
        return b.Add(i, b.scalar(added, T.INT32)) if added else i

    names = ["Pad", "Reshape", "Clip", "Clip", "Cast", "Cast", "Mul", "Add", "GatherElements"]
    rewritten_at(index).gives(*names, *["Add"] * (added != 0))


UNLIKE: dict[str, Callable[..., oir.Value]] = {
    "two behind": lambda b, u, v: b.Add(converted(b, u), b.scalar(2, T.INT32)),
    "a neighbour that is computed": lambda b, u, v: b.Add(converted(b, u), converted(b, v)),
    "close above": lambda b, u, v: converted(b, u, high=2),
    "close below": lambda b, u, v: converted(b, u, low=-1),
    "another float": lambda b, u, v: converted(b, u, compared=v),
    "a limit within": lambda b, u, v: converted(b, u, limit=1.0),
    "another integer": lambda b, u, v: converted(b, u, most=1),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_other_conversions_are_bounded_behind(name: str) -> None:
    rewrite = rewritten_at(UNLIKE[name])
    assert rewrite.fired and rewrite.nodes["Where"], name

"""What windows select, against a search by hand, with static and symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted

from dialect_handlers.common import tensors
from dialect_handlers.common.reductions import Function
from dialect_handlers.common.windows import WindowAxis, window_axes
from dialect_handlers.stablehlo import select_and_scatter as handler
from dialect_handlers.stablehlo.select_and_scatter import Selector
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter

Geometry = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[tuple[int, int]]]
GEOMETRIES: dict[str, Geometry] = {
    "vector": ((9,), (3,), (2,), [(0, 0)]),
    "plane": ((5, 6), (2, 3), (2, 1), [(0, 0), (0, 0)]),
    "before": ((7,), (3,), (2,), [(2, 0)]),
    "behind": ((7,), (3,), (2,), [(0, 2)]),
    "around": ((5, 4), (3, 2), (2, 1), [(1, 1), (0, 1)]),
    "nothing there": ((3,), (2,), (1,), [(3, 2)]),
    "cut": ((9, 4), (3, 2), (2, 1), [(-1, -2), (0, 0)]),
    "cut and padded": ((9, 4), (3, 2), (2, 1), [(-1, 2), (1, -1)]),
    "one window": ((3, 4), (3, 4), (1, 1), [(0, 0), (0, 0)]),
    "single elements": ((3, 4), (1, 1), (2, 1), [(0, 0), (0, 0)]),
    "three axes": ((3, 4, 5), (2, 2, 2), (1, 2, 1), [(0, 1), (1, 0), (0, 0)]),
    "gaps": ((9,), (2,), (4,), [(0, 0)]),
}


def counts_of(geometry: Geometry) -> list[int]:
    return [
        (dim + low + high - size) // step + 1
        for dim, size, step, (low, high) in zip(*geometry, strict=True)
    ]


def chosen(x: np.ndarray, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """The linear index that each window selects by >=, 0 where none, and which select any."""
    dims, sizes, steps, edges = geometry
    counts = counts_of(geometry)
    index, held = np.zeros(counts, np.int64), np.zeros(counts, bool)
    for window in np.ndindex(*counts):
        found: tuple[int, ...] | None = None
        for place in np.ndindex(*sizes):
            at = tuple(
                number * step + offset - low
                for number, step, offset, (low, _) in zip(window, steps, place, edges, strict=True)
            )
            inside = all(0 <= one < dim for one, dim in zip(at, dims, strict=True))
            if inside and (found is None or not x[found] >= x[at]):
                found = at
        if found is not None:
            index[window], held[window] = np.ravel_multi_index(found, dims), True
    return index, held


def operand(dims: Sequence[int]) -> np.ndarray:
    """Negative numbers, with ties and NaN: zeros of the padding would win."""
    x = np.random.default_rng(0).integers(-5, -1, dims).astype(np.float32)
    x.reshape(-1)[::5] = np.nan
    return x


WAYS = {"unrolled": (64, False), "looped": (0, False)}
WAYS |= {f"symbolic, {way}": (limit, True) for way, (limit, _) in WAYS.items()}
"""The largest unrolled window, and whether extents are symbolic."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_selection(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    geometry = GEOMETRIES[name]
    limit, is_symbolic = WAYS[way]
    dims, sizes, steps, edges = geometry
    monkeypatch.setattr(handler, "LONGEST_UNROLLED", limit)
    x = operand(dims)
    wanted, held = chosen(x, geometry)
    extents: tuple[Dim, ...] = tuple(dims)
    if is_symbolic:
        extents = tuple(symbol(f"n{axis}", positive=True) for axis in range(len(dims)))

    def build(em: Emitter, x: oir.Value) -> list[oir.Value]:
        axes = window_axes(extents, sizes, steps, edges)
        places, valid = Selector(em, greater_or_equal(em), axes)((x,))
        assert (valid is None) == all(axis.always_holds for axis in axes)
        assert valid is not None or held.all()
        return [places, em.const(np.array(True)) if valid is None else valid]

    made = Emitted(build, {"x": x}, {"x": extents})
    places, valid = made.results
    np.testing.assert_array_equal(np.broadcast_to(valid, held.shape), held)
    np.testing.assert_array_equal(places, wanted)
    if (name, way) in NODES:
        assert " ".join(made.nodes) == NODES[name, way]


def greater_or_equal(em: Emitter) -> Function:
    return lambda old, new: [em.GreaterOrEqual(*old, *new)]


NODES: dict[tuple[str, str], str] = {
    ("vector", "unrolled"): (
        "Slice Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where Where Add"
    ),
    ("vector", "looped"): ("Expand Expand Expand Loop Add"),
    ("before", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not Or And Where Where Slice GreaterOrEqual Not Or "
        "Where Where Add"
    ),
    ("behind", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not And Where Where Slice GreaterOrEqual Not And "
        "Where Where Add"
    ),
    ("nothing there", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not Or And Where Where Add Where"
    ),
    ("nothing there", "looped"): ("Pad Expand Expand Expand Loop Add Where"),
    ("cut", "unrolled"): (
        "Slice Slice Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where "
        "Where Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where Where "
        "Slice GreaterOrEqual Not Where Where Add"
    ),
    ("cut and padded", "unrolled"): (
        "Pad Slice Slice Slice GreaterOrEqual Not Or Where Where Slice GreaterOrEqual Not "
        "And Where Where Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not And "
        "Where Where Slice GreaterOrEqual Not And Where Where Add"
    ),
    ("one window", "looped"): ("Expand Expand Expand Loop"),
    ("single elements", "unrolled"): ("Slice Add"),
}
"""What it takes; nothing is asked that is known."""


@pytest.mark.parametrize(("elements", "adds"), [(12, 1), (11, 2)])
def test_many_windows_are_counted_by_axis(
    elements: int, adds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No constant has more elements than this."""
    monkeypatch.setattr(tensors, "CONSTANT_ELEMENTS", elements)
    axes = [WindowAxis(3, 1), WindowAxis(4, 1)]

    def build(em: Emitter, x: oir.Value) -> oir.Value:
        return Selector(em, greater_or_equal(em), axes)((x,))[0]

    made = Emitted(build, {"x": np.zeros((3, 4), np.float32)})
    assert made.nodes.count("Add") == adds
    made.gives(np.arange(12).reshape(3, 4))

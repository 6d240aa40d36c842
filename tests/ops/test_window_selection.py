"""What windows select, against a search by hand, with static and symbolic extents."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted

from dialect_handlers.common.window_selection import selected_places
from dialect_handlers.stablehlo import select_and_scatter as handler
from dialect_handlers.stablehlo.select_and_scatter import Selector, Windows
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import canonical, symbol
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


@pytest.mark.parametrize("way", ["unrolled", "looped", "symbolic"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_selection(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    geometry = GEOMETRIES[name]
    dims, sizes, steps, edges = geometry
    monkeypatch.setattr(handler, "LONGEST_UNROLLED", 64 if way == "unrolled" else 0)
    x = operand(dims)
    wanted, held = chosen(x, geometry)
    extents: tuple[Dim, ...] = tuple(dims)
    if way == "symbolic":
        extents = tuple(symbol(f"n{axis}", positive=True) for axis in range(len(dims)))

    def build(em: Emitter, x: oir.Value) -> list[oir.Value]:
        def function(old: Sequence[oir.Value], new: Sequence[oir.Value]) -> list[oir.Value]:
            return [em.GreaterOrEqual(*old, *new)]

        if way == "symbolic":
            counts = [
                canonical((dim + (low + high - size)) // step + 1)  # type: ignore[operator]
                for dim, size, step, (low, high) in zip(extents, sizes, steps, edges, strict=True)
            ]
            places, valid = selected_places(em, function, (x,), counts, sizes, steps, edges)
            assert (valid is None) == (not any(itertools.chain(*edges)))
            valid = em.const(np.array(True)) if valid is None else valid
        else:
            windows = Windows(dims, counts_of(geometry), sizes, steps, edges)
            places, mask = Selector(em, function, windows)((x,))
            assert (mask is None) == held.all()
            valid = em.const(np.array(True) if mask is None else mask)
        return [places, em.expand(valid, places.shape)]

    made = Emitted(build, {"x": x}, {"x": extents})
    places, valid = made.results
    np.testing.assert_array_equal(valid, held)
    where = held if way == "symbolic" else np.full_like(held, True)
    np.testing.assert_array_equal(places[where], wanted[where])
    if (name, way) in NODES:
        assert " ".join(made.nodes) == NODES[name, way]


NODES: dict[tuple[str, str], str] = {
    ("vector", "unrolled"): (
        "Slice Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where Where Add Expand"
    ),
    ("vector", "looped"): ("Expand Expand Expand Loop Add Expand"),
    ("vector", "symbolic"): (
        "Shape Add Div Mul Sub Sub Sub Sub Squeeze Range Add Slice Slice Slice Slice "
        "Slice Slice GreaterOrEqual Not Where Where GreaterOrEqual Not Where Where Expand"
    ),
    ("before", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not Or And Where Where Slice GreaterOrEqual Not "
        "Or Where Where Add Expand"
    ),
    ("before", "symbolic"): (
        "Shape Add Div Mul Sub Add Pad Squeeze Range Add Pad Expand Pad Cast Slice Slice "
        "Slice Slice Slice Slice Slice Slice Slice GreaterOrEqual Not Not Or And Or Where "
        "Where GreaterOrEqual Not Not Or And Or Where Where"
    ),
    ("behind", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not And Where Where Slice GreaterOrEqual Not And "
        "Where Where Add Expand"
    ),
    ("nothing there", "unrolled"): (
        "Pad Slice Slice GreaterOrEqual Not Or And Where Where Add Where"
    ),
    ("nothing there", "looped"): ("Pad Expand Expand Expand Loop Add Where"),
    ("cut", "unrolled"): (
        "Slice Slice Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where "
        "Where Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not Where Where "
        "Slice GreaterOrEqual Not Where Where Add Expand"
    ),
    ("cut and padded", "unrolled"): (
        "Slice Pad Slice Slice GreaterOrEqual Not Or Where Where Slice GreaterOrEqual Not "
        "And Where Where Slice GreaterOrEqual Not Where Where Slice GreaterOrEqual Not "
        "And Where Where Slice GreaterOrEqual Not And Where Where Add Expand"
    ),
    ("one window", "looped"): ("Expand Expand Expand Loop Expand"),
    ("single elements", "unrolled"): ("Slice Add Expand"),
    ("single elements", "symbolic"): (
        "Shape Shape Add Div Mul Sub Squeeze Range Unsqueeze Squeeze Mul Add Squeeze "
        "Range Expand Add Slice Slice Concat Expand"
    ),
}
"""What it takes; nothing is asked that is known."""


@pytest.mark.parametrize("name", GEOMETRIES)
def test_windows(name: str) -> None:
    geometry = GEOMETRIES[name]
    dims, sizes, steps, edges = geometry
    counts = counts_of(geometry)
    w = Windows(dims, counts, sizes, steps, edges)
    first = sum(w.first())
    for window, place in itertools.product(np.ndindex(*counts), np.ndindex(*sizes)):
        at = [
            number * step + offset - low
            for number, step, offset, (low, _) in zip(window, steps, place, edges, strict=True)
        ]
        inside = all(0 <= one < dim for one, dim in zip(at, dims, strict=True))
        assert np.broadcast_to(w.inside(place), counts)[window] == inside
        if inside:
            linear = np.broadcast_to(first, counts)[window] + w.offset(place)
            assert linear == np.ravel_multi_index(at, dims)
    assert w.reaches == [(count - 1) * step + 1 for count, step in zip(counts, steps, strict=True)]


OVERLAPS: list[tuple[Sequence[int], Sequence[int], Sequence[int], bool]] = [
    ((3,), (2,), (2,), False),
    ((3,), (3,), (2,), True),
    ((1,), (3,), (2,), False),
    ((2,), (3,), (2,), True),
    ((1, 2), (3, 2), (2, 1), True),
    ((1, 1), (3, 2), (2, 1), False),
]


@pytest.mark.parametrize(("counts", "sizes", "steps", "expected"), OVERLAPS)
def test_overlap(
    counts: Sequence[int], sizes: Sequence[int], steps: Sequence[int], expected: bool
) -> None:
    edges = [(0, 0)] * len(counts)
    assert Windows([9] * len(counts), counts, sizes, steps, edges).overlap == expected


@pytest.mark.parametrize(("elements", "adds"), [(12, 1), (11, 2)])
def test_many_windows_are_counted_by_axis(
    elements: int, adds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No constant has more elements than this."""
    monkeypatch.setattr(handler, "CONSTANT_ELEMENTS", elements)
    w = Windows((3, 4), (3, 4), (1, 1), (1, 1), [(0, 0), (0, 0)])

    def build(em: Emitter, x: oir.Value) -> oir.Value:
        return Selector(em, lambda old, new: [em.Equal(*old, *new)], w)((x,))[0]

    made = Emitted(build, {"x": np.zeros((3, 4), np.float32)})
    assert made.nodes.count("Add") == adds
    made.gives(np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("size", [64, 65])
def test_large_windows_over_symbolic_extents_are_refused(size: int) -> None:
    dim = symbol("n", positive=True)

    def build(em: Emitter, x: oir.Value) -> list[oir.Value]:
        counts = [canonical(dim - (size - 1))]
        found = selected_places(
            em, lambda old, new: [em.Equal(*old, *new)], (x,), counts, [size], [1], [(0, 0)]
        )
        return [found[0]]

    def made() -> Any:
        return Emitted(build, {"x": np.zeros(70, np.float32)}, {"x": [dim]})

    if size == 64:
        made()
    else:
        with pytest.raises(UnsupportedOp, match="large windows"):
            made()

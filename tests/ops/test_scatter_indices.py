"""Where the updates of a scatter go, against a count by hand, and the nodes that this takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted
from rule_names import RULE_NAMES
from scatter_case import CASES, Case, numbers

from dialect_handlers.common.dimension_numbers import Batch, ScatterDimensions, Window
from dialect_handlers.stablehlo.scatter.handler import scatter
from dialect_handlers.stablehlo.scatter.places import Places
from hlo2onnx import translate
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter

TABLE = Path(__file__).with_name("scatter_nodes.txt")
MORE = {
    "swapped_rows": Case((6, 5, 3), (4, 2), (4, 3), (1, 0), 1, (1,), (0, 1)),
    "second_axis_whole": Case((6, 5), (4, 2), (4, 5), (0, 1), 1, (1,), (0,)),
    "whole_batches": Case((4, 5), (4, 1), (4, 5), (1,), 1, (1,), (), ((0, 0),)),
    "batches_behind": Case((5, 4), (4, 2, 1), (4, 2), (0,), 2, (), (0,), ((1, 0),)),
    "pairs_before_batches": Case((5, 6, 4), (4, 2, 2), (4, 2), (0, 1), 2, (), (0, 1), ((2, 0),)),
    "wide_in_columns": Case((6, 7), (3, 2), (3, 2, 1), (0, 1), 1, window=(1, 2)),
    "small_of_many": Case((3, 2), (9, 1), (9, 2), (0,), 1, window=(1,), inserted=(0,)),
}
ALL = {
    name: case
    for name, case in (CASES | MORE).items()
    if 0 not in (*case.operand, *case.updates, *case.indices)
}


def vectors(case: Case, indices: np.ndarray) -> np.ndarray:
    """The index vectors along the last axis."""
    if case.vector == indices.ndim:
        return indices[..., None]
    return np.moveaxis(indices, case.vector, -1)


def starts(case: Case, n: ScatterDimensions, vector: np.ndarray) -> list[int]:
    """Where a window starts along each axis of the operand, clamped."""
    first = [0] * len(case.operand)
    for axis, start in zip(case.scattered, vector, strict=True):
        first[axis] = int(np.clip(start, 0, case.operand[axis] - int(n.sizes[axis])))  # type: ignore[arg-type]
    return first


def linear(
    case: Case, n: ScatterDimensions, layout: Any, depth: int, indices: np.ndarray
) -> np.ndarray:
    """The index over the operand's first axes for each element of the layout, one by one."""
    extents = [int(extent) for extent in n.extents(layout)]  # type: ignore[arg-type]
    found = np.zeros(extents, np.int64)
    for place in np.ndindex(*extents):
        run = {axis.axis: at for axis, at in zip(layout, place, strict=True) if is_batch(axis)}
        within = {a.axis: at for a, at in zip(layout, place, strict=True) if not is_batch(a)}
        batch = tuple(run.get(axis, 0) for axis in range(len(n.batch)))
        at = starts(case, n, vectors(case, indices)[batch])
        for axis, along in n.batching.items():
            at[axis] += batch[along]
        for axis, step in within.items():
            at[axis] += step
        found[place] = np.ravel_multi_index(at[:depth], case.operand[:depth]) if depth else 0
    return found


def is_batch(axis: Any) -> bool:
    return isinstance(axis, Batch)


def layouts(n: ScatterDimensions) -> Iterator[tuple[list[Any], int]]:
    rank = len(n.dims)
    yield list(n.windows), rank
    yield n.window_order, rank
    yield [a for a in n.windows if is_batch(a) or a.axis < n.depth], n.depth


def indices_of(case: Case) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.integers(-2, 1 + max(case.operand), case.indices)


def named(dims: Sequence[int]) -> tuple[Dim, ...]:
    """Equal extents get equal symbols."""
    return tuple(dim if dim == 1 else symbol(f"n{dim}", positive=True) for dim in dims)


@pytest.mark.parametrize("kind", ["computed", "known", "symbolic"])
@pytest.mark.parametrize("name", ALL)
def test_places(name: str, kind: str) -> None:
    case, indices = ALL[name], indices_of(ALL[name])
    plain, expected = numbers(case), []
    n = numbers(case, named if kind == "symbolic" else tuple)

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> list[oir.Value]:
        places = Places(em, n, em.const(indices) if kind == "known" else i, case.vector)
        assert (places.constant is None) == (kind != "known")
        made = []
        for layout, depth in layouts(n):
            made.append(places.index(layout, depth))
            expected.append(linear(case, plain, layout, depth, indices))
        given = vectors(case, indices)
        limits = [case.operand[axis] - plain.sizes[axis] for axis in case.scattered]  # type: ignore[operator]
        clipped = np.clip(given, 0, limits)
        made += [places.starts, places.clamped, places.rows]
        expected.extend([given, clipped, clipped[..., np.argsort(case.scattered)]])
        if places.valid is not None:
            made.append(places.valid)
            expected.append((given == clipped).all(-1))
        else:
            assert (given == clipped).all()
        return made

    inputs = {"x": np.zeros(case.operand), "i": indices, "u": np.zeros(case.updates)}
    shapes = {"x": n.dims, "i": named(case.indices), "u": named(case.updates)}
    Emitted(build, inputs, shapes if kind == "symbolic" else None).gives(*expected)


def test_known_starts_take_no_nodes() -> None:
    """Whatever axis holds the index vector."""
    case = Case((4, 5), (2, 3), (3,), (0, 1), 0, inserted=(0, 1))

    def build(em: Emitter) -> oir.Value:
        return Places(em, numbers(case), em.const(np.arange(6).reshape(2, 3)), 0).starts

    made = Emitted(build)
    assert not made.nodes
    made.gives([[0, 3], [1, 4], [2, 5]])


def test_symbolic_places_along_axes_of_extent_1_are_not_counted() -> None:
    case = CASES["kept"]
    n = numbers(case, named)

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> oir.Value:
        return Places(em, n, i, case.vector).index(n.windows, 2)

    inputs = {"x": np.zeros(case.operand), "i": indices_of(case), "u": np.zeros(case.updates)}
    shapes = {"x": n.dims, "i": named(case.indices), "u": named(case.updates)}
    made = Emitted(build, inputs, shapes)
    assert [made.nodes.count(op_type) for op_type in ("Range", "Add")] == [1, 1]


def touched(case: Case, n: ScatterDimensions, indices: np.ndarray) -> np.ndarray:
    return linear(case, n, list(n.windows), len(case.operand), indices)


@pytest.mark.parametrize("name", ALL)
def test_known_places_are_distinct_where_they_are(name: str) -> None:
    case, n = ALL[name], numbers(ALL[name])
    highest = max(case.operand) - 1
    grids: list[np.ndarray] = [np.zeros(case.indices, np.int64)]
    count = int(np.prod(case.indices))
    grids.append((np.arange(count).reshape(case.indices) * 2) % (highest + 1))
    grids.append(np.arange(count)[::-1].reshape(case.indices) % (highest + 1))

    def build(em: Emitter) -> list[oir.Value]:
        for indices in grids:
            found = Places(em, n, em.const(indices), case.vector).are_distinct()
            given = vectors(case, indices)
            inside = all(
                (vector == [starts(case, n, vector)[axis] for axis in case.scattered]).all()
                for vector in given.reshape(-1, given.shape[-1])
            )
            places = touched(case, n, indices)
            # Without a clamp the places alone decide.
            if inside or found:
                assert found == (np.unique(places).size == places.size) or n.is_alone
        return []

    Emitted(build)


NUMBERS: list[tuple[Case, dict[str, Any]]] = [
    (CASES["rows"], {"leads": True, "shifted": False, "free": [0], "partial": [0], "depth": 1}),
    (CASES["swapped"], {"leads": True, "partial": [0, 1], "depth": 2}),
    (CASES["columns"], {"leads": False, "partial": [1], "depth": 2}),
    (CASES["corner"], {"leads": False, "shifted": False, "partial": [0, 1], "depth": 2}),
    (CASES["frames"], {"leads": False, "shifted": True, "depth": 1}),
    (MORE["wide_in_columns"], {"leads": False, "shifted": True, "partial": [0, 1], "depth": 2}),
    (CASES["along"], {"leads": False, "free": [1], "partial": [1], "depth": 2}),
    (CASES["batched_one"], {"alone": True, "free": [], "partial": [1], "depth": 2}),
    (CASES["whole"], {"leads": False, "shifted": False, "partial": [], "depth": 0}),
    (
        Case((4, 5), (3, 0), (3, 4, 5), (), 1, window=(1, 2)),
        {"leads": False, "alone": False, "partial": [], "depth": 0},
    ),
    (MORE["second_axis_whole"], {"leads": False, "partial": [0], "depth": 1}),
    (
        Case((4, *[1] * 7, 5), (4, 1), (4,), (8,), 1, (), tuple(range(1, 9)), ((0, 0),)),
        {"partial": [8], "indexed": [0, 8], "depth": 9},
    ),
    (
        Case((4, 5), (1, 4, 2), (4, 2), (1,), 0, (), (1,), ((0, 1),)),
        {"batching": {0: 0}, "free": [1], "partial": [1], "depth": 2},
    ),
]


@pytest.mark.parametrize(("case", "expected"), NUMBERS)
def test_numbers(case: Case, expected: dict[str, Any]) -> None:
    n = numbers(case)
    found = {
        "leads": n.scatters_leading_rows,
        "shifted": n.overlaps_shifted,
        "free": n.free,
        "partial": n.partial,
        "indexed": n.indexed,
        "batching": n.batching,
        "depth": n.depth,
        "alone": n.is_alone,
    }
    assert {name: found[name] for name in expected} == expected


def test_order_of_windows() -> None:
    """Batch axes come first, in their order, then those of a window."""
    n = numbers(Case((9, 4), (2, 3, 1), (2, 3, 4, 3), (0,), 2, window=(0, 2)))
    assert n.windows == (Window(0), Batch(0), Window(1), Batch(1))
    assert n.window_order == [Batch(0), Batch(1), Window(0), Window(1)]


# -- nodes --------------------------------------------------------------------------------------


def made_nodes() -> str:
    """The nodes that handlers make of each case, before any rule."""
    lines = []
    for name, case in ALL.items():
        for region, known in itertools.product(("set", "add"), ("", "known")):
            constant = str(indices_of(case).tolist()) if known else ""
            for unique in (case, case.with_unique()):
                text = unique.text(region, known=constant)
                nodes = translate(text, without=RULE_NAMES).model.graph.all_nodes()
                words = [name, region, known, "unique" if unique.unique else ""]
                made = " ".join(node.op_type for node in nodes)
                lines.append(f"{' '.join(filter(None, words))}: {made}")
    return "\n".join(lines) + "\n"


@pytest.mark.wide
def test_nodes_without_rules() -> None:
    """No node is there for a rule to remove. Where a change is meant, write `made_nodes()` to
    scatter_nodes.txt."""
    assert made_nodes().splitlines() == TABLE.read_text().splitlines()


LARGE = Case((5000,), (1,), (4745,), (0,), 0, window=(0,))
WINDOWS: list[tuple[Case, str, str, str]] = [
    # computed, and inside: 255 + 4745 = 5000
    (LARGE, "add", "ui8", "Cast Add Slice Add Slice Slice Concat"),
    (LARGE, "set", "ui8", "Cast Slice Add Slice Concat"),
]


@pytest.mark.parametrize(("case", "region", "index", "nodes"), WINDOWS)
def test_single_windows(case: Case, region: str, index: str, nodes: str) -> None:
    run = case.run([255], region, index=index, without=RULE_NAMES)
    assert " ".join(node.op_type for node in run.program.model.graph) == nodes


@pytest.mark.parametrize("updates", [(1, 3), (3,), (2, 3)])
def test_rows_of_a_stack(updates: tuple[int, ...]) -> None:
    """What is written to a buffer that a loop returns as a stack of rows is one whole row."""

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> list[oir.Value]:
        em.environment = {"x": (x,), "i": (i,), "u": (u,)}
        em.rows[(x,)] = (x,)
        op: Any = SimpleNamespace(operands=["x", "i", "u"], results=["x"])
        if np.prod(updates) == 3:
            assert scatter(em, op, scatter_dimension_numbers=None) == [(x,)]
            assert [tuple(part.shape or ()) for part in em.rows[(x,)]] == [(1, 3)]
        else:
            with pytest.raises(UnsupportedOp, match="less than a whole row"):
                scatter(em, op, scatter_dimension_numbers=None)
        return []

    Emitted(build, {"x": np.zeros((7, 3)), "i": np.zeros(1, np.int32), "u": np.zeros(updates)})

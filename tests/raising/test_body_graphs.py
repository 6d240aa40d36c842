"""Bodies that rules about columns, rows, borders, twins and Slices rewrite, on single graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.values import shape_of
from hlo2onnx.raising.rules.bodies import SlicesToSplit
from hlo2onnx.raising.rules.cells import Gru, Lstm
from hlo2onnx.raising.rules.columns import ColumnsFirst
from hlo2onnx.raising.rules.ghosts import GhostCells
from hlo2onnx.raising.rules.packing import PackRows
from hlo2onnx.raising.rules.scan_operator import LoopToScan
from hlo2onnx.raising.rules.twins import JoinTwins
from hlo2onnx.raising.rules.unroll import UnrollLoop

RNG = np.random.default_rng(0)
Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]


def numbers(*shape: int) -> np.ndarray:
    """Small integers, with which sums and products are exact."""
    return RNG.integers(-3, 4, size=shape).astype(np.float32)


def stepped(step: Step, x: np.ndarray, *rules: Any, count: int = 2) -> LoopRewrite:
    """A loop whose state becomes step(state)."""

    def build(b: GraphBuilder, x: Value) -> Any:
        return [b.Neg(value) for value in loop(b, count, [x], lambda _, s: ([step(b, s)], []))]

    return LoopRewrite(build, {"x": x}, *rules)


def test_the_order_of_phases() -> None:
    """Cells are found in loops that are whole, rows in loops that are no Scan, Slices by other
    rules first."""
    assert Lstm.phase == Gru.phase == ColumnsFirst.phase == 0
    assert Lstm.phase < UnrollLoop.phase < PackRows.phase == LoopToScan.phase
    assert LoopToScan.phase < SlicesToSplit.phase == JoinTwins.phase


# -- columns-first -----------------------------------------------------------------------------


def column(b: GraphBuilder, s: Value, k: int, axis: int = 1) -> Value:
    return b.slice(s, [k], [k + 1], axes=[axis])


def swapped_columns(b: GraphBuilder, s: Value, axis: int = 1) -> Value:
    return b.concat([column(b, s, 1, axis), column(b, s, 0, axis)], axis)


ROWS = numbers(8, 2)

TURNED: dict[str, tuple[Step, tuple[int, ...]]] = {
    "slices": (swapped_columns, (8, 2)),
    "negative-axis": (lambda b, s: swapped_columns(b, s, -1), (8, 2)),
    "split": (
        lambda b, s: b.concat(
            list(b.op("Split", s, b.i64([1, 1]), axis=1, n_outputs=2))[::-1], 1
        ),
        (8, 2),
    ),
    "added": (lambda b, s: b.Add(s, swapped_columns(b, s)), (8, 2)),
    "number": (lambda b, s: b.Mul(swapped_columns(b, s), b.const(np.float32(2))), (8, 2)),
    "one-element": (
        lambda b, s: b.Mul(swapped_columns(b, s), b.const(np.full(1, 2, np.float32))),
        (8, 2),
    ),
    "vector": (lambda b, s: b.Add(swapped_columns(b, s), b.const(numbers(2))), (8, 2)),
    "matrix": (lambda b, s: b.Add(b.const(ROWS), swapped_columns(b, s)), (8, 2)),
    "rows-too": (
        lambda b, s: b.concat(
            [b.slice(swapped_columns(b, s), [3], [8], axes=[0]), b.slice(s, [0], [3], axes=[0])], 0
        ),
        (8, 2),
    ),
    "all-axes": (
        lambda b, s: b.concat([b.slice(s, [0, 1], [8, 2]), b.slice(s, [0, 0], [8, 1])], 1),
        (8, 2),
    ),
    "backwards": (lambda b, s: b.slice(s, [-1], [-9], [-1], [1]), (8, 2)),
    "batches": (lambda b, s: swapped_columns(b, s, 2), (3, 4, 2)),
    "middle-axis-too": (
        lambda b, s: b.concat(
            [b.slice(swapped_columns(b, s, 2), [1], [4], axes=[1]), b.slice(s, [0], [1], axes=[1])],
            1,
        ),
        (3, 4, 2),
    ),
    "sixteen-columns": (swapped_halves := (
        lambda b, s: b.concat(
            [b.slice(s, [8], [16], axes=[1]), b.slice(s, [0], [8], axes=[1])], 1
        )
    ), (64, 16)),
}  # fmt: skip


def states_of(run: LoopRewrite) -> list[tuple[Any, ...]]:
    (node,) = (node for node in run.model.graph if node.op_type == "Loop")
    return [tuple(shape_of(x)) for x in node.attributes["body"].as_graph().inputs[2:]]


@pytest.mark.parametrize("name", TURNED)
def test_columns_first(name: str) -> None:
    step, shape = TURNED[name]
    run = stepped(step, numbers(*shape), ColumnsFirst())
    assert states_of(run) == [(shape[-1], *shape[:-1])]
    assert not run.inside["Transpose"]


STAYS: dict[str, tuple[Step, tuple[int, ...]]] = {
    "few-rows": (swapped_columns, (7, 2)),
    "many-columns": (
        lambda b, s: b.concat([b.slice(s, [8], [17], axes=[1]), b.slice(s, [0], [8], axes=[1])], 1),
        (68, 17),
    ),
    "one-column": (lambda b, s: b.slice(s, [-1], [-9], [-1], [1]), (8, 1)),
    "vector": (lambda b, s: b.slice(s, [-1], [-99], [-1], [0]), (8,)),
    "rows": (
        lambda b, s: b.concat([b.slice(s, [4], [8], axes=[0]), b.slice(s, [0], [4], axes=[0])], 0),
        (8, 2),
    ),
    "other-operators": (
        lambda b, s: b.Add(swapped_columns(b, s), b.Softmax(s, axis=1)),
        (8, 2),
    ),
    "another-rank": (
        lambda b, s: b.squeeze(
            b.Add(swapped_columns(b, s), b.const(np.ones((1, 1, 1), np.float32))), [0]
        ),
        (8, 2),
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_columns_stay(name: str) -> None:
    step, shape = STAYS[name]
    stepped(step, numbers(*shape), ColumnsFirst()).nothing()


def test_ranges_that_are_computed_in_the_body_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        def step(trip: Value, s: Value) -> Any:
            at = b.unsqueeze(b.Mul(trip, b.i64(0)), [0])
            end = b.unsqueeze(b.Add(b.Mul(trip, b.i64(0)), b.i64(1)), [0])
            types = [(oir.DataType.FLOAT, (8, 1))]
            first = b.op("Slice", s, at, end, b.i64([1]), types=types)
            return [b.concat([column(b, s, 1), first], 1)], []

        return loop(b, 2, [x], step)

    LoopRewrite(build, {"x": ROWS}, ColumnsFirst()).nothing()


def test_a_state_beside_and_rows_are_turned_with_it() -> None:
    def build(b: GraphBuilder, x: Value, y: Value, rows: Value, v: Value) -> Any:
        def step(trip: Value, v: Value, s: Value, t: Value) -> Any:
            row = b.Gather(rows, trip, axis=0)
            new = b.Add(b.Add(swapped_columns(b, s), t), row)
            return [b.Neg(v), new, b.Neg(s)], [b.Abs(v), b.Abs(new), b.Neg(row)]

        return [b.Neg(value) for value in loop(b, 3, [v, x, y], step)]

    inputs = {"x": ROWS, "y": ROWS + 1, "rows": numbers(3, 8, 2), "v": numbers(8)}
    run = LoopRewrite(build, inputs, ColumnsFirst())
    assert states_of(run) == [(8,), (2, 8), (2, 8)]


def test_what_a_branch_reads_stays() -> None:
    def step(b: GraphBuilder, s: Value) -> Value:
        branches = []
        for make in (b.Neg, b.Abs):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(make(s))
            branches.append(graph)
        holds = b.Less(b.ReduceSum(b.const(ROWS), keepdims=0), b.const(np.float32(0)))
        made = b.op("If", holds, then_branch=branches[0], else_branch=branches[1])
        return b.Add(swapped_columns(b, s), made)  # type: ignore[no-any-return]

    stepped(step, ROWS, ColumnsFirst()).nothing()


# -- ghost-cells -------------------------------------------------------------------------------

CELLS = np.arange(54, dtype=np.float32).reshape(6, 9)


def part(b: GraphBuilder, x: Value, start: int, stop: int, step: int = 1, axis: int = 1) -> Value:
    return b.slice(x, [start], [stop], [step], [axis])


def open_ends(b: GraphBuilder, x: Value) -> Value:
    low, high = b.expand(part(b, x, 2, 3), (6, 2)), b.expand(part(b, x, 6, 7), (6, 2))
    return b.concat([low, part(b, x, 2, 7), high], 1)


PADDED: dict[str, tuple[Step, str]] = {
    "edge": (open_ends, "edge"),
    "one-end": (
        lambda b, x: b.concat([b.expand(part(b, x, 1, 2), (6, 1)), part(b, x, 1, 9)], 1),
        "edge",
    ),
    "reflect": (
        lambda b, x: b.concat(
            [part(b, x, 4, 2, -1), part(b, x, 2, 7), part(b, x, 5, 3, -1)], 1
        ),
        "reflect",
    ),
    "wrap": (
        lambda b, x: b.concat([part(b, x, 5, 7), part(b, x, 2, 7), part(b, x, 2, 4)], 1),
        "wrap",
    ),
    "rows": (
        lambda b, x: b.concat(
            [b.expand(part(b, x, 2, 3, axis=0), (2, 9)), part(b, x, 2, 6, axis=0)], 0
        ),
        "edge",
    ),
    "turned": (
        lambda b, x: b.transpose(
            b.concat(
                [(t := b.transpose(x, [1, 0])) and part(b, t, 1, 2, axis=0),
                 part(b, t, 1, 9, axis=0)], 0), [1, 0]),
        "",
    ),
    "reshaped": (
        lambda b, x: b.concat(
            [b.reshape(b.reshape(part(b, x, 1, 2), (6,)), (6, 1)), part(b, x, 1, 9)], 1
        ),
        "edge",
    ),
    "padded": (
        lambda b, x: b.concat(
            [part(b, x, 1, 2), b.Pad(part(b, x, 1, 8), b.i64([0, 0, 0, 1]), mode="edge")], 1),
        "edge",
    ),
    "added": (lambda b, x: b.concat([part(b, x, 1, 2), b.Neg(part(b, x, 1, 9))], 1), ""),
    "not-moved": (lambda b, x: b.concat([part(b, x, 0, 3), part(b, x, 3, 9)], 1), "edge"),
    "rolled": (lambda b, x: b.concat([part(b, x, 1, 9), part(b, x, 0, 1)], 1), ""),
    "moved-within": (
        lambda b, x: b.concat([part(b, x, 0, 3), part(b, x, 2, 3), part(b, x, 4, 9)], 1),
        "",
    ),
    "wider": (lambda b, x: b.slice(
        b.concat([part(b, x, 0, 1), b.Identity(part(b, x, 0, 9))], 1), [0], [9], axes=[1]), ""),
    "elsewhere": (
        lambda b, x: b.concat([part(b, x, 3, 4), b.Identity(part(b, x, 1, 9))], 1),
        "",
    ),
}  # fmt: skip


def written(low: int, high: int, source: int, **options: Any) -> Step:
    """Columns low to high become column `source`."""

    def step(b: GraphBuilder, x: Value) -> Value:
        rows, columns = np.meshgrid(np.arange(6), np.arange(low, high), indexing="ij")
        places = b.const(np.stack([rows, columns], -1).astype(np.int64))
        new = b.expand(part(b, x, source, source + 1), (6, high - low))
        made: Value = b.op("ScatterND", x, places, new, **options)
        return made

    return step


PADDED |= {
    "written": (written(0, 2, 2), "edge"),
    "written-at-the-end": (written(6, 9, 5), "edge"),
    "written-from-elsewhere": (written(0, 2, 3), ""),
    "summed": (written(0, 2, 2, reduction="add"), ""),
}


@pytest.mark.parametrize("name", PADDED)
def test_ghost_cells(name: str) -> None:
    step, mode = PADDED[name]
    run = stepped(step, CELLS, GhostCells())
    pads = [n.attributes["mode"].as_string() for n in run.model.graph.all_nodes()
            if n.op_type == "Pad"]  # fmt: skip
    assert pads == [mode] * bool(mode) and bool(run.fired) == bool(mode)
    if mode:
        assert +run.inside == Counter(Slice=1, Pad=1)


@pytest.mark.parametrize(("columns", "fires"), [(128, True), (129, False)])
def test_large_tensors_have_no_ghost_cells(columns: int, fires: bool) -> None:
    x = np.arange(128 * columns, dtype=np.float32).reshape(128, columns)
    step: Step = lambda b, x: b.concat(  # noqa: E731
        [b.Identity(part(b, x, 1, 2)), part(b, x, 1, columns)], 1
    )
    assert bool(stepped(step, x, GhostCells()).fired) == fires


def test_two_nodes_are_as_good_as_two_nodes() -> None:
    step: Step = lambda b, x: b.concat([(one := part(b, x, 0, 1)), one], 1)  # noqa: E731
    stepped(step, CELLS[:, :2].copy(), GhostCells()).nothing()


def test_both_axes_have_ghost_cells() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        x = b.concat([part(b, x, 1, 2), part(b, x, 1, 8), part(b, x, 7, 8)], 1)
        return b.concat([part(b, x, 1, 2, axis=0), part(b, x, 1, 6, axis=0)], 0)

    run = stepped(step, CELLS, GhostCells())
    assert +run.inside == Counter(Slice=1, Pad=1)


# -- slices-to-split ---------------------------------------------------------------------------


def joined(*cuts: tuple[int, int], axis: int = 0) -> Step:
    """The sum of the rows that are cut out, each with another function."""

    def step(b: GraphBuilder, x: Value) -> Value:
        functions = [b.Neg, b.Abs, b.Relu, b.Floor]
        pieces = [f(part(b, x, *cut, axis=axis)) for f, cut in zip(functions, cuts, strict=False)]
        total = b.const(np.float32(0))
        for piece in pieces:
            total = b.Add(total, b.ReduceSum(piece, keepdims=0))
        return b.Add(x, total)  # type: ignore[no-any-return]

    return step


SPLIT: dict[str, tuple[Step, dict[str, int]]] = {
    "two-that-are-all": (joined((0, 2), (2, 6)), {"Split": 1}),
    "in-another-order": (joined((2, 6), (0, 2)), {"Split": 1}),
    "three-of-some": (joined((2, 3), (1, 2), (3, 5)), {"Split": 1, "Slice": 1}),
    "two-of-some": (joined((1, 2), (2, 5)), {"Slice": 2}),
    "with-a-gap": (joined((0, 2), (3, 6)), {"Slice": 2}),
    "overlapping": (joined((0, 3), (2, 6)), {"Slice": 2}),
    "columns": (joined((0, 2), (2, 9), axis=1), {"Split": 1}),
    "one": (joined((0, 6)), {"Slice": 0}),
    "four": (joined((0, 1), (1, 2), (2, 5), (5, 6)), {"Split": 1}),
    "two-and-one-beyond-a-gap": (joined((0, 1), (1, 2), (4, 6)), {"Slice": 3}),
}


@pytest.mark.parametrize("name", SPLIT)
def test_slices_to_split(name: str) -> None:
    step, expected = SPLIT[name]
    run = stepped(step, CELLS, SlicesToSplit())
    found = {op: run.inside[op] for op in ("Split", "Slice")}
    assert +Counter(found) == +Counter(expected)


def main_graph(build: Any, inputs: dict[str, np.ndarray]) -> LoopRewrite:
    return LoopRewrite(build, inputs, SlicesToSplit())


def test_all_slices_of_a_tensor_outside_of_bodies() -> None:
    run = main_graph(lambda b, x: joined((0, 2), (2, 6))(b, b.Neg(x)), {"x": CELLS})
    assert run.outside["Split"] == 1 and not run.outside["Slice"]


@pytest.mark.parametrize(
    "cuts", [((0, 2), (2, 5)), ((1, 2), (2, 3), (3, 4)), ((0, 2), (2, 6), (1, 3))]
)
def test_some_slices_of_a_tensor_outside_of_bodies(cuts: Any) -> None:
    main_graph(lambda b, x: joined(*cuts)(b, b.Neg(x)), {"x": CELLS}).nothing()


def test_constants_and_shapes_are_not_split() -> None:
    main_graph(
        lambda b, x: b.Add(x, joined((0, 2), (2, 6))(b, b.const(CELLS))), {"x": CELLS}
    ).nothing()
    two = lambda b, n: b.Add(part(b, n, 0, 2, axis=0), part(b, n, 2, 4, axis=0))  # noqa: E731
    main_graph(two, {"n": np.arange(4)}).nothing()
    assert main_graph(two, {"n": np.arange(4, dtype=np.int32)}).fired
    matrix = {"n": np.arange(8).reshape(4, 2)}
    assert main_graph(two, matrix).fired


# -- join-twins --------------------------------------------------------------------------------


def thirds(b: GraphBuilder, x: Value, axis: int = 0) -> list[Value]:
    return list(b.op("Split", x, b.i64([1, 1, 1]), axis=axis, n_outputs=3))


def flux(b: GraphBuilder, parts: list[Value], by: Value | None = None) -> Value:
    """Five nodes of three rows."""
    u, v, w = parts
    made: Value = b.concat([b.Mul(u, v), b.Abs(b.Add(w, u if by is None else by)), b.Neg(v)], 0)
    return made


def of_both(f: Any, after: Any = None, g: Any = None) -> Step:
    """f of the state and of its negative, subtracted."""

    def step(b: GraphBuilder, x: Value) -> Value:
        y = b.Relu(x)
        one, other = f(b, thirds(b, x)), (g or f)(b, thirds(b, y))
        return (after or b.Sub)(one, other)  # type: ignore[no-any-return]

    return step


def deep(b: GraphBuilder, parts: list[Value]) -> Value:
    return b.Abs(b.Neg(flux(b, parts)))  # type: ignore[no-any-return]


TWINS: dict[str, tuple[Step, bool]] = {
    "seven-nodes": (of_both(deep), True),
    "numbers": (of_both(lambda b, p: b.Abs(flux(b, p, b.const(np.float32(2))))), True),
    "a-column": (
        of_both(lambda b, p: b.Abs(flux(b, p, b.const(np.full((1, 1), 2, np.float32))))),
        True,
    ),
    "a-row": (
        of_both(lambda b, p: b.Abs(b.Neg(flux(b, p, b.const(numbers(1, 5)))))),
        False,
    ),
    "little": (of_both(lambda b, p: b.concat([b.Neg(p[0]), b.Abs(p[1]), p[2]], 0)), False),
    "unlike": (of_both(deep, g=lambda b, p: b.Floor(b.Relu(b.concat(p, 0)))), False),
    "another-order": (of_both(deep, g=lambda b, p: deep(b, [p[1], p[2], p[0]])), False),
    "first-read-too-early": (
        of_both(lambda b, p: b.Abs(b.Neg(b.ReduceMax(flux(b, p), b.i64([1]), keepdims=1)))),
        False,
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins(name: str) -> None:
    step, fires = TWINS[name]
    run = stepped(step, numbers(3, 5), JoinTwins())
    assert bool(run.fired) == fires
    assert run.inside["Mul"] == (
        1 if fires else 2 - (name in ("little", "unlike")) - (name == "little")
    )


@pytest.mark.parametrize(("columns", "fires"), [(426, True), (427, False)])
def test_twins_that_are_large(columns: int, fires: bool) -> None:
    """Six nodes are saved, less the one that is read; five are as many as 1280 elements take."""
    run = stepped(of_both(deep), numbers(3, columns), JoinTwins())
    assert run.fired if fires else True


def test_twins_outside_of_bodies_stay() -> None:
    LoopRewrite(lambda b, x: of_both(deep)(b, x), {"x": numbers(3, 5)}, JoinTwins()).nothing()


def test_single_columns_are_no_twins() -> None:
    stepped(of_both(deep), numbers(3, 1), JoinTwins()).nothing()


def test_the_second_twin_reads_the_first() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        one = deep(b, thirds(b, x))
        return deep(b, thirds(b, one))

    stepped(step, numbers(3, 5), JoinTwins()).nothing()


def test_twins_that_are_cut_along_the_last_axis_stay() -> None:
    def of(b: GraphBuilder, x: Value) -> Value:
        u, v, w = thirds(b, x, 1)
        return b.Abs(b.Neg(b.concat([b.Mul(u, v), b.Abs(b.Add(w, u)), b.Neg(v)], 1)))  # type: ignore[no-any-return]

    stepped(lambda b, x: b.Sub(of(b, x), of(b, b.Relu(x))), numbers(4, 3), JoinTwins()).nothing()

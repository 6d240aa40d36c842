"""Bodies on small graphs that write borders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    CELLS,
    loop,
    part,
    stepped,
)
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.shapes.scatter_to_pad import DEEPEST, ScatterToPad
from hlo2onnx.targets import load_target

Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]


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
    run = stepped(step, CELLS, ScatterToPad())
    pads = [n.attributes["mode"].as_string() for n in run.model.graph.all_nodes()
            if n.op_type == "Pad"]  # fmt: skip
    assert pads == [mode] * bool(mode) and bool(run.fired) == bool(mode)
    if mode:
        assert set(+run.inside) <= {"Pad", "Slice"}
        assert run.inside["Pad"] == 1 and run.inside["Slice"] <= 1


@pytest.mark.parametrize(("columns", "fires"), [(128, True), (129, False)])
def test_large_tensors_have_no_ghost_cells(columns: int, fires: bool) -> None:
    x = np.arange(128 * columns, dtype=np.float32).reshape(128, columns)
    step: Step = lambda b, x: b.concat(  # noqa: E731
        [b.Identity(part(b, x, 1, 2)), part(b, x, 1, columns)], 1
    )
    assert bool(stepped(step, x, ScatterToPad()).fired) == fires


def test_two_nodes_are_as_good_as_two_nodes() -> None:
    step: Step = lambda b, x: b.concat([(one := part(b, x, 0, 1)), one], 1)  # noqa: E731
    stepped(step, CELLS[:, :2].copy(), ScatterToPad()).nothing()


def test_both_axes_have_ghost_cells() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        x = b.concat([part(b, x, 1, 2), part(b, x, 1, 8), part(b, x, 7, 8)], 1)
        return b.concat([part(b, x, 1, 2, axis=0), part(b, x, 1, 6, axis=0)], 0)

    run = stepped(step, CELLS, ScatterToPad())
    assert +run.inside == Counter(Slice=1, Pad=1)


def test_ghost_cells_around_a_part_of_a_large_tensor() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        core = b.slice(x, [3, 4], [9, 13], axes=[0, 1])
        made: Value = b.Add(x, b.ReduceMax(open_ends(b, core), keepdims=0))
        return made

    x = np.arange(40_000, dtype=np.float32).reshape(200, 200)
    run = stepped(step, x, ScatterToPad())
    assert run.fired and run.inside["Pad"] == 1 and not run.inside["Concat"]


def test_moves_of_another_domain_are_none() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        def step(trip: Value, x: Value) -> Any:
            types = [(oir.DataType.FLOAT, (6, 1))]
            (end,) = b.node("Identity", [part(b, x, 1, 2)], {}, types, "com.example")
            return [b.concat([end, part(b, x, 1, 9)], 1)], []

        return loop(b, 2, [x], step)

    model = model_of(build, {"x": CELLS})
    assert not apply_rules(model, [ScatterToPad()], load_target("ort-cpu"))


def test_more_moves_in_a_row_are_not_followed() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        for _ in range(DEEPEST):
            x = b.Identity(x)
        return open_ends(b, x)

    run = stepped(step, CELLS, ScatterToPad())
    counts = Counter(node.op_type for node in run.model.graph.all_nodes())
    assert counts["Pad"] == 1
    assert counts["Identity"] > 1  # of the condition there is one


def test_rows_written_to_places_that_are_computed_stay() -> None:
    def build(b: GraphBuilder, x: Value, places: Value) -> Any:
        def step(trip: Value, x: Value) -> Any:
            new = b.expand(part(b, x, 2, 3, axis=0), (2, 9))
            return [b.ScatterND(b.Identity(x), places, new)], []

        return loop(b, 2, [x], step)

    model = model_of(build, {"x": CELLS, "places": np.array([[0], [1]])})
    assert not apply_rules(model, [ScatterToPad()], load_target("ort-cpu"))

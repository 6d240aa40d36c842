"""Single loops that become Scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import Body, H, LoopRewrite, X, added, loop, rewrite, row, stacked
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.loops.loop_to_scan import LoopToScan
from hlo2onnx.targets import load_target

FLOAT = oir.DataType.FLOAT


SCANNED: dict[str, tuple[Body, int, int]] = {
    "row": (added(row), 1, 0),
    "row-by-default": (added(lambda b, x, i: b.Gather(x, i)), 1, 0),
    "row-twice": (lambda b, x, i, h: ([b.Add(h, b.Mul(row(b, x, i), row(b, x, i)))], []), 1, 0),
    "number": (added(lambda b, x, i: b.cast(i, FLOAT)), 1, 0),
    "row-and-number": (
        lambda b, x, i, h: ([b.Add(h, b.Mul(row(b, x, i), b.cast(i, FLOAT)))], []),
        2,
        0,
    ),
    "row-stacked": (stacked(lambda b, x, i, h: row(b, x, i)), 1, 0),
    "of-another-axis": (added(lambda b, x, i: row(b, x, i, axis=1)), 1, 1),
    "negative-axis": (added(lambda b, x, i: row(b, x, i, axis=-2)), 1, 1),
    "of-a-state": (lambda b, x, i, h: ([b.Add(h, row(b, h, i))], []), 1, 1),
    "by-another-index": (
        lambda b, x, i, h: ([b.Add(h, row(b, x, b.Mul(i, b.i64(1))))], []),
        1,
        1,
    ),
}


@pytest.mark.parametrize("name", SCANNED)
def test_scan(name: str) -> None:
    body, inputs, gathers = SCANNED[name]
    run = rewrite(body, LoopToScan(), count=4, x=X[:4, :4].copy())
    (scan,) = (node for node in run.model.graph if node.op_type == "Scan")
    assert scan.attributes["num_scan_inputs"].as_int() == inputs
    assert run.inside["Gather"] == gathers


def test_a_body_that_reads_only_its_states_stays() -> None:
    rewrite(lambda b, x, i, h: ([b.Sin(h)], [b.Cos(h)]), LoopToScan(), count=4).nothing()


@pytest.mark.parametrize("count", [3, 5])
def test_scan_of_the_first_rows(count: int) -> None:
    run = rewrite(added(row), LoopToScan(), count=count)
    assert run.fired and run.outside["Slice"] == (count < 5)


@pytest.mark.wide
def test_many_numbers_are_not_stored() -> None:
    body = added(lambda b, x, i: b.cast(b.Mod(i, b.i64(2)), FLOAT))
    h = np.zeros(1, np.float32)
    assert rewrite(body, LoopToScan(), count=1 << 16, h=h).fired
    rewrite(body, LoopToScan(), count=(1 << 16) + 1, h=h).nothing()


def test_rows_of_many_trips_are_scanned() -> None:
    x = np.ones(((1 << 16) + 1, 1), np.float32)
    run = rewrite(added(row), LoopToScan(), count=len(x), h=np.zeros(1, np.float32), x=x)
    assert run.outside["Scan"] == 1


def scan_of(build: Any, inputs: dict[str, Any]) -> Any:
    """The Scan that a Loop becomes, which is not run."""
    model = model_of(build, inputs)
    apply_rules(model, [LoopToScan()], load_target("ort-cpu"))
    found = [node for node in model.graph if node.op_type == "Scan"]
    return found[0] if found else None


def test_scanned_values_keep_their_names() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        def step(trip: oir.Value, h: oir.Value) -> Any:
            trip.name = "epoch"
            taken = row(b, x, trip)
            taken.name = "token"
            return [b.Add(h, b.Mul(taken, b.cast(trip, FLOAT)))], []

        return loop(b, 5, [h], step)

    body = scan_of(build, {"x": X, "h": H}).attributes["body"].as_graph()
    assert [x.name.partition("_")[0] for x in body.inputs[1:]] == ["token", "epoch"]


@pytest.mark.parametrize("places", [(0,), (1,), (0, 1)])
def test_types_that_the_target_cannot_carry(places: tuple[int, ...]) -> None:
    four = oir.DataType.INT4

    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        def step(trip: oir.Value, h: oir.Value, g: oir.Value) -> Any:
            return [b.Neg(h), b.Identity(g)], [b.Abs(h), b.cast(g, four)]

        first = [b.cast(h, four) if 0 in places else h, h]
        made = loop(b, 5, first[::-1], step)
        return made[: 3 + (1 in places)]

    assert scan_of(build, {"x": X, "h": H}) is None


def test_a_list_of_numbers_beside_the_number_of_the_trip() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        listed = b.i64(range(5))

        def step(trip: oir.Value, h: oir.Value) -> Any:
            both = b.Add(b.Gather(listed, trip, axis=0), b.Mul(trip, b.i64(2)))
            return [b.Add(h, b.cast(both, FLOAT))], []

        return loop(b, 5, [h], step)

    LoopRewrite(build, {"x": X, "h": H}, LoopToScan())

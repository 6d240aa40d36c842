"""Operators of other domains in single loops, and the order of the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    loop,
    numbers,
)
from loop_parts import EARLY, LATE
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.loops.loop_to_scan import LoopToScan
from hlo2onnx.raising.rules.loops.loop_unroll import LoopUnroll
from hlo2onnx.raising.rules.nn.rnn import Gru, Lstm
from hlo2onnx.raising.rules.shapes.pad_modes import PadModes
from hlo2onnx.raising.rules.shapes.slices_to_split import SlicesToSplit
from hlo2onnx.targets import load_target

FLOAT = oir.DataType.FLOAT
Value = oir.Value
X = numbers(4, 3, 5)


def foreign(b: GraphBuilder, op: str, *inputs: Value, **attributes: Any) -> Value:
    """An operator of a domain that nobody knows, which happens to have a known name."""
    outputs = [(x.dtype, shape_of(x)) for x in inputs[:1]]
    (made,) = b.node(op, list(inputs), attributes, outputs, "com.example")
    return made


def taking(b: GraphBuilder, x: Value, i: Value) -> Value:
    (made,) = b.node("Gather", [x, i], {"axis": 0}, [(FLOAT, (3, 5))], "com.example")
    return made


FOREIGN: dict[str, tuple[Any, Any]] = {
    "early": (
        EARLY, lambda b, x, i, h: ([h], [foreign(b, "Exp", b.Gather(x, i, axis=0))])
    ),
    "late": (
        LATE, lambda b, x, i, h: ([b.Neg(h)], [foreign(b, "Exp", h)])
    ),
    "pad-modes": (
        PadModes(),
        lambda b, x, i, h: (
            [b.concat([foreign(b, "Identity", b.slice(h, [1], [2], axes=[1])),
                       b.slice(h, [1], [5], axes=[1])], 1)], []
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_operators_of_other_domains_stay(name: str) -> None:
    rule, body = FOREIGN[name]

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        return loop(b, 3, [h], lambda i, h: body(b, x, i, h))

    h = np.zeros((3, 5), np.float32)
    model = model_of(build, {"x": X, "h": h})
    assert not apply_rules(model, [rule], load_target("ort-cpu"))


def test_rows_taken_by_another_domain_are_not_scanned() -> None:
    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        return loop(b, 3, [h], lambda i, h: ([b.Add(h, taking(b, x, i))], []))

    model = model_of(build, {"x": X, "h": np.zeros((3, 5), np.float32)})
    assert apply_rules(model, [LoopToScan()], load_target("ort-cpu"))
    assert "Gather" in {node.op_type for node in model.graph.all_nodes()}


def test_the_order_of_phases() -> None:
    """Cells are found in loops that are whole; rows in loops that are no Scan, and Slices, by other
    rules first."""
    assert Lstm.phase == Gru.phase == 0
    late = SlicesToSplit.phase
    assert Lstm.phase < LoopUnroll.phase < LoopToScan.phase == late

"""Single loops that become Scan."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    Body,
    X,
    added,
    rewrite,
    row,
    stacked,
)

from hlo2onnx.raising.rules.scan_operator import LoopToScan

FLOAT = oir.DataType.FLOAT


SCANNED: dict[str, tuple[Body, int, int]] = {
    "row": (added(row), 1, 0),
    "row-twice": (lambda b, x, i, h: ([b.Add(h, b.Mul(row(b, x, i), row(b, x, i)))], []), 1, 0),
    "number": (added(lambda b, x, i: b.cast(i, FLOAT)), 1, 0),
    "nothing": (lambda b, x, i, h: ([b.Sin(h)], [b.Cos(h)]), 1, 0),
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


@pytest.mark.parametrize("count", [3, 5])
def test_scan_of_the_first_rows(count: int) -> None:
    run = rewrite(added(row), LoopToScan(), count=count)
    assert run.fired and run.outside["Slice"] == (count < 5)


def test_many_numbers_are_not_stored() -> None:
    body = added(lambda b, x, i: b.cast(b.Mod(i, b.i64(2)), FLOAT))
    h = np.zeros(1, np.float32)
    assert rewrite(body, LoopToScan(), count=1 << 16, h=h).fired
    rewrite(body, LoopToScan(), count=(1 << 16) + 1, h=h).nothing()

"""The cheapest way to compute lanes, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.vectorize import lanes
from hlo2onnx.raising.vectorize.lanes import Applied, Negated, Numbers, Planner, Rows

Value = oir.Value


class Tensors:
    """Two tensors of four rows, their rows, and a planner that knows these."""

    def __init__(self) -> None:
        self.b = GraphBuilder(oir.Graph([], [], nodes=[], name="main"), 23)
        self.x, self.y = (self.b.value(name, oir.DataType.FLOAT, (4, 3)) for name in "xy")
        self.row: dict[Value, tuple[Value, int]] = {}
        self.a, self.c = (
            list(map(self._row, [tensor] * 4, range(4))) for tensor in (self.x, self.y)
        )
        self.planner = Planner(
            self.row.get, lambda node: node.op_type in ("Add", "Mul", "Neg", "Sub")
        )

    def _row(self, tensor: Value, k: int) -> Value:
        made = self.b.slice(tensor, [k], [k + 1], axes=[0])
        self.row[made] = (tensor, k)
        return made

    def number(self, x: float) -> Value:
        return self.b.const(np.full((1, 1), x, np.float32))


PLANS: dict[str, Callable[[Tensors], tuple[list[Any], Any, Any]]] = {
    "numbers": lambda t: ([t.number(2), 3.0], 0.0, Numbers((2.0, 3.0))),
    "rows": lambda t: (t.a[1:3], 1.0, Rows(t.x, (1, 2))),
    "row-and-number": lambda t: ([t.a[1], t.number(2)], 1.1, Rows(t.x, (1, 2.0))),
    "equal-numbers": lambda t: (
        [t.a[1], t.number(2), 2.0, 3.0],
        1.2,
        Rows(t.x, (1, 2.0, 2.0, 3.0)),
    ),
    "zeros-of-both-signs": lambda t: ([t.a[1], 0.0, -0.0], 1.2, Rows(t.x, (1, 0.0, -0.0))),
    "products": lambda t: (
        [t.b.Mul(t.a[0], t.a[1]), t.b.Mul(t.a[1], t.a[0])],
        3.0,
        Applied("Mul", Rows(t.x, (0, 1)), Rows(t.x, (1, 0))),
    ),
    "sum-beside-a-row": lambda t: (
        [t.b.Add(t.a[0], t.a[1]), t.a[2]],
        3.1,
        Applied("Add", Rows(t.x, (0, 2)), Rows(t.x, (1, -0.0))),
    ),
    "product-beside-a-row": lambda t: (
        [t.a[2], t.b.Mul(t.a[0], t.a[1])],
        3.1,
        Applied("Mul", Rows(t.x, (2, 0)), Rows(t.x, (1.0, 1))),
    ),
    "difference-beside-a-row": lambda t: (
        [t.b.Sub(t.a[0], t.a[1]), t.a[2]],
        3.1,
        Applied("Sub", Rows(t.x, (0, 2)), Rows(t.x, (1, 0.0))),
    ),
    "number-taken-off-beside-a-sum": lambda t: (
        [t.b.Sub(t.a[0], t.number(3)), t.b.Add(t.a[1], t.a[2])],
        3.1,
        Applied("Add", Rows(t.x, (0, 1)), Rows(t.x, (-3.0, 2))),
    ),
    "taken-off-a-number-beside-a-sum": lambda t: (
        [t.b.Sub(t.number(3), t.a[0]), t.b.Add(t.a[1], t.a[2])],
        3.1,
        Applied(
            "Add",
            Applied("Mul", Rows(t.x, (0, 1)), Numbers((-1.0, 1.0))),
            Rows(t.x, (3.0, 2)),
        ),
    ),
    "scaled-whole": lambda t: (
        [t.b.Mul(row, t.number(5 + k)) for k, row in enumerate(t.a)],
        1.0,
        Applied("Mul", Rows(t.x, (0, 1, 2, 3)), Numbers((5.0, 6.0, 7.0, 8.0))),
    ),
    "scaled-the-other-way": lambda t: (
        [t.b.Mul(t.number(5), t.a[0]), t.b.Mul(t.number(6), t.a[1])],
        1.0,
        Applied("Mul", Numbers((5.0, 6.0)), Rows(t.x, (0, 1))),
    ),
    "scaled-in-another-order": lambda t: (
        [t.b.Mul(t.a[1], t.number(5)), t.b.Mul(t.a[0], t.number(6))],
        2.0,
        Applied("Mul", Rows(t.x, (1, 0)), Numbers((5.0, 6.0))),
    ),
    "added-to-whole": lambda t: (
        [t.b.Add(t.a[0], t.number(5)), t.b.Add(t.a[1], t.number(6))],
        2.0,
        Applied("Add", Rows(t.x, (0, 1)), Numbers((5.0, 6.0))),
    ),
    "negative-beside-a-product": lambda t: (
        [t.b.Neg(t.a[3]), t.b.Mul(t.a[1], t.a[2])],
        3.1,
        Applied("Mul", Rows(t.x, (3, 1)), Rows(t.x, (-1.0, 2))),
    ),
    "negative-lane": lambda t: (
        [Negated(t.a[0]), t.a[1]],
        1.0,
        Applied("Mul", Rows(t.x, (0, 1)), Numbers((-1.0, 1.0))),
    ),
    "the-other-way-round": lambda t: (
        [t.b.Mul(t.a[0], t.c[1]), t.b.Mul(t.c[2], t.a[3])],
        3.0,
        Applied("Mul", Rows(t.x, (0, 3)), Rows(t.y, (1, 2))),
    ),
    "another-tensor-within": lambda t: (
        [t.b.Sub(t.b.Mul(t.a[0], t.a[1]), t.a[2]), t.b.Sub(t.a[3], t.c[0])],
        None,
        None,
    ),
    "of-two-tensors": lambda t: ([t.a[0], t.c[1]], None, None),
    "of-another-operator": lambda t: ([t.b.Div(t.a[0], t.a[1]), t.a[0]], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str) -> None:
    given, cost, plan = PLANS[name](t := Tensors())
    found = t.planner.plan(given)
    if plan is None:
        assert found is None
        return
    assert found is not None
    assert found[0] == pytest.approx(cost)
    assert repr(found[1]) == repr(plan)  # which tells -0.0 from 0.0


def test_a_plan_is_found_once() -> None:
    t = Tensors()
    made = [t.b.Mul(t.a[0], t.a[1]), t.b.Mul(t.a[1], t.a[0])]
    assert t.planner.plan(made) is t.planner.plan(list(made))


def test_long_searches_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MOST_PLANS", 2)
    t = Tensors()
    assert t.planner.plan(t.a[:2]) is not None
    assert t.planner.plan(t.c[:2]) is not None
    assert t.planner.plan(t.c[1:3]) is None
    assert t.planner.plan(t.a[:2]) is not None


def test_whole_tensors() -> None:
    t = Tensors()
    assert Rows(t.x, (0, 1)).is_whole
    assert not Rows(t.x, (1, 0)).is_whole
    assert not Rows(t.x, (0, 1.0)).is_whole
    assert Rows(t.x, (0, 2.5, 1)).numbers == [2.5]
    assert Rows(t.x, (0, 2.5, 1)).places == [0, 1]


@pytest.mark.parametrize(
    ("op_type", "half", "scales"),
    [
        ("Mul", (0, 1), True),
        ("Mul", (1, 0), False),
        ("Add", (0, 1), False),
    ],
)
def test_plans_that_only_scale(op_type: str, half: tuple[int, ...], scales: bool) -> None:
    t = Tensors()
    rows, numbers = Rows(t.x, half), Numbers((2.0, 3.0))
    assert Applied(op_type, rows, numbers).scales == scales
    assert Applied(op_type, numbers, rows).scales == scales
    assert not Applied(op_type, rows, rows).scales
    assert not Applied(op_type, numbers, numbers).scales

"""Rows of constants below a state: which are needed, and what a trip makes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.raising.vectorize.constant_rows import Making, constant_rows
from hlo2onnx.raising.vectorize.lanes import Applied, Numbers, Plan, Rows

Value = oir.Value


class Trip:
    """A state of two rows, and what a trip makes of it."""

    def __init__(self, dtype: oir.DataType = oir.DataType.FLOAT) -> None:
        self.b = GraphBuilder(oir.Graph([], [], nodes=[], name="main"), 23)
        self.s = self.b.value("s", dtype, (2, 3))
        self.making: dict[Value, Making] = {self.s: ()}

    def plan(self, plan: Plan) -> Value:
        """A stack that is computed by a plan."""
        made = self.b.concat([self.b.slice(self.s, [k], [k + 1], axes=[0]) for k in range(2)], 0)
        self.making[made] = plan
        return made

    def op(self, op_type: str, *operands: Value) -> Value:
        made: Value = self.b.op(op_type, *operands)
        self.making[made] = operands
        return made

    def number(self, x: float) -> Value:
        return self.b.const(np.full((1, 1), x, dtype_of(self.s).numpy()))


Step = Callable[[Trip], Value]
"""Makes the state after a trip."""


def product(t: Trip, *lanes: int | float) -> Plan:
    """x0 times a lane, x1 times another."""
    return Applied("Mul", Rows(t.s, (0, 1)), Rows(t.s, lanes))


CONSTANTS: dict[str, tuple[Step, list[float] | None]] = {
    "none-needed": (lambda t: t.op("Add", t.s, t.plan(product(t, 1, 0))), []),
    "one-needed": (lambda t: t.op("Add", t.s, t.plan(Rows(t.s, (1, 0.0)))), [0.0]),
    "needed-twice": (
        lambda t: t.op(
            "Sub",
            t.s,
            t.plan(Applied("Sub", Rows(t.s, (1, 5.0)), Rows(t.s, (5.0, 0)))),
        ),
        [5.0],
    ),
    "two-needed": (
        lambda t: t.op(
            "Sub",
            t.s,
            t.plan(Applied("Sub", Rows(t.s, (1, 5.0)), Rows(t.s, (6.0, 0)))),
        ),
        [5.0, 6.0],
    ),
    "a-zero-more": (lambda t: t.op("Add", t.s, t.plan(product(t, 1, 5.0))), [5.0, 0.0]),
    "a-negative-zero-more": (
        lambda t: t.op("Neg", t.op("Sub", t.plan(product(t, 1, 5.0)), t.s)),
        [5.0, -0.0],
    ),
    "both-zeros-more": (
        lambda t: t.op(
            "Neg",
            t.op("Sub", t.plan(Applied("Sub", product(t, 1, 0), Rows(t.s, (0, 5.0)))), t.s),
        ),
        [5.0, 0.0, -0.0],
    ),
    "scaled-by-a-number": (
        lambda t: t.op("Add", t.s, t.op("Mul", t.number(-3), t.plan(product(t, 1, 5.0)))),
        [5.0, 0.0],
    ),
    "numbers-are-no-rows": (
        lambda t: t.op(
            "Add", t.s, t.plan(Applied("Mul", Numbers((7.0, 8.0)), Rows(t.s, (0, 1.0))))
        ),
        [1.0],
    ),
    "within-a-sum": (
        lambda t: t.op(
            "Add",
            t.s,
            t.plan(Applied("Add", Rows(t.s, (0, -0.0)), product(t, 1, 0))),
        ),
        [-0.0, 0.0],
    ),
    "state-moves": (
        lambda t: t.op("Add", t.s, t.op("Add", t.number(1), t.plan(product(t, 1, 5.0)))), None
    ),
    "state-is-doubled": (
        lambda t: t.op("Add", t.op("Add", t.s, t.s), t.plan(product(t, 1, 5.0))), None
    ),
    "infinite": (lambda t: t.op("Add", t.s, t.plan(Rows(t.s, (1, float("inf"))))), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("dtype", [oir.DataType.FLOAT, oir.DataType.DOUBLE])
def test_rows_that_stay(name: str, dtype: oir.DataType) -> None:
    step, constants = CONSTANTS[name]
    t = Trip(dtype)
    after = step(t)
    found = constant_rows(t.making, t.s, after)
    if constants is None:
        assert found is None
        return
    assert found is not None
    assert repr(found.below[t.s].tolist()) == repr(constants)
    assert found.below[t.s].tobytes() == found.below[after].tobytes()
    assert found.below[t.s].dtype == dtype.numpy()
    assert set(found.below) == set(t.making)


def extended(step: Step) -> tuple[Trip, list[Plan]]:
    """The plans of a trip with lanes for constants."""
    t = Trip()
    found = constant_rows(t.making, t.s, step(t))
    assert found is not None
    return t, list(found.plans.values())


def test_lanes_of_constants_are_rows_below() -> None:
    t, plans = extended(lambda t: t.op("Add", t.s, t.plan(product(t, 1, 5.0))))
    expected = Applied("Mul", Rows(t.s, (0, 1, 3, 3)), Rows(t.s, (1, 2, 3, 3)))
    assert repr(plans) == repr([expected])


def test_plans_that_scale_make_zeros_by_numbers() -> None:
    def step(t: Trip) -> Value:
        scaled = t.plan(Applied("Mul", Numbers((7.0, 8.0)), Rows(t.s, (0, 1))))
        other = t.plan(Applied("Sub", Rows(t.s, (-5.0, 6.0)), Rows(t.s, (1, 0))))
        return t.op("Add", t.op("Add", t.s, scaled), other)

    t, plans = extended(step)
    scaled = Applied("Mul", Numbers((7.0, 8.0, -0.0, 0.0)), Rows(t.s, (0, 1, 2, 3)))
    other = Applied("Sub", Rows(t.s, (2, 3, 2, 2)), Rows(t.s, (1, 0, 2, 2)))
    assert repr(plans) == repr([scaled, other])


def test_the_numbers_of_a_scale_may_be_on_the_right() -> None:
    def step(t: Trip) -> Value:
        scaled = t.plan(Applied("Mul", Rows(t.s, (0, 1)), Numbers((7.0, 8.0))))
        return t.op("Add", t.op("Add", t.s, scaled), t.plan(Rows(t.s, (1, 0.0))))

    t, plans = extended(step)
    scaled = Applied("Mul", Rows(t.s, (0, 1, 2)), Numbers((7.0, 8.0, 0.0)))
    assert repr(plans) == repr([scaled, Rows(t.s, (1, 2, 2))])


def test_numbers_among_what_is_computed_of_the_state() -> None:
    """They must be the same there as in the state."""

    def step(t: Trip, by: float) -> Value:
        moved = t.op("Mul", t.s, t.number(by))
        return t.op("Add", t.s, t.plan(Applied("Sub", Rows(moved, (1, 5.0)), Rows(moved, (0, 1)))))

    t, _ = extended(lambda t: step(t, 1))
    assert constant_rows((t := Trip()).making, t.s, step(t, 2)) is None

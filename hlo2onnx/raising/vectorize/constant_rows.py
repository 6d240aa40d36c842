"""Rows of constants below those of a state, for lanes that take a constant where others take a row.

Whatever a trip does to the state it does to these rows too, and has to leave them as they were. A
plan has nothing to compute in them; what it makes there is a zero, of a sign that changes nothing
in what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.evaluator import ELEMENTWISE
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import const_of, shape_of
from hlo2onnx.raising.vectorize.lanes import Applied, Numbers, Plan, Rows

COMPUTED = {name: ELEMENTWISE[name][0] for name in ("Add", "Mul", "Neg", "Sub")}
"""The operators that a plan is made of, and that make values of a state."""

Making = tuple[oir.Value, ...] | Plan
"""The operands that a value is computed of, or the plan that computes its rows."""


def constant_rows(
    making: Mapping[oir.Value, Making], state: oir.Value, after: oir.Value
) -> ConstantRows | None:
    """The rows that are needed and stay the same from trip to trip; None if there are none such.

    Args:
        making: How values follow from the state, in the order of making.
        state: The state before a trip.
        after: The state after it.
    """
    numbers = {np.float64(x).tobytes(): x for how in making.values() for x in _numbers(how)}
    needed = list(numbers.values())
    for more in ([], [0.0], [-0.0], [0.0, -0.0]):
        for zero in (0.0, -0.0):
            found = ConstantRows(making, state, [*needed, *more], zero)
            if found.stay and found.below[after].tobytes() == found.below[state].tobytes():
                return found
    return None


class ConstantRows:
    """What becomes of rows of constants in a trip.

    Attributes:
        plans: The plans, with lanes for these rows.
        below: The rows of constants in each value.
        stay: Whether they are what they were wherever one of them is taken.
    """

    def __init__(
        self,
        making: Mapping[oir.Value, Making],
        state: oir.Value,
        constants: list[float],
        zero: float,
    ) -> None:
        assert state.shape is not None
        assert state.dtype is not None
        (self._count,) = fixed(shape_of(state)[:1])
        self._constants = np.array(constants, state.dtype.numpy())
        self.plans: dict[oir.Value, Plan] = {}
        self.below: dict[oir.Value, np.ndarray] = {state: self._constants}
        self.stay = bool(np.isfinite(self._constants).all())
        with np.errstate(all="ignore"):
            for value, how in making.items():
                if value is not state:
                    self.below[value] = self._follow(value, how, zero)

    def _follow(self, value: oir.Value, how: Making, zero: float) -> np.ndarray:
        if not isinstance(how, tuple):
            self.plans[value] = self._extended(how, zero)
            return self._evaluated(self.plans[value])
        node = value.producer()
        assert node is not None
        return COMPUTED[node.op_type](*map(self._operand, how))

    def _operand(self, x: oir.Value) -> np.ndarray:
        """All rows are the same where it is a number."""
        array = const_of(x)
        return self.below[x] if array is None else array.reshape(())

    def _extended(self, plan: Plan, zero: float) -> Plan:
        """The plan with lanes for the rows of constants, which come out as zeros if they can."""
        if isinstance(plan, Numbers):
            return Numbers((*plan.lanes, *[zero] * len(self._constants)))
        if isinstance(plan, Rows):
            return self._of_rows(plan, zero)
        if plan.scales:
            return Applied(
                plan.op_type,
                self._scaled(plan, plan.left, zero),
                self._scaled(plan, plan.right, zero),
            )
        right = zero if plan.op_type == "Add" else 0.0  # -0 + -0, -0 - 0 and -0 * 0 are -0
        return Applied(
            plan.op_type, self._extended(plan.left, zero), self._extended(plan.right, right)
        )

    def _scaled(self, plan: Applied, half: Plan, zero: float) -> Plan:
        """Rows as they are, and what makes zeros of one sign of those of constants."""
        if isinstance(half, Rows):
            return Rows(half.source, tuple(range(self._count + len(self._constants))))
        other = plan.right if half is plan.left else plan.left
        assert isinstance(half, Numbers)
        assert isinstance(other, Rows)
        signs = np.signbit(self.below[other.source])
        return Numbers((*half.lanes, *(-zero if sign else zero for sign in signs)))

    def _of_rows(self, plan: Rows, zero: float) -> Plan:
        places = {x.tobytes(): self._count + k for k, x in enumerate(self._constants)}
        kind = self._constants.dtype.type
        spare = places.get(kind(zero).tobytes(), self._count)
        if plan.numbers:
            self.stay &= self.below[plan.source].tobytes() == self._constants.tobytes()
        lanes = (
            places[kind(lane).tobytes()] if isinstance(lane, float) else lane for lane in plan.lanes
        )
        return Rows(plan.source, (*lanes, *[spare] * len(self._constants)))

    def _evaluated(self, plan: Plan) -> np.ndarray:
        """The rows of constants that a plan makes."""
        if isinstance(plan, Applied):
            halves = (self._evaluated(half) for half in (plan.left, plan.right))
            return COMPUTED[plan.op_type](*halves)
        lanes = plan.lanes[self._count :]
        if isinstance(plan, Numbers):
            return np.array(lanes, self._constants.dtype)
        return self.below[plan.source][np.array(lanes, np.int64) - self._count]


def _numbers(how: Making) -> Iterator[float]:
    """The constants among the rows that a plan takes."""
    if isinstance(how, Applied):
        yield from _numbers(how.left)
        yield from _numbers(how.right)
    elif isinstance(how, Rows):
        yield from how.numbers

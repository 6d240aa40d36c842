"""Proven facts about ONNX values, computed on demand and remembered.

Facts belong to ONNX values, not to StableHLO values: a function translated in two places has facts
for each place, and raising rules ask the same questions as handlers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_elements
from hlo2onnx.ir.float_ranges import (
    ANYTHING,
    FloatRange,
    Steps,
    float_range_of_node,
    range_of_numbers,
    steps_of,
)
from hlo2onnx.ir.ranges import RANGE, Range, decided, distinct_rows, range_of_node, range_of_type
from hlo2onnx.ir.values import FLOATS, INTEGERS, const_of, dtype_of, noted, present

_T = TypeVar("_T")

MOVES_DATA = frozenset(
    {"Identity", "Reshape", "Transpose", "Expand", "Squeeze", "Unsqueeze", "Slice", "Tile",
     "Gather", "GatherElements", "GatherND", "Split", "Compress"}
)  # fmt: skip
_KEEPS_NUMBERS = frozenset(
    {"Abs", "Ceil", "Clip", "Concat", "Erf", "Exp", "Floor", "Max", "Min", "Neg", "ReduceMax",
     "ReduceMin", "Relu", "Round", "Sigmoid", "Tanh"}
)  # fmt: skip
"""Operators that give NaN for NaN only."""
_MAKES_NAN_OF_INFINITY = frozenset({"Add", "Mul", "Sub"})
"""Operators that give NaN for NaN and infinities only."""
_WITH_INFINITY = frozenset(
    {oir.DataType.FLOAT, oir.DataType.DOUBLE, oir.DataType.FLOAT16, oir.DataType.BFLOAT16,
     oir.DataType.FLOAT8E5M2}
)  # fmt: skip
_FOLD_LIMIT = 1 << 16
"""Constants above this many elements are not examined for their range."""


class Facts:
    """Answers questions about values. Every answer is proven; None or False means unknown."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._ranges: dict[oir.Value, Range | None] = {}
        self._float_ranges: dict[oir.Value, FloatRange] = {}
        self._steps: dict[oir.Value, Steps | None] = {}
        self._truths: dict[oir.Value, bool | None] = {}
        self._nan_free: dict[oir.Value, bool] = {}

    def constant(self, value: oir.Value) -> np.ndarray | None:
        """The elements of a value known at translation time, up to broadcasting.

        A constant that was only reshaped, transposed or expanded is returned unexpanded: the set
        of its elements is exact, its shape is not.
        """
        while (array := const_of(value)) is None:
            node = value.producer()
            if node is None or node.op_type not in ("Identity", "Reshape", "Transpose", "Expand"):
                return None
            source = node.inputs[0]
            if source is None:
                return None
            value = source
        return array

    def elements(self, value: oir.Value) -> np.ndarray | None:
        """The elements of a small integer or boolean value, in its shape, if they follow from
        constants. Unlike `constant` it also evaluates arithmetic."""
        return known_elements(value)

    def distinct_rows(self, value: oir.Value) -> bool:
        """Whether no two vectors along the last axis of an integer value can be equal."""
        return distinct_rows(value, self.int_range)

    def int_range(self, value: oir.Value) -> Range | None:
        """Inclusive bounds of an integer value's elements; None for other types.

        They are never wider than the type. Arithmetic that might wrap gives the range of the type.
        """
        if dtype_of(value) not in INTEGERS:
            return None
        return self._memo.ask(self._ranges, value, self._int_range)

    def truth(self, value: oir.Value) -> bool | None:
        """The one value of all elements of a boolean value, from constants and ranges of integers;
        None if it is unknown or they differ."""
        return self._memo.ask(self._truths, value, self._truth)

    def float_range(self, value: oir.Value) -> FloatRange:
        """Inclusive bounds of the elements of a float value that are not NaN."""
        return self._memo.ask(self._float_ranges, value, self._float_range)

    def steps(self, value: oir.Value) -> Steps | None:
        """The integers and the power of two whose exact products the elements of a float value
        are."""
        return self._memo.ask(self._steps, value, self._steps_of)

    def nan_free(self, value: oir.Value) -> bool:
        """Whether no element can be NaN, whatever the inputs are."""
        if dtype_of(value) not in FLOATS:
            return True
        return self._memo.ask(self._nan_free, value, self._is_nan_free)

    def finite(self, value: oir.Value) -> bool:
        """Whether no element of a float tensor is NaN or infinite."""
        bounds = self.float_range(value)
        return self.nan_free(value) and -math.inf < bounds.low and bounds.high < math.inf

    def _truth(self, value: oir.Value) -> bool | None:
        known = self.constant(value)
        if known is not None:
            return bool(known.flat[0]) if known.size and (known == known.flat[0]).all() else None
        node = value.producer()
        if node is None or dtype_of(value) != oir.DataType.BOOL:
            return None
        inputs = present(node.inputs)
        if node.op_type in MOVES_DATA:
            return self.truth(inputs[0])
        if node.op_type == "Not":
            answer = self.truth(inputs[0])
            return None if answer is None else not answer
        if node.op_type in ("And", "Or"):
            answers = {self.truth(x) for x in inputs}
            deciding = node.op_type == "Or"
            return deciding if deciding in answers else None if None in answers else not deciding
        if node.op_type == "Cast":
            bounds = self.int_range(inputs[0])
            if bounds is None:
                return None
            return None if bounds.low <= 0 <= bounds.high and any(bounds) else any(bounds)
        return decided(node, self.int_range)

    def _steps_of(self, value: oir.Value) -> Steps | None:
        return steps_of(value, self.constant, self.int_range, self.steps)

    def _follow(
        self,
        value: oir.Value,
        ask: Callable[[oir.Value], _T],
        unknown: _T,
        of_constant: Callable[[np.ndarray], _T],
        of_node: Callable[[oir.Node, list[oir.Value]], _T],
    ) -> _T:
        """Answers a question about the elements of a value that does not depend on their order.

        Args:
            ask: Asks the question about another value.
            unknown: The answer where nothing is proven.
            of_constant: The answer for a constant.
            of_node: The answer for the output of a node that does more than move data, from the
                node and its operands.
        """
        array = const_of(value)
        if array is not None:
            return of_constant(array) if array.size <= _FOLD_LIMIT else unknown
        node = value.producer()
        if node is None:
            return unknown
        inputs = present(node.inputs)
        return ask(inputs[0]) if node.op_type in MOVES_DATA else of_node(node, inputs)

    def _int_range(self, value: oir.Value) -> Range | None:
        told: Range | None = noted(value, RANGE)
        if told is not None:
            return told
        unknown: Range | None = range_of_type(dtype_of(value))
        return self._follow(
            value,
            self.int_range,
            unknown,
            lambda array: _range_of_numbers(array) or unknown,
            lambda node, _: range_of_node(node, value, self.int_range),
        )

    def _float_range(self, value: oir.Value) -> FloatRange:
        dtype = dtype_of(value)
        return self._follow(
            value,
            self.float_range,
            ANYTHING,
            range_of_numbers,
            lambda node, _: float_range_of_node(node, dtype, self.int_range, self.float_range),
        )

    def _is_nan_free(self, value: oir.Value) -> bool:
        return self._follow(
            value,
            self.nan_free,
            False,
            _has_no_nan,
            self._makes_no_nan,
        )

    def _makes_no_nan(self, node: oir.Node, inputs: list[oir.Value]) -> bool:
        if node.op_type == "Cast":
            dtype = dtype_of(node.outputs[0])
            if dtype in FLOATS and dtype not in _WITH_INFINITY:
                return False  # numbers beyond the range of such a type become NaN
            return dtype_of(inputs[0]) not in FLOATS or self.nan_free(inputs[0])
        if node.op_type in _KEEPS_NUMBERS:
            return all(map(self.nan_free, inputs))
        if node.op_type == "Where":
            is_number = self.nan_free(inputs[2]) or _is_nan_test(inputs[0], inputs[2])
            return is_number and self.nan_free(inputs[1])
        if node.op_type in _MAKES_NAN_OF_INFINITY:
            return all(map(self.finite, inputs))
        return False


def _has_no_nan(array: np.ndarray) -> bool:
    if array.size == 1:  # as mostly; numpy takes several times as long
        return not math.isnan(array.item())
    return not np.isnan(array.astype(np.float64)).any()


def _range_of_numbers(array: np.ndarray) -> Range | None:
    if array.size == 1:  # as mostly; numpy takes several times as long
        number = int(array.item())
        return Range(number, number)
    return Range(int(array.min()), int(array.max())) if array.size else None


def _is_nan_test(condition: oir.Value, x: oir.Value) -> bool:
    """Whether the condition is IsNaN(x)."""
    node = condition.producer()
    return node is not None and node.op_type == "IsNaN" and node.inputs[0] is x


_Answer = TypeVar("_Answer")

_DEEPEST = 32
"""Most questions that may be open at a time. Programs have chains of thousands of ops, but Python's
stack has a thousand frames."""


class _TooDeep(Exception):  # noqa: N818  (a detour, not an error)
    """A question must be answered before the one that led to it."""

    def __init__(self, question: _Question) -> None:
        super().__init__()
        self.question = question


class Memo:
    """Computes every answer once, however long the chain of questions is.

    If the chain gets too long, all open questions are dropped. The last one is answered first and
    then the first one again; its chain now ends there.
    """

    def __init__(self) -> None:
        self._open = 0

    def ask(
        self,
        table: dict[oir.Value, _Answer],
        value: oir.Value,
        compute: Callable[[oir.Value], _Answer],
    ) -> _Answer:
        """The answer about a value.

        Args:
            table: The answers so far.
            value: What is asked about.
            compute: Computes the answer and asks about other values through this method. It may be
                called more than once.
        """
        if value in table:
            return table[value]
        question = (table, value, compute)
        if self._open == _DEEPEST:
            raise _TooDeep(question)
        if self._open:
            self._answer(question)
            return table[value]
        pending: list[_Question] = [question]
        while pending:
            try:
                self._answer(pending[-1])
                pending.pop()
            except _TooDeep as deeper:
                pending.append(deeper.question)
        return table[value]

    def _answer(self, question: _Question) -> None:
        table, value, compute = question
        self._open += 1
        try:
            table[value] = compute(value)
        finally:
            self._open -= 1


_Question = tuple[dict[oir.Value, Any], oir.Value, Callable[[oir.Value], Any]]

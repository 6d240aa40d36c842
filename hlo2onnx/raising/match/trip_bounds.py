"""The limit of trips of a Loop whose condition compares a counter."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import (
    INTEGERS,
    const_number,
    const_of,
    dtype_of,
    origin,
    shape_of,
    size_of,
)
from hlo2onnx.raising.match.views import RESHAPES, maker_of, operands, source_of

_COMPARISONS = {"Less": 0, "LessOrEqual": 1}
_REVERSED = {"Greater": 0, "GreaterOrEqual": 1}
_COUNTING = frozenset({oir.DataType.DOUBLE, oir.DataType.FLOAT})
_EXACT = (1 << 24) - 1
"""These floats hold all integers up to one more."""


def conjuncts(condition: oir.Value) -> list[oir.Value]:
    """The values of one element that must all be true for another trip."""
    source = source_of(condition, "Identity", *RESHAPES)
    if source is not None:
        return conjuncts(source)
    node = maker_of(condition, "And")
    if node is None or any(size_of(x) != 1 for x in operands(node)):
        return [condition]
    return [part for x in operands(node) for part in conjuncts(x)]


def counts_up(state: oir.Value, after: oir.Value) -> bool:
    """Whether a trip adds 1 to a state."""
    node = maker_of(after, "Add")
    if node is None or shape_of(after) != shape_of(state):
        return False
    return any(
        x is state and const_number(one) == 1 for x, one in (operands(node), operands(node)[::-1])
    )


def limit_by(loop: oir.Node, condition: oir.Value) -> int | None:
    """The number of trips after which a comparison of a counter fails; None for other
    conditions."""
    body = loop.attributes["body"].as_graph()
    compare = maker_of(condition, *_COMPARISONS, *_REVERSED)
    if compare is None or compare.graph is not body:
        return None
    op_type = compare.op_type
    counter, limit = operands(compare)
    if op_type in _REVERSED:
        counter, limit = limit, counter
    for k, (state, after) in enumerate(zip(body.inputs[2:], body.outputs[1:], strict=False)):
        if origin(after) is not origin(counter):
            continue
        most, first = const_number(limit), _start(loop.inputs[2 + k])
        if most is None or first is None or not counts_up(state, origin(after)):
            return None
        if dtype_of(state) not in INTEGERS and not _is_exact(dtype_of(state), first, most):
            return None
        is_included = (_COMPARISONS | _REVERSED)[op_type]
        end = math.floor(most) + 1 if is_included else math.ceil(most)
        wraps = end > range_of_type(dtype_of(state)).high
        is_countable = end - int(first) <= range_of_type(oir.DataType.INT64).high
        return max(end - int(first), 1) if is_countable and not wraps else None
    return None


def _is_exact(dtype: oir.DataType, first: float, most: float) -> bool:
    """Whether a float counts from a number to another one without rounding."""
    return dtype in _COUNTING and first == round(first) and -_EXACT <= first <= most <= _EXACT


def _start(x: oir.Value | None) -> float | int | None:
    """The number that a counter starts from, the same in all lanes."""
    array = None if x is None else const_of(x)
    if array is None or array.size == 0 or array.dtype.kind not in "iuf":
        return None
    start: float | int = array.flat[0].item()
    return start if (array == start).all() else None

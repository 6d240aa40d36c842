"""Integer interval arithmetic over ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.graph.values import INTEGERS, dtype_of, shape_of


class Range(NamedTuple):
    """Inclusive bounds."""

    low: int
    high: int

    def within(self, low: int, high: int) -> bool:
        """Whether every value lies in [low, high]."""
        return low <= self.low and self.high <= high


RANGE = "hlo2onnx.range"
"""Key of `onnx_ir.Value.meta`: the `Range` of a subgraph input whose bounds its maker knows."""

RangeOf = Callable[[oir.Value], Range | None]


def range_of_type(dtype: oir.DataType) -> Range:
    """What an integer type can hold."""
    bits = dtype.bitwidth
    if dtype.name.startswith("U"):
        return Range(0, (1 << bits) - 1)
    return Range(-(1 << bits - 1), (1 << bits - 1) - 1)


def range_of_node(node: oir.Node, dtype: oir.DataType, range_of: RangeOf) -> Range:
    """Bounds of an integer node's output; the type's own range where nothing better is proven."""
    everything = range_of_type(dtype)
    operands = [range_of(x) for x in node.inputs if x is not None]
    found: Range | None = None
    if node.op_type in ("ArgMax", "ArgMin"):
        found = _arg_range(node)
    elif node.op_type == "Cast":
        found = _cast_range(node, operands)
    elif node.op_type == "Where" and operands[1] and operands[2]:
        branch = decided_branch(node, range_of)
        taken = [operands[1], operands[2]] if branch is None else [range_of(branch)]
        known = [operand for operand in taken if operand]
        found = Range(min(r.low for r in known), max(r.high for r in known))
    elif all(operand is not None for operand in operands) and operands:
        known = [operand for operand in operands if operand]
        found = _arithmetic(node.op_type, known) or _digits(node, known)
    # A result outside the type would have wrapped, so nothing is known about it.
    return found if found is not None and found.within(*everything) else everything


def _arithmetic(op_type: str, operands: list[Range]) -> Range | None:
    first = operands[0]
    if op_type == "Abs":
        high = max(abs(first.low), abs(first.high))
        return Range(
            0 if first.low <= 0 <= first.high else min(abs(first.low), abs(first.high)), high
        )
    if op_type == "Neg":
        return Range(-first.high, -first.low)
    if op_type == "Concat":
        return Range(min(r.low for r in operands), max(r.high for r in operands))
    if len(operands) == 3 and op_type == "Clip":
        _, least, most = operands
        return Range(
            min(max(first.low, least.low), most.low), min(max(first.high, least.high), most.high)
        )
    if len(operands) == 3 and op_type == "Range":
        _, limit, step = operands
        return Range(first.low, max(limit.high - 1, first.low)) if step.low > 0 else None
    if len(operands) != 2:
        return None
    second = operands[1]
    corners = [a * b for a in first for b in second]
    table = {
        "Add": Range(first.low + second.low, first.high + second.high),
        "Sub": Range(first.low - second.high, first.high - second.low),
        "Mul": Range(min(corners), max(corners)),
        "Max": Range(max(first.low, second.low), max(first.high, second.high)),
        "Min": Range(min(first.low, second.low), min(first.high, second.high)),
    }
    return table.get(op_type)


def _digits(node: oir.Node, operands: list[Range]) -> Range | None:
    """Division by positive numbers and operations on bits, of numbers that are not negative."""
    if len(operands) != 2:
        return None
    first, second = operands
    natural = [operand.high for operand in operands if operand.low >= 0]
    if node.op_type == "BitwiseAnd" and natural:
        return Range(0, min(natural))
    if len(natural) < 2:
        return None
    if node.op_type in ("BitwiseOr", "BitwiseXor"):
        return Range(0, (1 << max(natural).bit_length()) - 1)
    if node.op_type == "BitShift" and node.attributes.get_string("direction") == "RIGHT":
        return Range(first.low >> second.high, first.high >> second.low)
    if second.low == 0:
        return None
    if node.op_type == "Div":
        return Range(first.low // second.high, first.high // second.low)
    if node.op_type == "Mod":
        return Range(0, min(first.high, second.high - 1))
    return None


def _arg_range(node: oir.Node) -> Range | None:
    x = node.inputs[0]
    assert x is not None
    axis = node.attributes.get_int("axis", 0)
    dim = shape_of(x)[axis] if shape_of(x) else 1
    return Range(0, max(int(dim) - 1, 0)) if isinstance(dim, int) else None


def _cast_range(node: oir.Node, operands: list[Range | None]) -> Range | None:
    source = node.inputs[0]
    assert source is not None
    if dtype_of(source) == oir.DataType.BOOL:
        return Range(0, 1)
    return operands[0] if dtype_of(source) in INTEGERS else None


def decided_branch(node: oir.Node, range_of: RangeOf) -> oir.Value | None:
    """The operand that a Where always takes, where a comparison of ranges decides that."""
    condition, first, second = node.inputs
    compare = condition.producer() if condition is not None else None
    if compare is None or compare.op_type not in _DECIDE:
        return None
    ranges = [range_of(x) for x in compare.inputs if x is not None]
    if len(ranges) != 2 or ranges[0] is None or ranges[1] is None:
        return None
    always, never = _DECIDE[compare.op_type](ranges[0], ranges[1])
    return first if always else second if never else None


def _less(a: Range, b: Range) -> tuple[bool, bool]:
    return a.high < b.low, a.low >= b.high


def _less_or_equal(a: Range, b: Range) -> tuple[bool, bool]:
    return a.high <= b.low, a.low > b.high


_DECIDE: dict[str, Callable[[Range, Range], tuple[bool, bool]]] = {
    "Greater": lambda a, b: _less(b, a),
    "GreaterOrEqual": lambda a, b: _less_or_equal(b, a),
    "Less": _less,
    "LessOrEqual": _less_or_equal,
}
"""By comparison: whether it always holds, and whether it never does."""

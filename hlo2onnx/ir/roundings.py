"""Notes of half types on the values of a graph that computes them in f32.

They say which type a value has in the program, whether the model rounds it, and which roundings
stay because the program asks for exactly these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_number, const_of, dtype_of

HALF_TYPES = frozenset({oir.DataType.BFLOAT16, oir.DataType.FLOAT16})

_EXACT = frozenset(
    {"Abs", "Clip", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather",
     "GatherElements", "GatherND", "Identity", "If", "Loop", "Max", "MaxPool", "Min", "Neg", "Pad",
     "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Scan", "ScatterElements",
     "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose",
     "Trilu", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators that do not round: each element of the result is one of an operand, up to its sign."""

_SELECTING = frozenset({"none", "max", "min"})
"""Reductions of updates that do not round, unlike sums and products."""

_KEPT = "hlo2onnx.kept_rounding"
_UNROUNDED = "hlo2onnx.unrounded"
_HALF_TYPE = "hlo2onnx.half_type"
_HALF_CONSTANTS = "hlo2onnx.half_constants"
_HALF_NUMBERS = "hlo2onnx.half_numbers"


def keep_rounding(value: oir.Value) -> oir.Value:
    """Notes that a Cast makes this value of a rounded number, or rounds, also if others do not.

    Examples are reduce_precision, and numbers that become integers or are sorted.
    """
    value.meta[_KEPT] = True
    return value


def is_kept(value: oir.Value) -> bool:
    """Whether `keep_rounding` noted the value."""
    return _KEPT in value.meta


def is_exact(node: oir.Node) -> bool:
    """Whether a node does not round: the elements of its results are those of its operands."""
    return node.op_type in _EXACT and node.attributes.get_string("reduction", "none") in _SELECTING


def note_half_type(value: oir.Value, dtype: oir.DataType) -> None:
    """Notes the half type that an f32 value has in the program."""
    value.meta[_HALF_TYPE] = dtype


def note_left_out(node: oir.Node) -> None:
    """Notes that the program rounds the result of a node to a half type, and the model does not."""
    node.meta[_UNROUNDED] = True


def merges_unrounded(made: Iterable[oir.Node], replaced: Iterable[oir.Node]) -> bool:
    """Whether a rewrite merges several nodes that `note_left_out` noted; notes those in their
    place."""
    unrounded = sum(_UNROUNDED in node.meta for node in replaced)
    if unrounded:
        for node in made:
            if not is_exact(node):
                note_left_out(node)
    return unrounded > 1


def half_type(value: oir.Value) -> oir.DataType | None:
    """The half type that an f32 value has in the program; None for others."""
    found: oir.DataType | None = value.meta.get(_HALF_TYPE)
    return found


def note_half_constant(graph: oir.Graph, value: oir.Value, is_approximate: bool) -> None:
    """Notes that a graph has a constant of a half type.

    Args:
        is_approximate: Whether it also stands for the numbers that round to it.
    """
    array, dtype = const_of(value), dtype_of(value)
    if array is None:
        return
    graph.meta.setdefault(_HALF_CONSTANTS, set()).add(dtype)
    if is_approximate and array.size == 1:
        numbers: dict[float, set[oir.DataType]] = graph.meta.setdefault(_HALF_NUMBERS, {})
        numbers.setdefault(abs(float(array.reshape(()))), set()).add(dtype)


def half_constants(graph: oir.Graph) -> frozenset[oir.DataType]:
    """The half types of constants that `note_half_constant` noted."""
    return frozenset(graph.meta.get(_HALF_CONSTANTS, ()))


def is_rounding_of(value: oir.Value, number: float) -> bool:
    """Whether a constant is a number that the program has in a half type, to which it rounds.

    The constant may be its negative. False in models that keep the roundings of half types.
    """
    found = const_number(value)
    if found is None or value.graph is None:
        return False
    known: Mapping[float, set[oir.DataType]] = value.graph.meta.get(_HALF_NUMBERS, {})
    return any(
        float(np.asarray(number).astype(dtype.numpy())) == found
        for dtype in known.get(abs(float(found)), ())
    )

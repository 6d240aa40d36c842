"""Casts: detours for pairs without a kernel, and the removal of pairs that cancel."""

from __future__ import annotations

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import FLOATS, INTEGERS, dtype_of, present
from hlo2onnx.targets.builder import TargetBuilder

T = oir.DataType

_DETOURS = (T.INT32, T.INT64, T.UINT8, T.FLOAT, T.DOUBLE)


def holds(wide: oir.DataType, narrow: oir.DataType) -> bool:
    """Whether every value of `narrow`, NaN and infinities included, is exact in `wide`."""
    if wide == narrow:
        return True
    if narrow == T.BOOL:
        return wide in INTEGERS or wide in (T.FLOAT, T.DOUBLE)
    if narrow in INTEGERS:
        held = ml_dtypes.iinfo(narrow.numpy())
        if wide in INTEGERS:
            room = ml_dtypes.iinfo(wide.numpy())
            return bool(room.min <= held.min and room.max >= held.max)
        bits = int(held.max).bit_length()
        has_room = wide in FLOATS and wide != T.FLOAT8E8M0  # which has no 0
        return has_room and min(_format(wide)[::2]) >= bits
    if wide not in FLOATS or narrow not in FLOATS or wide.bitwidth <= narrow.bitwidth:
        return False
    (digits, low, high), (least, lowest, highest) = _format(wide), _format(narrow)
    # subnormals of the narrow type must be exact too
    return digits >= least and low - digits <= lowest - least and high >= highest


def _format(dtype: oir.DataType) -> tuple[int, int, int]:
    """Bits of the significand, with the hidden one, and the exponents of the smallest and the
    largest normal number."""
    info = ml_dtypes.finfo(dtype.numpy())
    return info.nmant + 1, info.minexp, info.maxexp - 1


def cast_through(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """A Cast without a kernel as two, through a type that gives the same result; None if there is
    none."""
    source, result = _ends(node)
    if b.target.flags.narrows_f64 and T.DOUBLE in (source, result):
        return None
    for detour in _DETOURS:
        if (
            detour not in (source, result)
            and _leads_through(detour, source, result)
            and b.target.supports_cast(source, detour, b.opset)
            and b.target.supports_cast(detour, result, b.opset)
        ):
            return b.cast(b.cast(present(node.inputs)[0], detour), result)
    return None


def _leads_through(detour: oir.DataType, source: oir.DataType, result: oir.DataType) -> bool:
    """Whether a Cast through `detour` gives the same result. Either it holds every value of the
    source, so that only the second cast rounds or wraps around, or all are integers, and it is at
    least as wide as the result. Or the source is a float and
    `detour` an integer type that holds every value of the result: the first cast truncates (ONNX
    defines no result for floats outside the range)."""
    if source in FLOATS and detour not in FLOATS:
        return result in INTEGERS and holds(detour, result)
    if {source, detour, result} <= INTEGERS and _wraps_into(detour, result):
        return True
    return holds(detour, source)


def _wraps_into(wide: oir.DataType, narrow: oir.DataType) -> bool:
    """Whether an integer that wrapped around in one type wraps around in the other one as if it had
    not."""
    return wide.bitwidth >= narrow.bitwidth


def _ends(node: oir.Node) -> tuple[oir.DataType, oir.DataType]:
    x = present(node.inputs)[0]
    return dtype_of(x), dtype_of(node.outputs[0])


def collapse_casts(graph: oir.Graph) -> int:
    """Removes pairs of Casts that change nothing; returns how many.

    Cast(Cast(x: a -> b) -> a) -> x when b holds every value of a (widen and back), or when both are
    integers and b is as wide. A pair that narrows first is a rounding and stays.
    """
    count = 0
    for node in all_nodes(graph):
        middle = node.inputs[0] if node.op_type == "Cast" and node.graph is not None else None
        inner = middle.producer() if middle is not None else None
        if inner is None or inner.op_type != "Cast":
            continue
        (origin,), (between, result) = present(inner.inputs), _ends(node)
        is_whole = {between, result} <= INTEGERS and _wraps_into(between, result)
        is_same = dtype_of(origin) == result and (is_whole or holds(between, result))
        if is_same and can_replace(node.outputs[0], origin):
            replace(node, [origin])
            count += 1
    return count

"""In which other element types an operator gives the same bits, which operands share them, and the
Casts to them: two Casts for one without a kernel, and the removal of pairs that cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.op_families import schema_of
from hlo2onnx.ir.replace import can_replace, remove_unused, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import FLOATS, INTEGERS, attributes_of, const_of, dtype_of, present
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.target import MAIN_PARAMETER, main_dtype, parameter

T = oir.DataType

MOVES = frozenset(
    {"Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements",
     "GatherND", "Identity", "OneHot", "Pad", "Reshape", "ReverseSequence", "ScatterElements",
     "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile",
     "Transpose", "Trilu", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators that only move elements: any type that holds the bits is right. (A scatter may also add
or multiply, which wraps around, or compare, see `_COMPARES`.)"""

_COMPARES = ("[max]", "[min]")
"""Ends of the keys of scatters that depend on the order of elements."""

WRAPS = frozenset(
    {"Add", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CumSum", "Einsum", "MatMul",
     "Mul", "Neg", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Sub", "Sum"}
)  # fmt: skip
"""Integer operators whose low bits depend only on the operands' low bits: they may run in any type
at least as wide, and the cast back wraps around. (The target must have a kernel that wraps around
in the carrier.)"""

EXACT_IN_HALF = frozenset(
    {"BitCast", "Cast", "Clip", "Compress", "Concat", "Constant", "Expand", "Flatten", "Gather",
     "GatherElements", "GatherND", "Identity", "IsInf", "Max", "Min", "Reshape", "ReverseSequence",
     "Round", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice", "Split", "Squeeze",
     "TensorScatter", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators that never round and have f16 kernels. ONNX Runtime runs others that never round, such
as Where and Equal, in f32 with Casts of its own. It cancels these against Casts from f32 before and
to f32 after them: a rounding is lost, and x * y does not equal itself."""

_BELOW_A_BYTE = {
    T.INT2: (T.INT8, T.INT32, T.INT64),
    T.UINT2: (T.UINT8, T.INT32, T.INT64),
    T.INT4: (T.INT8, T.INT32, T.INT64),
    T.UINT4: (T.UINT8, T.INT32, T.INT64),
}

_SAME_WIDTH_FIRST = _BELOW_A_BYTE | {
    T.BOOL: (T.UINT8, T.INT8, T.INT32, T.INT64),
    T.INT8: (T.UINT8, T.INT32, T.INT64),
    T.UINT8: (T.INT8, T.INT32, T.INT64),
    T.INT16: (T.UINT16, T.INT32, T.INT64),
    T.UINT16: (T.INT16, T.INT32, T.INT64),
    T.INT32: (T.UINT32, T.INT64),
    T.UINT32: (T.INT32, T.UINT64, T.INT64),
    T.INT64: (T.UINT64,),
    T.UINT64: (T.INT64,),
}
"""Integer types that keep all bits of a type; casts between them wrap."""

_WIDER = _BELOW_A_BYTE | {
    T.BOOL: (T.UINT8, T.INT32, T.INT64),
    T.INT8: (T.INT32, T.INT64),
    T.UINT8: (T.INT32, T.INT64, T.UINT32),
    T.INT16: (T.INT32, T.INT64),
    T.UINT16: (T.INT32, T.INT64, T.UINT32),
    T.INT32: (T.INT64,),
    T.UINT32: (T.INT64, T.UINT64),
}
"""Integer types that keep all values of a type."""


def carriers_of(op_key: str, dtype: oir.DataType) -> Sequence[oir.DataType]:
    """Types an operator may run in instead of `dtype`, cheapest first.

    Floats below f32 go through f32 and are rounded once, as by XLA on the CPU. f32 and f64 have no
    carrier: a wider type rounds differently, a narrower one loses digits, and an integer type would
    need a bit cast.
    """
    if dtype in FLOATS:
        return (T.FLOAT,) if dtype.bitwidth < 32 else ()
    if dtype not in INTEGERS and dtype != T.BOOL:
        return ()
    op_type = op_key.partition("[")[0]
    moves = op_type in MOVES and not op_key.endswith(_COMPARES)
    if moves or (op_type in WRAPS and dtype != T.BOOL):
        return _SAME_WIDTH_FIRST.get(dtype, ())
    wider = _WIDER.get(dtype, ())
    is_exact_in_f64 = op_type in ("ArgMax", "ArgMin") and dtype.bitwidth <= 32
    return (*wider, T.DOUBLE) if is_exact_in_f64 else wider


# -- operand types ---------------------------------------------------------------------------------

# Which operands and results of an operator share the element type that is being carried.


def _main_variable(schema: Any) -> str:
    return str(parameter(schema, MAIN_PARAMETER.get(schema.name, 0)).type_str)


def _variables(values: Sequence[Any], parameters: Sequence[Any]) -> list[str]:
    """The type variable of each of these inputs or outputs; the last parameter may be repeated."""
    last = len(parameters) - 1
    return [str(parameters[min(index, last)].type_str) for index in range(len(values))]


def apart_from_outputs(node: oir.Node, position: int, opset: int) -> list[int]:
    """Positions of the inputs that share the type variable of the input at `position`; none if the
    variable is also that of an output, or the operator's main one."""
    schema = schema_of(node.op_type, opset)
    variables = [str(parameter.type_str) for parameter in schema.inputs]
    variable = variables[position]
    if variable in {_main_variable(schema), *(str(result.type_str) for result in schema.outputs)}:
        return []
    present = zip(variables, node.inputs, strict=False)
    return [at for at, (other, x) in enumerate(present) if other == variable and x is not None]


def carried(node: oir.Node, opset: int) -> tuple[list[int], list[int]]:
    """Positions of the inputs and of the outputs that change type when the node is carried: those
    of the main type variable, and floats of the same type under another variable (the exponent of
    Pow, the scale of BatchNormalization), which no kernel takes with a wider main operand."""
    schema, dtype = schema_of(node.op_type, opset), main_dtype(node)
    inputs = _variables(node.inputs, schema.inputs)
    outputs = _variables(node.outputs, schema.outputs)
    moved = {_main_variable(schema)}
    if dtype in FLOATS:
        pairs = zip(inputs, node.inputs, strict=True)
        moved |= {variable for variable, x in pairs if x is not None and x.dtype == dtype}
    found = [[at for at, name in enumerate(names) if name in moved] for names in (inputs, outputs)]
    return found[0], found[1]


# -- casts -----------------------------------------------------------------------------------------


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


def cast_tables(graph: oir.Graph, b: TargetBuilder) -> None:
    """Cast(Gather(constant, i)) -> Gather(Cast(constant), i), in place, where the target has no
    such Cast."""
    for node in list(all_nodes(graph)):
        gather = present(node.inputs)[0].producer() if node.op_type == "Cast" else None
        table = const_of(gather.inputs[0]) if gather is not None and gather.inputs else None
        if table is None or gather is None or gather.op_type != "Gather":
            continue
        source, result = _ends(node)
        is_integer = {source, result} <= INTEGERS
        if is_integer and not b.target.supports_cast(source, result, b.opset):
            with b.before(node):
                made = b.const(table.astype(result.numpy()))
                axis = attributes_of(gather).get("axis", 0)
                replace(node, [b.Gather(made, gather.inputs[1], axis=axis)])
    remove_unused(graph)


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
    """Whether wrapping around in the first type does not change the result of wrapping in the
    second."""
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

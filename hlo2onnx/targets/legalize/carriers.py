"""In which other element types an operator gives the same bits, and which operands share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.op_families import schema_of
from hlo2onnx.ir.values import FLOATS, INTEGERS
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
    return _WIDER.get(dtype, ())


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

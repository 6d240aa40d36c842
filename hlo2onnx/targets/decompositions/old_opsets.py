"""Operators on bits, and scatters of extremes, for opsets without them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import UNSIGNED, dtype_of, present, rank_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder

# -- bitwise ---------------------------------------------------------------------------------------

# BitwiseAnd, BitwiseOr, BitwiseXor and BitwiseNot, for opsets without them.
#
# Two bytes make an index into a table of 65,536 results. Words of 4 or 8 bytes are cut into bytes.


T = oir.DataType

_FUNCTIONS = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def decompose_bitwise(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """The output of a node of one of the four operators, on integers of 8 to 64 bits."""
    operands = present(node.inputs)
    dtype = dtype_of(operands[0])
    if node.op_type == "BitwiseNot":  # the largest unsigned number, or -1, minus x
        ones = np.iinfo(dtype.numpy()).max if dtype in UNSIGNED else -1
        return b.Sub(b.scalar(ones, dtype), operands[0])
    word = _word(dtype)
    first, second = (b.cast(x, word) for x in operands)
    table = b.const(_table(node.op_type))
    if word == T.UINT8:
        return b.cast(_looked_up(b, table, first, second), dtype)
    count = word.bitwidth // 8
    shifts = b.const(np.arange(count) * 8, word)
    parts = [
        b.cast(b.BitShift(b.unsqueeze(x, [rank_of(x)]), shifts, direction="RIGHT"), T.UINT8)
        for x in (first, second)
    ]
    # f64 holds words of 4 bytes.
    in_f64 = word == T.UINT32 and not b.supports("MatMul", T.INT64) and b.has_f64
    wide = T.DOUBLE if in_f64 else T.INT64
    results = b.cast(_looked_up(b, table, *parts), wide)
    weights = b.const(np.array([[1 << 8 * index] for index in range(count)]), wide)
    dims = shape_of(node.outputs[0])
    joined = b.op("MatMul", results, weights, types=[(wide, (*dims, 1))])
    # A node between two Casts, which ONNX Runtime would make one: it saturates.
    return b.cast(b.squeeze(b.cast(joined, T.INT64), [len(dims)]), dtype)


@cache
def _table(op_type: str) -> np.ndarray:
    """The results for all pairs of bytes. One array, so that a model has it once."""
    byte = np.arange(256, dtype=np.uint8)
    return _FUNCTIONS[op_type](byte[:, None], byte).reshape(-1)


def _word(dtype: oir.DataType) -> oir.DataType:
    """An unsigned type that holds the bits and that BitShift takes."""
    return {8: T.UINT8, 64: T.UINT64}.get(dtype.bitwidth, T.UINT32)


def _looked_up(b: GraphBuilder, table: oir.Value, first: oir.Value, second: oir.Value) -> oir.Value:
    """The results for two tensors of bytes."""
    row, column = (b.cast(x, T.INT32) for x in (first, second))
    index = b.Add(b.Mul(row, b.scalar(256, T.INT32)), column)
    return b.Gather(table, index, axis=0)


# -- scatter extremes ------------------------------------------------------------------------------

# ScatterElements and ScatterND that keep the largest or smallest, for opsets without them.


def decompose_scatter_extreme(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """The node's output, from a Loop over updates: those of one trip have different targets.

    A trip reads the elements, and writes their maximum or minimum with the updates. NaN stays, as
    in Max and Min.
    """
    data, index, updates = present(node.inputs)
    if node.op_type == "ScatterND":
        axis, take = 0, "GatherND"
        put: dict[str, Any] = {}
        *before, depth = shape_of(index)
        index = b.reshape(index, (product(before), depth))
        updates = b.reshape(updates, (product(before), *shape_of(updates)[len(before) :]))
    else:
        axis = node.attributes.get_int("axis", 0) % rank_of(data)
        take, put = "GatherElements", {"axis": axis}
    extreme = "Max" if node.attributes.get_string("reduction", "") == "max" else "Min"
    types = [(dtype_of(data), shape_of(data))]
    trip, going = b.value("trip", T.INT64, []), b.value("going", T.BOOL, [])
    state = b.value("scattered", *types[0])
    with b.subgraph([trip, going, state], "scatter") as body:
        at = b.unsqueeze(trip, [0])
        places, new = (b.Gather(x, at, axis=axis) for x in (index, updates))
        old = b.op(take, state, places, types=[(dtype_of(new), shape_of(new))], **put)
        written = b.op(node.op_type, state, places, b.op(extreme, old, new), types=types, **put)
        body.outputs.extend([b.Identity(going), written])
    trips = b.squeeze(b.Shape(index, start=axis, end=axis + 1), [0])
    return b.op("Loop", trips, None, data, types=types, body=body)

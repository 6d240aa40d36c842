"""Half floats that are moved in f32, or rounded one by one."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.notes import HALF_TYPES
from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.target import node_key

T = oir.DataType

_ONE_OPERAND = frozenset(
    {"Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Squeeze", "Tile",
     "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Moves of the elements of one operand that have one result."""


def move_in_half(builder: TargetBuilder) -> None:
    """Moves half floats as they are, in place of the same numbers in f32: Cast(Transpose(Cast(x)))
    -> Transpose(x). The operands of a Concat are rounded after it, all at once."""
    for node in all_nodes(builder.main_graph):
        if node.graph is None or node.domain:
            continue
        if node.op_type == "Cast":
            _moved_in_half(node, builder)
        elif node.op_type == "Concat":
            _rounded_after(node, builder)


def _moved_in_half(node: oir.Node, builder: TargetBuilder) -> None:
    half, moves, x = dtype_of(node.outputs[0]), list[oir.Node](), node.inputs[0]
    if half not in HALF_TYPES:
        return
    while x is not None and len(x.uses()) == 1 and not x.is_graph_output():
        maker = x.producer()
        if maker is None or maker.op_type not in _ONE_OPERAND or maker.domain:
            break
        moves.append(maker)
        x = maker.inputs[0]
    wide = None if x is None else x.producer()
    if not moves or wide is None or wide.op_type != "Cast":
        return
    value = wide.inputs[0]
    assert value is not None
    is_supported = all(builder.supports(node_key(move), half) for move in moves)
    if dtype_of(value) != half or not is_supported:
        return
    with builder.before(node):
        for move in reversed(moves):
            types = [(half, shape_of(move.outputs[0]))]
            value = builder.like(move, [value, *move.inputs[1:]], types)
    if can_replace(node.outputs[0], value):
        replace(node, [value])


def _rounded_after(node: oir.Node, builder: TargetBuilder) -> None:
    """Concat of rounded numbers -> a rounded Concat, if nothing else reads the rounded numbers."""
    parts = [_rounded(x) for x in node.inputs]
    found = [part for part in parts if part is not None]
    if len(found) < max(len(parts), 2) or len({half for _, half in found}) > 1:
        return
    with builder.before(node):
        joined = builder.like(node, [x for x, _ in found], [_type_of(node.outputs[0])])
        value = builder.cast(builder.cast(joined, found[0][1]), T.FLOAT)
    if can_replace(node.outputs[0], value):
        replace(node, [value])


def _type_of(value: oir.Value) -> ValueType:
    return dtype_of(value), shape_of(value)


def _rounded(x: oir.Value | None) -> tuple[oir.Value, oir.DataType] | None:
    """x and the half type for Cast(Cast(x)) from f32 to the half type and back.

    Returns:
        None for other values, and if either Cast has several readers.
    """
    types = []
    for _ in range(2):
        node = None if x is None else x.producer()
        if x is None or node is None or node.op_type != "Cast" or len(x.uses()) != 1:
            return None
        types.append(dtype_of(x))
        x = node.inputs[0]
    if x is None or types[0] != T.FLOAT or types[1] not in HALF_TYPES or dtype_of(x) != T.FLOAT:
        return None
    return x, types[1]

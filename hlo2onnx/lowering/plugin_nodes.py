"""Checks of the nodes that a plug-in's handler made.

hlo2onnx's own handlers are tested. A wrong node of another handler would fail only later, in a rule
or in the runtime, with an error that does not name the handler.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import onnx
import onnx_ir as oir

from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.ir.op_families import schema_of
from hlo2onnx.ir.type_inference import RULES, infer
from hlo2onnx.ir.values import attributes_of


def check_nodes(nodes: Iterable[oir.Node], opset: int) -> None:
    """Checks nodes of ONNX's own domain against the standard, and their types against its rules.

    Raises:
        UnsupportedOp: A node is not valid in this opset.
    """
    for node in nodes:
        if not node.domain:
            schema = _schema(node.op_type, opset)
            _check_attributes(node, schema)
            _check_counts(node, schema)
            _check_types(node)
            _write_out(node)


def _write_out(node: oir.Node) -> None:
    """Adds the default permutation of a Transpose, because all rules read the attribute."""
    if node.op_type == "Transpose" and "perm" not in node.attributes:
        assert node.outputs[0].shape is not None
        perm = range(len(node.outputs[0].shape))[::-1]
        node.attributes["perm"] = oir.AttrInt64s("perm", list(perm))


def _schema(op_type: str, opset: int) -> onnx.defs.OpSchema:
    try:
        schema = schema_of(op_type, opset)
    except onnx.defs.SchemaError:
        schema = None
    if schema is not None and not schema.deprecated:
        return schema
    names = [item.name for item in onnx.defs.get_all_schemas() if not item.domain]
    close = difflib.get_close_matches(op_type, names, 1)
    meant = f"use {close[0]}" if close and close[0] != op_type else "use another operator"
    raise UnsupportedOp(
        f"made a node {op_type}, an operator that opset {opset} of ONNX does not have",
        f"{meant}; pass domain= for an operator of another domain",
    )


def _check_attributes(node: oir.Node, schema: onnx.defs.OpSchema) -> None:
    known = schema.attributes
    for name, given in node.attributes.items():
        if name not in known:
            raise UnsupportedOp(
                f"made a node {node.op_type} with the attribute {name}, which it does not have",
                f"its attributes are {', '.join(known) or 'none'}",
            )
        wanted = known[name].type.name
        if given.type.name != wanted:
            raise UnsupportedOp(
                f"made a node {node.op_type} with the attribute {name} = {given.value!r}, which"
                f" has the type {given.type.name}",
                f"give a value of the type {wanted}",
            )
    missing = [name for name in known if known[name].required and name not in node.attributes]
    if missing:
        raise UnsupportedOp(
            f"made a node {node.op_type} without the attribute {', '.join(missing)}",
            "give the attributes that the operator requires",
        )


def _check_counts(node: oir.Node, schema: onnx.defs.OpSchema) -> None:
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    required = [place for place, item in enumerate(schema.inputs) if item.option == single]
    lacks = len(node.inputs) < schema.min_input or any(_lacks(node, place) for place in required)
    if lacks or len(node.inputs) > schema.max_input:
        given = sum(x is not None for x in node.inputs)
        bounds = _range(schema.min_input, schema.max_input)
        raise UnsupportedOp(
            f"made a node {node.op_type} with {given} operand{'s' if given != 1 else ''}",
            f"give it {bounds} operands; pass None for an optional operand that is left out",
        )
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        raise UnsupportedOp(
            f"made a node {node.op_type} with {len(node.outputs)} outputs",
            f"it has {_range(schema.min_output, schema.max_output)}: em.outputs(n_outputs=...)",
        )


_ANY = 1000
"""Schemas give variadic operators a larger number than this."""


def _range(least: int, most: int) -> str:
    if most > _ANY:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"


def _lacks(node: oir.Node, position: int) -> bool:
    return position >= len(node.inputs) or node.inputs[position] is None


def _check_types(node: oir.Node) -> None:
    """Compares the types of a node's outputs, which `types=` can give, with the inferred ones."""
    if node.op_type not in RULES:
        return
    try:
        inferred = infer(node.op_type, node.inputs, attributes_of(node), len(node.outputs))
    except InternalError:  # made with types=, because the rule does not know them
        return
    for output, (dtype, shape) in zip(node.outputs, inferred, strict=False):
        assert output.shape is not None
        pairs = list(zip(output.shape, shape, strict=False))
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if output.dtype != dtype or len(output.shape) != len(shape) or differs:
            raise UnsupportedOp(
                f"made a node {node.op_type} of the type {output.dtype}{output.shape}, but it"
                f" computes {dtype}{oir.Shape(shape)}",
                "give it other operands or attributes; without types= hlo2onnx infers its type",
            )

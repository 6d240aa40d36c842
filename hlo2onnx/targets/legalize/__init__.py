"""Legalization: makes every node one that the target can run.

For a node without a kernel: a decomposition, where one is listed; else casts to the cheapest
carrier type in which the operator gives the same bits, and back. Then casts that cancel exactly
are removed.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.errors import Refusal, TranslationError
from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.edit import all_nodes, remove_unused, replace
from hlo2onnx.graph.infer import ValueType
from hlo2onnx.graph.values import dtype_of, shape_of
from hlo2onnx.report import Report
from hlo2onnx.targets.decompositions import DECOMPOSITIONS
from hlo2onnx.targets.legalize.carriers import EXACT_IN_HALF, carriers_of
from hlo2onnx.targets.legalize.casts import cast_path, cast_through, collapse_casts
from hlo2onnx.targets.legalize.schema import carried_inputs, carried_outputs
from hlo2onnx.targets.target import Target, main_dtype, node_key

__all__ = ["legalize"]

_STRUCTURAL = frozenset({"Constant", "If", "Loop", "Scan"})
"""Operators that carry every type; what is inside them is legalized on its own."""


def legalize(model: oir.Model, target: Target, half: str, report: Report) -> None:
    """Casts or decomposes, in place, the nodes that the target has no kernel for.

    Args:
        half: "xla" or "fast", see `hlo2onnx.options.Options.half`.

    Raises:
        TranslationError: The target can run an operator on a type in no way; all of them.
    """
    opset = model.graph.opset_imports[""]
    builder = GraphBuilder(model.graph, opset)
    builder.adopt(model.graph)
    refusals = []
    pending = list(all_nodes(model.graph))
    while pending:
        made: list[oir.Node] = []
        for node in pending:
            if node.domain or node.op_type in _STRUCTURAL or _runs(node, target, opset, half):
                continue
            builder.made.clear()
            if _decompose(node, builder) or _carry(node, builder, target, report):
                made += builder.made
            else:
                refusals.append(_refusal(node, target))
        pending = made
    if refusals:
        raise TranslationError(refusals)
    collapse_casts(model.graph, opset)
    remove_unused(model.graph)


def _runs(node: oir.Node, target: Target, opset: int, half: str) -> bool:
    """Whether the node can stay as it is.

    The runtime's own f16 kernels skip roundings between ops, so that f16 arithmetic goes through
    f32 and an explicit rounding, as bf16 does, unless `half` is "fast".
    """
    if node.op_type == "Cast":
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None and source.dtype is not None and result.dtype is not None
        return target.supports_cast(source.dtype, result.dtype, opset)
    dtype = main_dtype(node)
    if dtype == oir.DataType.FLOAT16 and half != "fast" and node.op_type not in EXACT_IN_HALF:
        return False
    return dtype is None or target.supports(node_key(node), dtype, opset)


def _decompose(node: oir.Node, builder: GraphBuilder) -> bool:
    dtype = main_dtype(node)
    assert dtype is not None
    decompose = DECOMPOSITIONS.get((node.op_type, dtype))
    if decompose is None:
        return False
    with builder.before(node):
        value = decompose(builder, node)
    replace(node, [value])
    return True


def _carry(node: oir.Node, builder: GraphBuilder, target: Target, report: Report) -> bool:
    """Runs the node in a carrier type; False when there is none."""
    if node.op_type == "Cast":
        path = cast_path(node, target, builder.opset)
        if path is not None:
            cast_through(node, path, builder)
        return path is not None
    dtype = main_dtype(node)
    assert dtype is not None
    key = node_key(node)
    for carrier in carriers_of(node.op_type, dtype):
        if target.supports(key, carrier, builder.opset):
            replacement = _in_carrier(node, dtype, carrier, builder)
            report.casts[f"{node.op_type} {dtype.short_name()}"] += replacement
            return True
    return False


def _in_carrier(
    node: oir.Node, dtype: oir.DataType, carrier: oir.DataType, builder: GraphBuilder
) -> int:
    """Replaces the node by casts, the node in the carrier type, and casts back; returns how many
    casts that took."""
    inputs = list(node.inputs)
    before = len(builder.made)
    with builder.before(node):
        for index in carried_inputs(node, builder.opset):
            x = inputs[index]
            if x is not None and dtype_of(x) == dtype:
                inputs[index] = builder.cast(x, carrier)
        carried = carried_outputs(node, builder.opset)
        types: list[ValueType] = [
            (carrier if index in carried else dtype_of(value), shape_of(value))
            for index, value in enumerate(node.outputs)
        ]
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        made = builder.op(node.op_type, *inputs, n_outputs=len(types), types=types, **attributes)
        values = [made] if len(types) == 1 else list(made)
        values = [builder.cast(x, dtype_of(y)) for x, y in zip(values, node.outputs, strict=True)]
    replace(node, values)
    return sum(new.op_type == "Cast" for new in builder.made[before:])


def _refusal(node: oir.Node, target: Target) -> Refusal:
    types = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in node.inputs)
    source = node.metadata_props.get("jax.source", "")
    return Refusal(
        node.op_type,
        f"({types})",
        f"{source}  {node.name}".strip(),
        f"{target.name} has no kernel for it in this type, and no exact detour is known",
        "convert to another element type before this op, or translate with target='onnx'",
    )

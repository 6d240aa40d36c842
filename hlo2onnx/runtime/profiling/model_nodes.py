"""The nodes of a model, for a profile."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.notes import common_callers, scope_of
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.runtime.profiling.optimized_nodes import ModelNode


def model_nodes(model: oir.Model) -> list[ModelNode]:
    """Every node of the model, with those of bodies and functions.

    The scope of a node in a function begins with that of the first call of the function.
    """
    within = [("", node) for node in all_nodes(model.graph)]
    for function in model.functions.values():
        within += [(function.name, node) for node in all_nodes(function.graph)]
    callers = common_callers(node.metadata_props for function, node in within if not function)
    calls = {node.op_type: item for item in reversed(within) if _calls(model, node := item[1])}

    def scope(function: str, node: oir.Node) -> tuple[str, ...]:
        own = scope_of(str(node.name), node.metadata_props, callers)
        if function not in calls:
            return own
        outer = scope(*calls[function])
        inner = own[len(outer) :] if own[: len(outer)] == outer else own
        return (*outer, *(inner if function in inner else (function, *inner)))

    return [
        ModelNode(
            str(node.name),
            tuple(str(value.name) for value in node.outputs),
            scope(function, node),
            node.metadata_props.get("jax.source", ""),
            function,
        )
        for function, node in within
    ]


def _calls(model: oir.Model, node: oir.Node) -> bool:
    """Whether a node calls a function of the model."""
    return (node.domain, node.op_type, node.overload) in model.functions

"""The oldest opset that a model can have without a loss."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.frontend.mlir.types import TYPE_OPSETS
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.targets.legalize.older_opsets import first_opset, misfit
from hlo2onnx.targets.target import Target, main_dtype, node_key, node_pairs


def oldest_opset(graphs: Sequence[oir.Graph], target: Target, newest: int) -> tuple[int, str]:
    """The oldest opset, from the target's default on, in which the nodes mean the same and have all
    kernels that they have in the newest one.

    Args:
        graphs: Those of a model, in the form of the newest opset.

    Returns:
        The opset, and the operators and types that the default opset lacks, as a text; "" for the
        default.
    """
    nodes = _of_each_kind(graphs)
    types = _types(graphs)
    needs: dict[str, None] = {}
    for opset in range(target.default_opset, newest):
        lost = [node_key(node) for node in nodes if _is_lost(node, target, opset, newest)]
        lost += [x.name for x in types if _is_newer_type(x, target, opset, newest)]
        if not lost:
            return opset, ", ".join(needs)
        needs.update(dict.fromkeys(lost))
    return newest, ", ".join(needs)


def _of_each_kind(graphs: Sequence[oir.Graph]) -> list[oir.Node]:
    """ONNX's own nodes, one of each kind: `_is_lost` gives the same answer for all of a kind."""
    kinds: dict[tuple[object, ...], oir.Node] = {}
    for graph in graphs:
        for node in all_nodes(graph):
            if not node.domain:
                attributes, inputs = tuple(node.attributes.data), len(node.inputs)
                pairs = tuple(node_pairs(node))
                kind = (node_key(node), main_dtype(node), pairs, attributes, inputs)
                kinds.setdefault(kind, node)
    return list(kinds.values())


def _types(graphs: Sequence[oir.Graph]) -> list[oir.DataType]:
    """The element types of all values."""
    found: dict[oir.DataType, None] = {}
    for graph in graphs:
        found.update(
            (x.dtype, None) for x in (*graph.inputs, *graph.outputs) if x.dtype is not None
        )
        for node in all_nodes(graph):
            for x in (*node.outputs, *node.inputs):
                if x is not None and x.dtype is not None:
                    found[x.dtype] = None
    return list(found)


def _is_newer_type(dtype: oir.DataType, target: Target, opset: int, newest: int) -> bool:
    """Whether an older opset lacks a type, or the target casts it in the newest opset only."""
    if opset < TYPE_OPSETS.get(dtype, 0) <= newest:
        return True
    runs_later = target.supports("Cast", dtype, newest)
    return runs_later and not target.supports("Cast", dtype, opset)


def _is_lost(node: oir.Node, target: Target, opset: int, newest: int) -> bool:
    """Whether an older opset lacks the operator, its form, or a kernel for its element types."""
    if first_opset(node) > opset or misfit(node, opset):
        return True
    dtype = main_dtype(node)
    if dtype is None:
        return False
    key = node_key(node)
    if target.supports(key, dtype, newest) and not target.supports(key, dtype, opset):
        return True
    return any(
        target.supports_pair(*pair, newest) and not target.supports_pair(*pair, opset)
        for pair in node_pairs(node)
    )

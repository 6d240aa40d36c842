"""Models of older opsets: the oldest one without a loss, and the forms of nodes in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnx_ir as oir

from hlo2onnx.frontend.mlir.types import TYPE_OPSETS
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.op_families import FORM_OPSET, REDUCTIONS
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import attributes_of, const_ints, dtype_of, present, shape_of
from hlo2onnx.targets.builder import Decompose
from hlo2onnx.targets.decompositions.old_opsets import decompose_bitwise, decompose_scatter_extreme
from hlo2onnx.targets.target import VARIANT_SINCE, Target, main_dtype, node_key, node_pairs, schemas

# -- oldest opset ----------------------------------------------------------------------------------

# The oldest opset that a model can have without a loss.


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
    values = [x for graph in graphs for x in (*graph.inputs, *graph.outputs)]
    nodes = (node for graph in graphs for node in all_nodes(graph))
    values += [x for node in nodes for x in (*node.outputs, *present(node.inputs))]
    return list(dict.fromkeys(x.dtype for x in values if x.dtype is not None))


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
    dtype, key, pairs = main_dtype(node), node_key(node), node_pairs(node)

    def kernels(opset: int) -> list[bool]:
        runs = [] if dtype is None else [target.supports(key, dtype, opset)]
        return runs + [target.supports_pair(*pair, opset) for pair in pairs]

    return any(new and not old for new, old in zip(kernels(newest), kernels(opset), strict=True))


# -- older opsets ----------------------------------------------------------------------------------

# Nodes for opsets older than the form in which they are made, see `hlo2onnx.ir.op_families`.
#
# `_NEWER` has the operators that an old opset lacks, with their decompositions. Of the operators
# whose form changed, hlo2onnx uses the new form of reductions only.


_NEWER: Mapping[str, Decompose] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), decompose_bitwise),
    **dict.fromkeys(
        ("ScatterElements[max]", "ScatterElements[min]", "ScatterND[max]", "ScatterND[min]"),
        decompose_scatter_extreme,
    ),
}
"""Operator key -> decomposition. All are new in opset 18."""

_MOVED_AXES = REDUCTIONS - {"ReduceSum"}
"""Operators whose axes are an input from opset 18 on."""


def newer_decomposition(node: oir.Node, opset: int) -> Decompose | None:
    """The decomposition of an operator that the opset lacks; None if it has the operator, or if no
    decomposition is known."""
    return None if opset >= FORM_OPSET or node.domain else _NEWER.get(node_key(node))


def first_opset(node: oir.Node) -> int:
    """The first opset that has the operator with its key attributes."""
    key = node_key(node)
    return VARIANT_SINCE.get(key) or min(schemas()[node.op_type])


def write_forms(graph: oir.Graph, builder: GraphBuilder) -> Iterator[tuple[oir.Node, str]]:
    """Gives the nodes of a graph the inputs and attributes of the opset.

    Yields:
        Nodes for which the opset has no form, and why.
    """
    if builder.opset >= FORM_OPSET:
        return
    for node in all_nodes(graph):
        if node.domain:
            continue
        why = _reduction(builder, node) if node.op_type in _MOVED_AXES else ""
        if not why and node.graph is not None:
            why = misfit(node, builder.opset)
        if why:
            yield node, f"opset {builder.opset} has no {node.op_type} {why}"


@cache
def _schema(op_type: str, opset: int) -> Any:
    return onnx.defs.get_schema(op_type, opset, "")


def misfit(node: oir.Node, opset: int) -> str:
    """What a node has that the schema of the opset lacks; "" if nothing."""
    schema = _schema(node.op_type, opset)
    unknown = [name for name in node.attributes if name not in schema.attributes]
    if unknown:
        return f"with the attribute {', '.join(unknown)}"
    return "" if len(node.inputs) <= schema.max_input else f"with {len(node.inputs)} inputs"


def _reduction(b: GraphBuilder, node: oir.Node) -> str:
    """Axes become an attribute."""
    x, axes = (*node.inputs, None)[:2]
    if axes is None:
        return ""
    known, result = const_ints(axes), node.outputs[0]
    if known is None:
        return "with axes that are computed"
    given = attributes_of(node) | ({"axes": known} if known else {})
    with b.before(node):
        made = b.node(node.op_type, [x], given, [(dtype_of(result), shape_of(result))])
    replace(node, made)
    return ""

"""Whether any node of a model has work for more than one thread."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.op_families import ELEMENTWISE, LOOPS, REDUCTIONS, RESHAPES
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.targets.costs import Costs
from hlo2onnx.targets.work import READS_PART, elements, multiplications

_FREE = RESHAPES | LOOPS | {"Constant", "If", "Shape", "Size"}
"""No work for each element, or nodes in a body, which are judged on their own."""

_LIGHT = (ELEMENTWISE | REDUCTIONS | READS_PART) | {
    "ArgMax", "ArgMin", "CastLike", "Concat", "ConstantOfShape", "CumSum", "DequantizeLinear",
    "Expand", "Identity", "LayerNormalization", "LogSoftmax", "OneHot", "Pad", "QuantizeLinear",
    "RMSNormalization", "Range", "ScatterElements", "ScatterND", "Softmax", "Split", "Tile",
    "Transpose", "Trilu",
}  # fmt: skip
"""Little work for each element."""

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators for which it was measured how large they must be for another thread."""


def is_for_one_thread(model: oir.Model, costs: Costs) -> bool:
    """Whether one thread is faster, because no node has work for another one.

    Threads that wait for work take time from the one that works, and handing over small parts takes
    longer than computing them. A node of symbolic extents, or one whose work is not known, counts
    as large.
    """
    nodes = [node for graph in each_graph(model) for node in all_nodes(graph)]
    return not any(_may_use_threads(node, costs) for node in nodes)


def _may_use_threads(node: oir.Node, costs: Costs) -> bool:
    if not node.domain and node.op_type in _FREE:
        return False
    if not node.domain and node.op_type in _LIGHT:
        return elements(node) >= costs.threaded_elements
    is_product = not node.domain and node.op_type in _PRODUCTS
    count = multiplications(node) if is_product else None
    return count is None or count >= costs.threaded_products

"""Whether any node of a model has work for more than one thread."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.op_families import ELEMENTWISE, LOOPS, REDUCTIONS, RESHAPES
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.targets.costs import Costs

_FREE = RESHAPES | LOOPS | {"Constant", "If", "Shape", "Size"}
"""No work for each element, or nodes in a body, which are judged on their own."""

_READS_PART = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
"""The work depends on the result alone."""

_LIGHT = (ELEMENTWISE | REDUCTIONS | _READS_PART) | {
    "ArgMax", "ArgMin", "CastLike", "Concat", "ConstantOfShape", "CumSum", "DequantizeLinear",
    "Expand", "Identity", "LayerNormalization", "LogSoftmax", "OneHot", "Pad", "QuantizeLinear",
    "RMSNormalization", "Range", "ScatterElements", "ScatterND", "Softmax", "Split", "Tile",
    "Transpose", "Trilu",
}  # fmt: skip
"""Little work for each element."""


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
    values = [x for x in (*node.inputs, *node.outputs) if x is not None and x.name]
    if not node.domain and node.op_type in _LIGHT:
        counted = node.outputs if node.op_type in _READS_PART else values
        return max(map(_size, counted), default=0) >= costs.threaded_elements
    return _products(node) >= costs.threaded_products


def _products(node: oir.Node) -> float:
    """Multiplications of a product of matrices or a convolution, or a few more; otherwise inf."""
    if node.domain or node.op_type not in ("Conv", "Gemm", "MatMul"):
        return math.inf
    left, right, result = node.inputs[0], node.inputs[1], _size(node.outputs[0])
    if left is None or right is None or math.inf in (_size(left), _size(right), result):
        return math.inf
    if node.op_type == "Conv":
        return result * _size(right) / max(1, _extents(right)[0])
    return result * max(_extents(left)[-2:], default=1)


def _extents(value: oir.Value) -> list[int]:
    return [dim for dim in value.shape or () if isinstance(dim, int)]


def _size(value: oir.Value) -> float:
    """The number of elements; inf if it is not known."""
    extents = _extents(value)
    if value.shape is None or len(extents) < len(value.shape):
        return math.inf
    return math.prod(extents)

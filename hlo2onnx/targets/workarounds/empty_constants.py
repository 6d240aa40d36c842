"""Constants without elements, for runtimes that take them for scalars."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import const_of, dtype_of, rank_of


def expand_empty_constants(graph: oir.Graph, b: GraphBuilder) -> None:
    """c -> Expand(0, dims) in place, for constants without elements.

    Vectors of INT64 stay: they are shapes and axes, which runtimes want to be constants.
    """
    made: dict[oir.Value, oir.Value] = {}
    for node in list(all_nodes(graph)):
        for place, x in enumerate(node.inputs):
            array = None if x is None else const_of(x)
            if x is None or array is None or array.size or _is_shape(x):
                continue
            if x not in made:
                types = [(dtype_of(x), array.shape)]
                with b.before(graph[0]):
                    zero = b.scalar(0, dtype_of(x))
                    made[x] = b.op("Expand", zero, b.i64(list(array.shape)), types=types)
            node.replace_input_with(place, made[x])


def _is_shape(x: oir.Value) -> bool:
    return dtype_of(x) == oir.DataType.INT64 and rank_of(x) == 1

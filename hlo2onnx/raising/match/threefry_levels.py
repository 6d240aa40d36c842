"""Which uses of Threefry in a graph wait for others."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.raising.match.nested_loops import reads


def threefry_levels(
    graph: oir.Graph, without: Collection[oir.Node] = ()
) -> dict[oir.Value, int]:
    """How many nodes of Threefry are on the longest path to each value that a graph computes.

    Values that are missing are at level 0. Those of subgraphs do not count.

    Args:
        without: Nodes whose outputs count as given.
    """
    levels: dict[oir.Value, int] = {}
    for node in graph:
        level = max((levels.get(x, 0) for x in reads(node)), default=0)
        level += node.op_type == THREEFRY
        if level and node not in without:
            levels.update(dict.fromkeys(node.outputs, level))
    return levels

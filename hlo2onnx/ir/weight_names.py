"""Names of weights, kept when stages move or change a large constant."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.names import Names
from hlo2onnx.ir.traversal import all_nodes

WEIGHT = "hlo2onnx.weight"
"""Key of `onnx_ir.Value.meta`: the name of the weight that a constant is or was made of."""

SMALL_ELEMENTS = 16
"""Constants of up to this many elements are numbers of the program, not weights."""


def inherit_name(sources: Sequence[oir.Value | None], made: oir.Value) -> None:
    """Passes on the name of a weight to a constant that is made of it and of no other named one."""
    names = {x.meta[WEIGHT] for x in sources if x is not None and WEIGHT in x.meta}
    if len(names) == 1 and WEIGHT not in made.meta:
        made.meta[WEIGHT] = names.pop()


def name_weights(graph: oir.Graph) -> None:
    """Gives weights the names of the arguments they were, and the others the name of the node that
    reads them first."""
    taken = Names()
    for node in all_nodes(graph):
        for output in node.outputs:
            taken.unique(str(output.name))
    for value in graph.inputs:
        taken.unique(str(value.name))
    values = list(graph.initializers.values())
    graph.initializers.clear()
    # What has a name of its own gets it before a name made up here can be the same.
    for value in sorted(values, key=lambda value: WEIGHT not in value.meta):
        value.name = taken.unique(_wanted(value))
        graph.register_initializer(value)


def _wanted(value: oir.Value) -> str:
    if WEIGHT in value.meta:
        return str(value.meta[WEIGHT])
    users = value.consumers()
    if value.const_value is None or value.const_value.size <= SMALL_ELEMENTS or not users:
        return str(value.name)
    return f"{users[0].name}/constant"

"""Names of large constants in the model: of weights their paths, and what was made of them."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.names import Names
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.weights import SMALL_ELEMENTS, Weight, weight_of

NAME = "hlo2onnx.name"
"""Where a constant that is no weight keeps the name that it will have."""

_MOST_LABELS = 3
"""Of so many other parameters a name tells."""


def name_weights(graph: oir.Graph) -> dict[str, list[str]]:
    """Gives weights the names of the arguments they were, and the others the name of the node that
    reads them first.

    Returns:
        The paths of the parameters that an initializer is made of, by its name, for each whose
        name is not the path of the one parameter that it is.
    """
    taken = Names()
    for node in all_nodes(graph):
        for output in node.outputs:
            taken.unique(str(output.name))
    for value in graph.inputs:
        taken.unique(str(value.name))
    values = list(graph.initializers.values())
    graph.initializers.clear()
    origins = {}
    # What has a name of its own gets it before a name made up here can be the same.
    for value in sorted(values, key=_priority):
        value.name = taken.unique(_wanted(value))
        graph.register_initializer(value)
        if weight := weight_of(value):
            paths = [name for each in weight.parameters() for name in each.names]
            if paths != [value.name]:
                origins[value.name] = paths
    return origins


def _priority(value: oir.Value) -> int:
    """Parameters first, then what is made of them, then everything else."""
    weight = weight_of(value)
    if weight is None:
        return 2 if NAME in value.meta else 3
    return 0 if weight.is_only_moved() else 1


def _wanted(value: oir.Value) -> str:
    weight = weight_of(value)
    if weight is not None:
        return label(weight)
    if NAME in value.meta:
        return str(value.meta[NAME])
    users = value.consumers()
    if value.const_value is None or value.const_value.size <= SMALL_ELEMENTS or not users:
        return str(value.name)
    return f"{users[0].name}/constant"


def label(weight: Weight) -> str:
    """The path of a parameter; for what is computed from several "conv/kernel (folded bn)"."""
    main, *others = (each.names[0] for each in weight.parameters())
    if weight.is_only_moved():
        return main
    found = list(dict.fromkeys(_beside(name, main) for name in others))
    if not found:
        return f"{main} ({weight.note})"
    if len(found) > _MOST_LABELS:
        found[_MOST_LABELS - 1 :] = ["..."]
    return f"{main} ({weight.note} {', '.join(found)})"


def _beside(name: str, main: str) -> str:
    """The layer of a parameter, or within the same layer its own name."""
    *scope, last = name.split("/")
    return last if not scope or scope == main.split("/")[:-1] else scope[-1]

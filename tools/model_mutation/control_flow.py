"""Changes of loops and branches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tools.model_mutation.graphs import Type, attribute_of
from tools.model_mutation.mutant import Mutant, Site, swap_inputs


def branches(site: Site) -> Iterator[Mutant]:
    """Takes the other branch, or always the same."""
    if site.op != "If":
        return
    names = ("then_branch", "else_branch")
    crossed = dict(zip(names, names[::-1], strict=True))
    yield site.mutant("branch changed", "branches swapped", partial(take, crossed))
    for name in names:
        yield site.mutant(
            "branch changed", f"always {name}", partial(take, dict.fromkeys(names, name))
        )


def trips(site: Site) -> Iterator[Mutant]:
    """One trip more or less."""
    if site.op != "Loop" or not site.node.input[0]:
        return
    for step in (1, -1):
        yield site.of_graph("trip count", f"{step:+} trip", partial(_step, site.place, step))


def states(site: Site) -> Iterator[Mutant]:
    """Starts a loop from zeros or from another state; drops the update of a state."""
    first = _first_state(site)
    if first is None:
        return
    node = site.node
    body = attribute_of(node, "body").g
    skip = 2 if site.op == "Loop" else 0
    count = len(body.output) - (1 if site.op == "Loop" else 0)
    places = range(first, min(len(node.input), first + count))
    for place in places:
        known = site.scope.types.get(node.input[place])
        if known and all(isinstance(dim, int) for dim in known[1]):
            yield site.of_graph(
                "initial state",
                f"state {place - first}: zeros",
                partial(_start_at_zeros, site.place, place, known),
            )
        other = place + 1
        if other in places and known and known == site.scope.types.get(node.input[other]):
            text = f"states {place - first} and {other - first} swapped"
            yield site.mutant("initial state", text, partial(swap_inputs, place, other))
    for index in range(len(places)):
        entry, result = index + skip, index + (1 if site.op == "Loop" else 0)
        if entry < len(body.input) and result < len(body.output):
            text = f"state {index} is not updated"
            yield site.mutant("state not updated", text, partial(_keep, entry, result))


def _first_state(site: Site) -> int | None:
    """The operand that is the first state."""
    if site.op == "Scan":
        inputs = attribute_of(site.node, "num_scan_inputs").i
        return 0 if len(site.node.input) > inputs else None
    return 2 if site.op == "Loop" and len(site.node.input) > 2 else None


def take(branches: dict[str, str], node: onnx.NodeProto) -> None:
    """Each of these branches becomes that of another name."""
    graphs = {name: onnx.GraphProto() for name in branches}
    for name, other in branches.items():
        graphs[name].CopyFrom(attribute_of(node, other).g)
    for name, graph in graphs.items():
        attribute_of(node, name).g.CopyFrom(graph)


def _step(place: int, step: int, graph: onnx.GraphProto) -> None:
    node = graph.node[place]
    name = f"{node.output[0] or node.name}.trips"
    array = np.array(step, np.int64)
    graph.initializer.append(numpy_helper.from_array(array, f"{name}.step"))
    added = helper.make_node("Add", [node.input[0], f"{name}.step"], [name])
    node.input[0] = name
    graph.node.insert(place, added)


def _start_at_zeros(place: int, operand: int, known: Type, graph: onnx.GraphProto) -> None:
    node = graph.node[place]
    shape = [int(dim) for dim in known[1]]
    array = np.zeros(shape, helper.tensor_dtype_to_np_dtype(known[0]))
    name = f"{node.input[operand]}.zeros"
    graph.initializer.append(numpy_helper.from_array(array, name))
    node.input[operand] = name


def _keep(entry: int, result: int, node: onnx.NodeProto) -> None:
    """A state of the body ends as it was at the begin of the trip."""
    body = attribute_of(node, "body").g
    name = f"{body.output[result].name}.kept"
    body.node.append(helper.make_node("Identity", [body.input[entry].name], [name]))
    body.output[result].name = name

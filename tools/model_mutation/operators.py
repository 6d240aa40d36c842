"""The operators of mutation, by what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import onnx

from tools.model_mutation.attributes import attributes
from tools.model_mutation.constants import constants
from tools.model_mutation.control_flow import branches, states, trips
from tools.model_mutation.graphs import Scope, scopes_of
from tools.model_mutation.mutant import Mutant, Site, sites
from tools.model_mutation.nodes import bypassed, comparisons, detours, related, rewired, swapped

OF_NODES: Mapping[str, Callable[[Site], Iterator[Mutant]]] = {
    "attributes flipped": attributes,
    "casts through a narrower type": detours,
    "operands swapped": swapped,
    "comparisons changed": comparisons,
    "operators changed": related,
    "guards bypassed": bypassed,
    "operands rewired": rewired,
    "branches changed": branches,
    "trip counts changed": trips,
    "states changed": states,
}
"""Operators that change a node."""

OF_GRAPHS: Mapping[str, Callable[[Scope], Iterator[Mutant]]] = {"constants changed": constants}
"""Operators that change a graph."""


def mutants_of(model: onnx.ModelProto) -> list[Mutant]:
    """All changes of a model, those in bodies of loops and in branches included."""
    found: list[Mutant] = []
    for scope in scopes_of(model):
        for of_graph in OF_GRAPHS.values():
            found += of_graph(scope)
        for site in sites(scope):
            for of_node in OF_NODES.values():
                found += of_node(site)
    return found

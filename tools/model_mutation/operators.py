"""The operators of mutation, by what they change."""

from __future__ import annotations

import onnx

from tools.model_mutation.attributes import attributes
from tools.model_mutation.constants import constants
from tools.model_mutation.control_flow import branches, states, trips
from tools.model_mutation.graphs import scopes_of
from tools.model_mutation.mutant import Mutant, Site
from tools.model_mutation.nodes import bypassed, comparisons, detours, related, rewired, swapped

OF_NODES = (
    *(attributes, detours, swapped, comparisons, related, bypassed, rewired),
    *(branches, trips, states),
)
"""They change a node."""


def mutants_of(model: onnx.ModelProto) -> list[Mutant]:
    """All changes of a model, those in bodies of loops and in branches included."""
    found: list[Mutant] = []
    for scope in scopes_of(model):
        found += constants(scope)
        for place in range(len(scope.graph.node)):
            for of_node in OF_NODES:
                found += of_node(Site(scope, place))
    return found

"""Counts the mutants that `bisect()` names, of those that `verify()` catches.

A mutant is named if the changed node is among the nodes of the op that the bisection names.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import Hlo2OnnxError
from hlo2onnx.verify.divergence import Divergence
from hlo2onnx.verify.inputs import random_array
from tools.model_mutation.graphs import graph_at
from tools.model_mutation.mutant import Mutant, ordered
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.programs import translated

KINDS = (
    "operands swapped",
    "operator changed",
    "comparison changed",
    "constant, all: sign",
    "constant, one: sign",
    "attribute epsilon",
)
"""The operators of mutation that change what one node computes."""

NAMED = 0.95
"""The part of the mutants that a bisection has to name."""


@dataclass(frozen=True)
class Outcome:
    """What a bisection said about one mutant.

    Attributes:
        nodes: Count of the nodes of the named op.
        said: The op it names, with its source line.
    """

    mutant: str
    is_named: bool
    nodes: int
    said: str

    def __str__(self) -> str:
        verdict = "named " if self.is_named else "MISSED"
        return f"{verdict} {self.mutant}; {self.nodes} nodes; {self.said}"


def run(chosen: Sequence[str], count: int, seed: int) -> bool:
    """Prints the outcomes of mutants of programs; returns whether enough of them are named."""
    found = list[Outcome]()
    for name in chosen:
        for outcome in tried(name, count, seed):
            found.append(outcome)
            print(outcome, flush=True)
    named = [outcome for outcome in found if outcome.is_named]
    sizes = [outcome.nodes for outcome in named] or [0]
    print(
        f"{len(named)} of {len(found)} mutants named; nodes of the named op: median"
        f" {statistics.median(sizes)}, most {max(sizes)}"
    )
    return len(named) >= NAMED * len(found)


def tried(name: str, count: int, seed: int) -> Iterator[Outcome]:
    """The outcomes of so many mutants that a verification catches, of all kinds in turn."""
    program = translated(name)
    model = program.model_proto
    rng = np.random.default_rng(seed)
    arrays = [random_array(port, rng) for port in program._source.signature.inputs]
    for mutant in ordered([each for each in mutants_of(model) if each.operator in KINDS], seed):
        if count == 0:
            return
        program.model = oir.from_proto(mutant.apply(model))
        try:
            if not program.verify(*arrays).differing:
                continue
        except Hlo2OnnxError:  # the changed model does not run
            continue
        found = program.bisect(*arrays)
        names = {node.name for node in found.nodes}
        yield Outcome(
            f"{name}: {mutant.operator}: {mutant.detail} at {mutant.node}",
            _is_named(model, mutant, found, names),
            len(names),
            "nothing" if found.op is None else str(found.op),
        )
        count -= 1


def _is_named(
    model: onnx.ModelProto, mutant: Mutant, found: Divergence, names: AbstractSet[str]
) -> bool:
    """Whether the changed node, or a reader of the changed constant, is among the named ones."""
    if not mutant.operator.startswith("constant"):
        return mutant.node in names | _chosen_by(model, found, names)
    if found.op is not None and not names:  # the model has it as a constant
        return found.op.source == mutant.source
    graph = graph_at(model, mutant.path)
    return any(node.name in names for node in _below(graph) if mutant.node in node.input)


def _chosen_by(
    model: onnx.ModelProto, found: Divergence, names: AbstractSet[str]
) -> AbstractSet[str]:
    """The nodes in branches of the named nodes that choose among the other branches."""
    if found.op is None or found.op.name != "stablehlo.case":
        return frozenset()
    return {
        inner.name
        for node in _below(model.graph)
        if node.name in names
        for attribute in node.attribute
        for inner in _below(attribute.g)
        if any(item.value == found.op.source for item in inner.metadata_props)
    }


def _below(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _below(attribute.g)

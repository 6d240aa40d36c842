"""Plants faults in one program, one after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass

import jax
import onnx_ir as oir

import hlo2onnx
from hlo2onnx.errors import Hlo2OnnxError
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.verify.divergence import Divergence
from tools.planted.faults import Fault, faults_of
from tools.planted.programs import built


@dataclass(frozen=True)
class Outcome:
    """What a bisection said about one fault.

    Attributes:
        is_named: Whether the changed node is among the nodes of the named op.
        nodes: Count of these nodes.
        said: The op it names, with its source line.
        seconds: Its time on the processor, in all threads.
        verification: The same of a verification of the same model.
    """

    program: str
    fault: str
    is_named: bool
    nodes: int
    said: str
    seconds: float
    verification: float

    def __str__(self) -> str:
        verdict = "named " if self.is_named else "MISSED"
        times = f"{self.seconds:.1f} s of {self.verification:.1f} s"
        return f"{verdict} {self.program}: {self.fault}; {self.nodes} nodes; {self.said}; {times}"


def tried(name: str, count: int, seed: int) -> Iterator[Outcome]:
    """The outcomes of faults, of different operators first."""
    (function, args), types = built(name)
    with types:
        program = hlo2onnx.translate(jax.jit(function).lower(*args))
        faults = list(faults_of(program.model.graph))
        random.Random(seed).shuffle(faults)
        for fault in _varied(faults):
            if count == 0:
                return
            outcome = _outcome(name, program, args, fault)
            if outcome is not None:
                yield outcome
                count -= 1


def _chooses(
    program: hlo2onnx.OnnxProgram, node: oir.Node, names: Set[str], found: Divergence
) -> bool:
    """Whether the node belongs to the named op, and is in a branch of one of its nodes: it chooses
    among the other branches."""
    source = node.metadata_props.get("jax.source")
    around = (each for each in all_nodes(program.model.graph) if each.name in names)
    inner = (each for outer in around for graph in subgraphs(outer) for each in all_nodes(graph))
    if found.op is None or found.op.name != "stablehlo.case" or found.op.source != source:
        return False
    return any(each is node for each in inner)


def _varied(faults: list[Fault]) -> Iterator[Fault]:
    """One fault of each kind in turn."""
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(fault.what, []).append(fault)
    while kinds:
        for kind in list(kinds):
            yield kinds[kind].pop()
            if not kinds[kind]:
                del kinds[kind]


def _outcome(
    name: str, program: hlo2onnx.OnnxProgram, args: tuple[object, ...], fault: Fault
) -> Outcome | None:
    """What a bisection says; None if a verification does not find the fault."""
    fault.plant()
    try:
        start = time.process_time()
        try:
            if program.verify(*args).ok:
                return None
        except Hlo2OnnxError:  # the changed model does not run
            return None
        verification = time.process_time() - start
        start = time.process_time()
        found = program.bisect(*args)
        seconds = time.process_time() - start
        names = {node.name for node in found.nodes}
        said = "nothing" if found.op is None else str(found.op)
        what = f"{fault.what} at {fault.node.name}"
        is_named = fault.node.name in names or _chooses(program, fault.node, names, found)
        return Outcome(name, what, is_named, len(names), said, seconds, verification)
    finally:
        fault.remove()

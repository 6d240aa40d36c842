"""Where ONNX Runtime runs the nodes of a model for a target with a fallback: on the target's device
or on the CPU, and which tensors it copies between them. An estimate by dataflow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.op_families import LOOPS
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import FLOATS, size_of
from hlo2onnx.report import Report
from hlo2onnx.targets.legalize.changes import label_of
from hlo2onnx.targets.legalize.kernels import STRUCTURAL, has_kernel
from hlo2onnx.targets.target import Target

_OF_HOST: Final[Mapping[str, frozenset[int]]] = {
    **dict.fromkeys(("CumSum", "Expand", "Reduce", "Reshape", "Split", "Squeeze", "Tile", "TopK",
                     "Trilu", "Unsqueeze"), frozenset({1})),
    **dict.fromkeys(("ConstantOfShape", "If"), frozenset({0})),
    **dict.fromkeys(("Clip", "Dropout", "OneHot"), frozenset({1, 2})),
    **dict.fromkeys(("Pad", "Resize"), frozenset({1, 2, 3})),
    "Loop": frozenset({0, 1}),
    "Range": frozenset({0, 1, 2}),
    "Slice": frozenset({1, 2, 3, 4}),
}  # fmt: skip
"""The inputs that kernels of a device read from the memory of the CPU, such as shapes."""
_SMALL: Final = 100
"""Elements of the largest constant beside which ONNX Runtime computes on the CPU with shapes."""


@dataclass
class Placement:
    """What is not on the device of a target.

    Attributes:
        nodes: The nodes on the CPU, for want of a kernel on the device, each with the control flow
            around it: "", "Loop", "Loop/If".
        others: Those on the device that another part of the runtime runs, such as CUDA for
            TensorRT, each by its label.
        parts: How many parts of the model the target gets, each compiled on its own where the
            runtime compiles.
        shapes: How many further nodes are on the CPU, as they compute with shapes.
        copies: Copies between the devices that are nodes of the runtime, by the control flow
            around them. A Loop or If copies further values that its bodies take or give.
    """

    nodes: list[tuple[oir.Node, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    parts: int = 0
    shapes: int = 0
    copies: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        inner = sum(is_in_loop(where) for _, where in self.nodes)
        moved = sum(count for where, count in self.copies.items() if is_in_loop(where))
        return (
            f"nodes on the CPU {len(self.nodes)} ({inner} in loops), and {self.shapes} of shapes;"
            f" copies between the devices {self.copies.total()} ({moved} in each trip of a loop);"
            f" parts for the device {self.parts}"
        )


def is_in_loop(where: str) -> bool:
    """Whether the control flow around a node has a loop."""
    return not LOOPS.isdisjoint(where.split("/"))


def placed(graphs: Iterable[oir.Graph], target: Target) -> Placement:
    """Estimates what is not on the device of a target.

    Args:
        graphs: Those of a model and its functions, whose nodes fit the target or its fallback.
        target: One with a fallback; for another one nothing is elsewhere.
    """
    found = Placement()
    if target.fallback is not None:
        for graph in graphs:
            _Placing(target, graph.opset_imports[""], found).place(graph, "")
    return found


def note_placement(graphs: Iterable[oir.Graph], target: Target, report: Report) -> None:
    """Adds what is not on the device of a target to a report."""
    found = placed(graphs, target)
    for node, where in found.nodes:
        report.fallback[f"{label_of(node)} in {where}" if where else label_of(node)] += 1
    if found.nodes or found.others or found.copies.total():
        report.note(f"{target.name}, an estimate: {found}")
    if found.others and target.fallback is not None:
        nodes = ", ".join(f"{label} {count}" for label, count in found.others.most_common())
        report.note(f"{target.fallback.name} runs {found.others.total()} nodes: {nodes}")


class _Placing:
    """Places the nodes of a graph and its bodies."""

    def __init__(self, target: Target, opset: int, found: Placement) -> None:
        self.target, self.opset, self.found = target, opset, found
        fallback = target.fallback
        self.other = fallback if fallback is not None and fallback.fallback is not None else None

    def place(self, graph: oir.Graph, where: str, is_on_cpu: bool = False) -> None:
        """Adds what is not on the device.

        Args:
            where: The control flow around the graph.
            is_on_cpu: Whether the CPU runs it as a whole.
        """
        traced: set[oir.Value] = set()  # results on the CPU that come from a shape
        reads: tuple[set[oir.Value], set[oir.Value]] = (set(), set())  # on the CPU, on the device
        makes: tuple[set[oir.Value], set[oir.Value]] = (set(), set())
        part_of: dict[oir.Value, int] = {}
        for node in nodes_in(graph):
            if node.op_type == "Constant":
                continue
            name = "Reduce" if node.op_type.startswith("Reduce") else node.op_type
            of_host = _OF_HOST.get(name, ())
            inputs = [(at, x) for at, x in enumerate(node.inputs) if x is not None]
            is_own = is_here = not is_on_cpu and has_kernel(node, self.target, self.opset)
            if not is_own and not is_on_cpu and self.other is not None:
                is_here = has_kernel(node, self.other, self.opset)
                if is_here:
                    self.found.others[label_of(node)] += 1
            is_small = False
            if not traced.isdisjoint(node.inputs) and node.op_type not in STRUCTURAL:
                is_small = is_here and all(
                    _may_be_on_cpu(x, graph) or (x in traced and at not in of_host)
                    for at, x in inputs
                )
                is_here = is_here and not is_small
                if not is_here:
                    traced.update(node.outputs)
            self.found.shapes += is_small
            if not is_here and not is_small:
                self.found.nodes.append((node, where))
            for at, x in inputs:
                reads[is_here and at not in of_host].add(x)
            is_made_here = is_here and node.op_type not in ("Shape", "Size")
            makes[is_made_here].update(node.outputs)
            if is_here and not is_made_here and not self.target.flags.shares_memory:
                traced.update(node.outputs)
            part = max((part_of.get(x, 0) for _, x in inputs), default=0)
            # Odd numbers are parts for the device, even ones those between them.
            part_of.update(dict.fromkeys(node.outputs, part + (part % 2 != is_own)))
            for body in subgraphs(node):
                inside = f"{where}/{node.op_type}" if where else node.op_type
                self.place(body, inside, is_on_cpu or not is_here)
        self.found.parts += len({part for part in part_of.values() if part % 2})
        if not self.target.flags.shares_memory:
            both = {x for x in reads[0] & reads[1] if x.const_value is None}
            copied = (reads[1] & makes[0]) | (reads[0] & makes[1]) | both
            self.found.copies[where] += len(copied)


def _may_be_on_cpu(x: oir.Value, graph: oir.Graph) -> bool:
    """Whether ONNX Runtime takes an operand for one that the CPU has, too."""
    if x.dtype in FLOATS and x.dtype.bitwidth < 32:
        return False
    size = size_of(x)
    is_small = x.const_value is not None and size is not None and size <= _SMALL
    return is_small or x in graph.inputs

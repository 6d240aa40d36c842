"""Changes of one node of a model, each of which can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes

SWAPS = {
    "Abs": "Neg",
    "Add": "Sub",
    "And": "Or",
    "Ceil": "Floor",
    "Cos": "Sin",
    "Div": "Mul",
    "Erf": "Tanh",
    "Exp": "Sigmoid",
    "Floor": "Round",
    "Greater": "Less",
    "GreaterOrEqual": "Less",
    "Less": "GreaterOrEqual",
    "LessOrEqual": "Greater",
    "Log": "Sqrt",
    "Max": "Min",
    "Min": "Max",
    "Mul": "Add",
    "Neg": "Abs",
    "Or": "And",
    "ReduceMax": "ReduceMin",
    "ReduceMean": "ReduceMax",
    "ReduceMin": "ReduceMax",
    "ReduceSum": "ReduceMean",
    "Relu": "Neg",
    "Sigmoid": "Tanh",
    "Sin": "Cos",
    "Softmax": "LogSoftmax",
    "Sqrt": "Exp",
    "Sub": "Add",
    "Tanh": "Sigmoid",
}
"""Operators with the same types as the ones that take their place."""

_LEAST = 1e-2
"""A constant moves by this share."""


@dataclass(frozen=True)
class Fault:
    """A change of one node.

    Attributes:
        node: The node.
        what: What changes.
        plant: Makes the change.
        remove: Undoes it.
    """

    node: oir.Node
    what: str
    plant: Callable[[], None]
    remove: Callable[[], None]


def faults_of(graph: oir.Graph) -> Iterator[Fault]:
    """The faults that can be planted in a graph and its subgraphs."""
    for node in list(all_nodes(graph)):
        if node.domain:
            continue
        if node.op_type in SWAPS:
            yield _operator(node, SWAPS[node.op_type])
        if node.op_type in ("Sub", "Div", "Where", "Less", "Greater", "MatMul", "Pow"):
            yield from _operands(node)
        yield from _constants(graph, node)
        yield from _attributes(node)


def _operator(node: oir.Node, other: str) -> Fault:
    old = node.op_type

    def change(name: str) -> Callable[[], None]:
        def apply() -> None:
            node.op_type = name

        return apply

    return Fault(node, f"{old} -> {other}", change(other), change(old))


def _operands(node: oir.Node) -> Iterator[Fault]:
    one, two = (1, 2) if node.op_type == "Where" else (0, 1)
    first, second = node.inputs[one], node.inputs[two]
    if first is None or second is None or first is second:
        return
    if first.dtype != second.dtype or first.shape != second.shape:
        return

    def put(left: oir.Value, right: oir.Value) -> Callable[[], None]:
        def apply() -> None:
            node.replace_input_with(one, left)
            node.replace_input_with(two, right)

        return apply

    yield Fault(node, f"{node.op_type}: operands swapped", put(second, first), put(first, second))


def _constants(graph: oir.Graph, node: oir.Node) -> Iterator[Fault]:
    for index, value in enumerate(node.inputs):
        if value is None or value.const_value is None:
            continue
        array = value.const_value.numpy()
        if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
            continue
        if not array.size or not np.abs(array.astype(np.float64)).max():
            continue
        yield _constant(graph, node, index, value, array)


def _constant(
    graph: oir.Graph, node: oir.Node, index: int, old: oir.Value, array: np.ndarray
) -> Fault:
    flat = array.reshape(-1).copy()
    place = int(np.argmax(np.abs(flat.astype(np.float64))))
    flat[place] = (flat[place].astype(np.float64) * (1 + 10 * _LEAST)).astype(array.dtype)
    name = f"{node.name}/planted{index}"
    tensor = oir.Tensor(flat.reshape(array.shape), name=name)
    new = oir.Value(name=name, type=old.type, shape=old.shape, const_value=tensor)

    def plant() -> None:
        graph.initializers[name] = new
        node.replace_input_with(index, new)

    def remove() -> None:
        node.replace_input_with(index, old)
        del graph.initializers[name]

    return Fault(node, f"{node.op_type}: operand {index} is another constant", plant, remove)


def _attributes(node: oir.Node) -> Iterator[Fault]:
    if node.op_type in ("CumSum", "MaxPool") or "epsilon" not in node.attributes:
        return
    old = node.attributes["epsilon"]

    def put(attribute: oir.Attr) -> Callable[[], None]:
        def apply() -> None:
            node.attributes["epsilon"] = attribute

        return apply

    yield Fault(node, f"{node.op_type}: epsilon", put(oir.AttrFloat32("epsilon", 0.5)), put(old))

"""Conditions that a runtime knows when it loads a model.

A runtime folds constants, and inlines the branch that an If with a constant condition takes. The
process of ONNX Runtime ends if such an If is in a branch of another If.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.code_motion import RANDOM
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import static_shape

_OF_SHAPES = frozenset({"Shape", "Size"})


def conceal_conditions(model: oir.Model) -> None:
    """Passes the conditions of Ifs that a runtime would know through a Loop of one trip. A runtime
    does not fold Loops."""
    known = _KnownAtLoad(model)
    for graph in each_graph(model):
        ifs = [node for node in all_nodes(graph) if node.op_type == "If"]
        found = [(node, x) for node in ifs if (x := node.inputs[0]) is not None and known(x)]
        if not found:
            continue
        builder = GraphBuilder(graph, graph.opset_imports[""])
        builder.adopt(graph)
        concealed: dict[oir.Value, oir.Value] = {}
        for node, condition in found:
            if condition not in concealed:
                concealed[condition] = _concealed(builder, condition)
            node.replace_input_with(0, concealed[condition])


class _KnownAtLoad:
    """Tells which values depend only on constants and static shapes."""

    def __init__(self, model: oir.Model) -> None:
        self._known: set[oir.Value] = set()
        for graph in reversed(list(each_graph(model)) if model.functions else []):
            for node in all_nodes(graph):
                function = model.functions.get((node.domain, node.op_type, ""))
                if function is not None:
                    pairs = zip(function.inputs, node.inputs, strict=False)
                    self._known.update(own for own, x in pairs if x is not None and self(x))

    def __call__(self, value: oir.Value) -> bool:
        seen: set[oir.Value] = set()
        pending = [value]
        while pending:
            x = pending.pop()
            if x.const_value is not None or x in seen or x in self._known:
                continue
            node = x.producer()
            if node is None or node.op_type in RANDOM or subgraphs(node):
                return False
            seen.add(x)
            operands = [each for each in node.inputs if each is not None]
            if node.op_type not in _OF_SHAPES or static_shape(operands[0]) is None:
                pending += operands
        self._known |= seen
        return True


def _concealed(b: GraphBuilder, condition: oir.Value) -> oir.Value:
    """The same condition, after a Loop."""
    maker = condition.producer()
    with b.at_start() if maker is None else b.after(maker):
        trip, going = b.value("trip", oir.DataType.INT64, []), b.value("on", oir.DataType.BOOL, [])
        state = b.value("condition", oir.DataType.BOOL, [])
        with b.subgraph([trip, going, state], "concealed") as body:
            body.outputs.extend([b.Identity(going), b.Identity(state)])
        return b.op("Loop", b.i64(1), None, condition, body=body)

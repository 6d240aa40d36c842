"""Probe of a crash: nested branches that the runtime inlines when it loads a model."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from hlo2onnx.runtime.adapters.process import Runtime, tensor_of

OPSET = 18


def inlines_branches(runtime: Runtime) -> bool:
    """Say whether the process ends where an If with a constant condition is in another one."""
    model = nested_branches(helper.make_node("Not", ["no"], ["known"])).SerializeToString()
    feeds = {"x": tensor_of(np.ones(4, np.float32)), "p": tensor_of(np.array(True))}
    before = len(runtime.deaths)
    runtime.run(model, feeds, "nested branches", optimize=True)
    return len(runtime.deaths) > before


def nested_branches(makes_known: onnx.NodeProto) -> onnx.ModelProto:
    """A model of Ifs in Ifs, two of them under the condition "known", which a node makes of the
    constant "no"."""

    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [4])
        return helper.make_graph(nodes, name, [], [result])

    def either(condition: str, name: str, then: onnx.GraphProto) -> onnx.NodeProto:
        negative = branch(f"{name}/else", helper.make_node("Neg", ["x"], [f"{name}:else"]))
        branches = {"then_branch": then, "else_branch": negative}
        return helper.make_node("If", [condition], [name], **branches)

    absolute = branch("abs", helper.make_node("Abs", ["x"], ["absolute"]))
    part = helper.make_node("Identity", ["x"], ["unread"])
    inner = either("known", "c", branch("then", part, either("p", "d", absolute)))
    outer = branch("known", makes_known, either("known", "b", branch("inner", inner)))
    graph = helper.make_graph(
        [either("p", "a", outer)],
        "nested",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("p", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [4])],
        [onnx.numpy_helper.from_array(np.array(False), "no")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

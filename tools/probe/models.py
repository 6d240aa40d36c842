"""Models of a few nodes for `tools.probe`: what they take and give fits the runtime."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from hlo2onnx.runtime.adapters.process import Tensor

_SHORT_NAMES = (
    "f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 b8 "
    "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 i4 u4 i2 u2"
)
DTYPES = tuple(ir.DataType.from_short_name(name) for name in _SHORT_NAMES.split())
"""The element types to probe, in the order in which tables list them."""


@dataclass(frozen=True)
class Case:
    """A model of one node, or of a node for each trial, and its inputs.

    Attributes:
        outputs: How many outputs it has.
    """

    model: bytes
    feeds: Mapping[str, Tensor]
    outputs: int


@dataclass(frozen=True)
class Ports:
    """The element types that a runtime takes and gives."""

    takes: Collection[ir.DataType] = DTYPES
    gives: Collection[ir.DataType] = DTYPES

    def carrier(self, dtype: ir.DataType) -> ir.DataType | None:
        """The type in which an output leaves: that of the runtime's that holds it exactly, or None
        for its own."""
        if dtype in self.gives:
            return None
        return ir.DataType.FLOAT if dtype.is_floating_point() else ir.DataType.INT32


class GraphOfNodes:
    """A graph that is being made: nodes, the tensors that they take, the outputs that they give."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._initializers: list[Any] = []
        self._outputs: list[Any] = []
        self._feeds: dict[str, Tensor] = {}

    def take(self, tensor: ir.Tensor, *, is_data: bool) -> None:
        """Add a tensor: an input if it is data, an initializer if not."""
        assert tensor.name is not None
        if not is_data or tensor.dtype not in self._ports.takes:
            self._initializers.append(ir.to_proto(tensor))
            return
        shape = [int(extent) for extent in tensor.shape]  # type: ignore[call-overload]
        info = helper.make_tensor_value_info(tensor.name, tensor.dtype.value, shape)
        self._inputs.append(info)
        self._feeds[tensor.name] = Tensor(tensor.dtype.value, tuple(shape), tensor.tobytes())

    def computed(self, name: str, array: Any) -> str:
        """Give the name of the sum of an integer tensor and 0."""
        zero = ir.Tensor(np.zeros((), array.dtype), name=f"{name}/zero")
        self.take(zero, is_data=True)
        made = f"{name}/computed"
        self._nodes.append(helper.make_node("Add", [name, zero.name], [made]))
        return made

    def hide(self, node: Any) -> None:
        """Add a node that only others read."""
        self._nodes.append(node)

    def node(self, node: Any, types: Sequence[ir.DataType | None]) -> None:
        """Add a node all of whose outputs leave the graph. A type that the runtime does not give
        leaves through a cast.

        Args:
            types: the element types of the outputs; None if unknown.
        """
        self._nodes.append(node)
        for name, dtype in zip(node.output, types, strict=True):
            carrier = None if dtype is None else self._ports.carrier(dtype)
            leaves = name
            if carrier is not None:
                leaves = f"{name}/carried"
                self._nodes.append(helper.make_node("Cast", [name], [leaves], to=carrier.value))
            info = onnx.ValueInfoProto(name=leaves)
            known = carrier or dtype
            if known is not None:
                info.type.tensor_type.elem_type = known.value
            self._outputs.append(info)

    def case(self, opset: int, ir_version: int) -> Case:
        """Give the graph as a model of that opset."""
        graph = helper.make_graph(
            self._nodes, "probe", self._inputs, self._outputs, self._initializers
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
        )
        return Case(model.SerializeToString(), self._feeds, len(self._outputs))


def together(cases: Sequence[Case]) -> Case:
    """Give one model with the nodes of several, which have the same opset."""
    models = [onnx.load_from_string(case.model) for case in cases]
    whole = models[0]
    parts = [onnx.GraphProto.FromString(model.graph.SerializeToString()) for model in models]
    for field in ("node", "input", "output", "initializer"):
        whole.graph.ClearField(field)
    feeds = {}
    for number, (part, case) in enumerate(zip(parts, cases, strict=True)):
        prefix = f"{number}:"
        for node in part.node:
            for names in (node.input, node.output):
                names[:] = [name and prefix + name for name in names]
        for item in (*part.input, *part.output, *part.initializer):
            item.name = prefix + item.name
        whole.graph.MergeFrom(part)
        feeds.update({prefix + name: tensor for name, tensor in case.feeds.items()})
    return Case(whole.SerializeToString(), feeds, sum(case.outputs for case in cases))

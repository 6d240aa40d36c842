"""Models whose inputs and outputs have types that a runtime takes and gives.

JavaScript, for example, has no arrays of bf16. The cast to the program's type is then part of the
model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from tools.probe.models import Ports


def with_ports(
    content: bytes, takes: Collection[ir.DataType], gives: Collection[ir.DataType]
) -> bytes:
    """A model with casts behind inputs and before outputs of other types. The carriers hold all
    values of these types."""
    model = onnx.load_from_string(content)
    graph, nodes = model.graph, list(model.graph.node)
    behind = [_carried(item, Ports(gives=takes), True) for item in graph.input]
    before = [_carried(item, Ports(gives=gives), False) for item in graph.output]
    if not any((*behind, *before)):
        return content
    graph.ClearField("node")
    graph.node.extend([*filter(None, behind), *nodes, *filter(None, before)])
    return bytes(model.SerializeToString())


def _carried(item: onnx.ValueInfoProto, ports: Ports, is_input: bool) -> onnx.NodeProto | None:
    """Gives an input or output the carrier's type and a name of its own: the cast to or from it."""
    own = ir.DataType(item.type.tensor_type.elem_type)
    carrier = ports.carrier(own)
    if carrier is None:
        return None
    name, item.name = item.name, carried_name(item.name)
    item.type.tensor_type.elem_type = carrier.value
    if is_input:
        return helper.make_node("Cast", [item.name], [name], to=own.value)
    return helper.make_node("Cast", [name], [item.name], to=carrier.value)


def carried_name(name: str) -> str:
    """The name of an input or output in place of which a carrier stands."""
    return f"{name}/carried"


def carried_feeds(
    feeds: Mapping[str, np.ndarray], takes: Collection[ir.DataType]
) -> dict[str, np.ndarray]:
    """The inputs of such a model."""
    found = {}
    for name, array in feeds.items():
        carrier = Ports(gives=takes).carrier(ir.DataType.from_numpy(array.dtype))
        if carrier is None:
            found[name] = array
        else:
            found[carried_name(name)] = array.astype(carrier.numpy())
    return found

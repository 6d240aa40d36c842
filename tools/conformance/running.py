"""Where the model of a case runs: in ONNX Runtime in this process, or in another runtime.

Inputs and outputs of types that the other runtime does not take or give, such as bf16 in
JavaScript, are cast in the model from and to types that hold them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from hlo2onnx.runtime.adapters.installed import KINDS, Name
from hlo2onnx.verify.runners import OnnxRuntime, OtherRuntime, Runner, Session
from tools.probe.environments import start
from tools.probe.models import Ports

SECONDS = 30.0
"""How long another runtime may take for a model."""


@dataclass(frozen=True)
class Place:
    """A runtime, and what models for it are made for."""

    target: str
    runner: Runner


HERE = Place("ort-cpu", OnnxRuntime())
"""ONNX Runtime in this process."""


@dataclass(frozen=True)
class Ported(OtherRuntime):
    """Another runtime, for models with inputs and outputs of any type."""

    def session(self, model: bytes | str, *, optimize: bool, denormals: str = "keep") -> Session:
        """A session whose inputs and outputs are cast."""
        assert isinstance(model, bytes)
        outputs = onnx.load_from_string(model).graph.output
        dtypes = [ir.DataType(item.type.tensor_type.elem_type).numpy() for item in outputs]
        takes, gives = self.process.takes, self.process.gives
        session = super().session(with_ports(model, takes, gives), optimize=optimize)

        def run(feeds: Mapping[str, np.ndarray], seconds: float = math.inf) -> list[np.ndarray]:
            found = session(carried_feeds(feeds, takes), seconds)
            return [x.astype(dtype, copy=False) for x, dtype in zip(found, dtypes, strict=True)]

        return run


def place_of(text: str) -> Place:
    """The place "RUNTIME=TARGET", such as "ort-web@1.30=ort-web"; `HERE` for "". The target is that
    of the runtime's name by default.

    Raises:
        StartError: The runtime does not start.
        ValueError: There is no such runtime.
    """
    if not text:
        return HERE
    runtime, _, target = text.partition("=")
    name = Name.parsed(runtime)
    process = start(name, seconds=SECONDS)
    levels = (True, False) if KINDS[name.kind].has_levels else (True,)
    return Place(target or name.kind, Ported(process, "the runtime", levels))


def with_ports(
    content: bytes, takes: Collection[ir.DataType], gives: Collection[ir.DataType]
) -> bytes:
    """A model with casts behind inputs and before outputs of other types."""
    model = onnx.load_from_string(content)
    graph, nodes = model.graph, list(model.graph.node)
    behind = [_carried(item, Ports(gives=takes), True) for item in graph.input]
    before = [_carried(item, Ports(gives=gives), False) for item in graph.output]
    graph.ClearField("node")
    graph.node.extend([*filter(None, behind), *nodes, *filter(None, before)])
    return bytes(model.SerializeToString())


def _carried(item: onnx.ValueInfoProto, ports: Ports, is_input: bool) -> onnx.NodeProto | None:
    """Gives an input or output the carrier's type and a name of its own: the cast to or from it."""
    own = ir.DataType(item.type.tensor_type.elem_type)
    carrier = ports.carrier(own)
    if carrier is None:
        return None
    name, item.name = item.name, f"{item.name}/carried"
    item.type.tensor_type.elem_type = carrier.value
    if is_input:
        return helper.make_node("Cast", [item.name], [name], to=own.value)
    return helper.make_node("Cast", [name], [item.name], to=carrier.value)


def carried_feeds(
    feeds: Mapping[str, np.ndarray], takes: Collection[ir.DataType]
) -> dict[str, np.ndarray]:
    """The inputs of such a model."""
    found = {}
    for name, array in ((name, np.asarray(x)) for name, x in feeds.items()):
        carrier = Ports(gives=takes).carrier(ir.DataType.from_numpy(array.dtype))
        if carrier is None:
            found[name] = array
        else:
            found[f"{name}/carried"] = array.astype(carrier.numpy())
    return found

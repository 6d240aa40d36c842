"""Changes of nodes and of their operands."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping
from functools import partial

import onnx
from onnx import TensorProto, helper

from tools.model_mutation.graphs import attribute_of
from tools.model_mutation.mutant import Mutant, Site, swap_inputs

SWAPPED: Mapping[str, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys(["Sub", "Div", "Pow", "Mod", "MatMul", "Gemm", "BitShift"], ((0, 1),)),
    **dict.fromkeys(["Less", "LessOrEqual", "Greater", "GreaterOrEqual"], ((0, 1),)),
    "Where": ((1, 2),),
    "Clip": ((1, 2),),
    "Concat": ((0, 1), (1, 2)),
    "Attention": ((0, 1), (1, 2)),
    "LayerNormalization": ((1, 2),),
    "BatchNormalization": ((1, 2), (3, 4)),
}
"""Operands of operators that are not commutative."""

COMPARISONS: Mapping[str, tuple[str, ...]] = {
    "Less": ("LessOrEqual", "Greater"),
    "LessOrEqual": ("Less", "GreaterOrEqual"),
    "Greater": ("GreaterOrEqual", "Less"),
    "GreaterOrEqual": ("Greater", "LessOrEqual"),
    "Equal": ("LessOrEqual", "GreaterOrEqual"),
}
"""Comparisons in another direction, or with the other result for equal operands."""

RELATED: Mapping[str, str] = {
    one: other
    for pair in (
        ("Add", "Sub"),
        ("Mul", "Div"),
        ("Min", "Max"),
        ("And", "Or"),
        ("BitwiseAnd", "BitwiseOr"),
        ("Floor", "Ceil"),
        ("Sin", "Cos"),
        ("Log", "Sqrt"),
        ("Exp", "Softplus"),
        ("Tanh", "Sigmoid"),
        ("ReduceMax", "ReduceMin"),
        ("ReduceSum", "ReduceMean"),
        ("ArgMax", "ArgMin"),
        ("MaxPool", "AveragePool"),
    )
    for one, other in (pair, pair[::-1])
} | {"Round": "Floor", "Relu": "Abs", "Xor": "Or", "Sign": "Abs"}
"""An operator with the same operands."""

GUARDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(["Clip", "Abs", "Relu", "Floor", "Ceil", "Round", "HardSigmoid"], (0,)),
    **dict.fromkeys(["Max", "Min", "And", "Or", "Mod", "BitwiseAnd", "BitwiseOr"], (0, 1)),
    "Where": (1, 2),
    "Not": (0,),
}
"""The operands that may replace the result of a guard."""

NARROWER: Mapping[int, tuple[int, ...]] = {
    TensorProto.DOUBLE: (TensorProto.FLOAT,),
    TensorProto.FLOAT: (TensorProto.FLOAT16, TensorProto.INT32),
    TensorProto.INT64: (TensorProto.INT32, TensorProto.INT8, TensorProto.UINT32),
    TensorProto.INT32: (TensorProto.INT16, TensorProto.UINT8, TensorProto.FLOAT),
    TensorProto.UINT32: (TensorProto.INT32, TensorProto.UINT8, TensorProto.FLOAT),
    TensorProto.UINT64: (TensorProto.INT64, TensorProto.UINT32),
}
"""The types that a cast takes a detour through."""


def swapped(site: Site) -> Iterator[Mutant]:
    """Swaps two operands."""
    inputs = site.node.input
    for one, other in SWAPPED.get(site.op, ()):
        if other < len(inputs) and inputs[one] and inputs[other] and inputs[one] != inputs[other]:
            text = f"operands {one} and {other} swapped"
            yield site.mutant("operands swapped", text, partial(swap_inputs, one, other))


def comparisons(site: Site) -> Iterator[Mutant]:
    """Changes the direction of a comparison."""
    for other in COMPARISONS.get(site.op, ()):
        yield site.mutant("comparison changed", f"{site.op} -> {other}", partial(rename, other))


def related(site: Site) -> Iterator[Mutant]:
    """Takes another operator."""
    if other := RELATED.get(site.op):
        yield site.mutant("operator changed", f"{site.op} -> {other}", partial(rename, other))


def bypassed(site: Site) -> Iterator[Mutant]:
    """Replaces a guard by one of its operands."""
    node = site.node
    wanted = site.type(node.output[0]) if node.output else None
    for place in GUARDS.get(site.op, ()):
        given = site.type(node.input[place]) if place < len(node.input) else None
        if given is not None and given == wanted:
            text = f"{site.op} -> operand {place}"
            yield site.mutant("guard bypassed", text, partial(make_identity, place))
    for place in (1, 2) if site.op == "Clip" else ():
        if place < len(node.input) and node.input[place]:
            text = f"limit {place} of Clip dropped"
            yield site.mutant("guard bypassed", text, partial(set_input, place, ""))


def rewired(site: Site) -> Iterator[Mutant]:
    """Takes another value of the same type and shape as an operand."""
    visible = site.scope.visible(site.place)
    for place, name in enumerate(site.node.input):
        known = site.type(name) if name else None
        siblings = [item for item in visible if item != name and site.type(item) == known]
        if known is None or not siblings:
            continue
        other = random.Random(zlib.crc32(f"{name} {place}".encode())).choice(siblings)
        text = f"operand {place}: {name} -> {other}"
        yield site.mutant("operand rewired", text, partial(set_input, place, other))


def detours(site: Site) -> Iterator[Mutant]:
    """Casts through a narrower type."""
    if site.op == "Cast":
        for narrow in NARROWER.get(int(attribute_of(site.node, "to").i), ()):
            text = f"through {TensorProto.DataType.Name(narrow)}"
            yield site.of_graph("attribute to", text, partial(_detour, site.place, narrow))


def _detour(place: int, narrow: int, graph: onnx.GraphProto) -> None:
    node = graph.node[place]
    name = f"{node.output[0]}.narrow"
    first = helper.make_node("Cast", [node.input[0]], [name], to=narrow)
    node.input[0] = name
    graph.node.insert(place, first)


def set_input(place: int, name: str, node: onnx.NodeProto) -> None:
    """Gives a node another operand."""
    node.input[place] = name


def rename(op: str, node: onnx.NodeProto) -> None:
    """Gives a node another operator."""
    node.op_type = op


def make_identity(place: int, node: onnx.NodeProto) -> None:
    """Makes a node the identity of an operand."""
    kept = node.input[place]
    node.op_type, node.domain = "Identity", ""
    del node.input[:], node.attribute[:]
    node.input.append(kept)

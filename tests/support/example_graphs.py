"""Models of small variants of the examples, and the contents of their loops without some rules."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import gallery
import jax
import onnx_ir as oir
from lowered_loops import body
from rule_names import LOOP_RULE_NAMES

import hlo2onnx
from hlo2onnx.ir.values import shape_of

EXAMPLES = {example.name: example for example in gallery.load_all()}

GUARDS = ("Clip", "Less", "Min", "Where")
"""Operators that would guard an index."""


def translated(name: str, gradient: bool = False, **sizes: Any) -> hlo2onnx.OnnxProgram:
    """A small variant of an example, or its gradient, with the given sizes; cached."""
    return _translated(name, gradient, tuple(sorted(sizes.items())))


@cache
def _translated(
    name: str, gradient: bool, sizes: tuple[tuple[str, Any], ...]
) -> hlo2onnx.OnnxProgram:
    example = EXAMPLES[name]
    build = example.build_gradient if gradient else example.build
    with example.types():
        function, args = build(**{**example.small, **dict(sizes)})
        return hlo2onnx.translate(jax.jit(function).lower(*args), without=LOOP_RULE_NAMES)


def nodes(name: str, gradient: bool = False, **sizes: Any) -> Counter[str]:
    """Operators of the model, including loops and branches."""
    graph = translated(name, gradient, **sizes).model.graph
    return Counter(node.op_type for node in graph.all_nodes())


def loops(name: str, gradient: bool = False) -> list[oir.Node]:
    """The Loops of the model, outer before inner."""
    graph = translated(name, gradient).model.graph
    return [node for node in graph.all_nodes() if node.op_type == "Loop"]


def in_body(loop: oir.Node) -> Counter[str]:
    """The operators of a trip, without inner loops."""
    return Counter(node.op_type for node in body(loop))


def shapes(values: Any) -> list[tuple[Any, ...]]:
    """The shapes of several values."""
    return [shape_of(value) for value in values]


def states(loop: oir.Node) -> list[tuple[Any, ...]]:
    """The shapes of a Loop's carried values."""
    return shapes(loop.inputs[2:])


def stacks(loop: oir.Node) -> list[tuple[Any, ...]]:
    """The shapes of a Loop's stacked outputs."""
    return shapes(loop.outputs[len(loop.inputs) - 2 :])

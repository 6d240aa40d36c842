"""Groups of nodes that only move elements of small tensors, and where each element comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.evaluator import MOVES
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.values import const_of, present, size_of, static_shape
from hlo2onnx.raising.match.views import RESHAPES

ALL_INPUTS = frozenset({"Concat"})
BY_SHAPE = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose second operand only determines the shape of their result."""
_BY_CONSTANTS = frozenset({"Gather", "Slice", "Transpose"})
"""Operators whose other operands say what moves where."""
SMALL_MOVES = ALL_INPUTS | BY_SHAPE | _BY_CONSTANTS | {"Split"}

MOST_NODES = 64
"""Nodes of a group: a limit on compile time, not a cost."""


def is_small_move(node: oir.Node, most: float) -> bool:
    """Whether a node moves elements to places that are known, of tensors of few elements."""
    if node.op_type not in SMALL_MOVES or node.domain:
        return False
    if node.op_type in _BY_CONSTANTS and any(const_of(x) is None for x in present(node.inputs[1:])):
        return False
    for x in (*moved_by(node), *node.outputs):
        size = size_of(x)
        if size is None or not 0 < size <= most:
            return False
    return not _gives_a_key(node)


def _gives_a_key(node: oir.Node) -> bool:
    """Whether a node reshapes one word of a key, whose shape does not matter: expanding Threefry
    removes the Reshape."""
    return node.op_type in RESHAPES and all(
        size_of(x) == 1 and all(reader.op_type == THREEFRY for reader in x.consumers())
        for x in node.outputs
    )


def moved_by(node: oir.Node) -> Sequence[oir.Value]:
    """The operands whose elements a node moves."""
    return present(node.inputs if node.op_type in ALL_INPUTS else node.inputs[:1])


def group_of(node: oir.Node, most: float) -> set[oir.Node]:
    """The moves of a graph that are connected with a node; none if there are too many."""
    found, pending = {node}, [node]
    while pending and len(found) <= MOST_NODES:
        here = pending.pop()
        makers = [x.producer() for x in moved_by(here)]
        readers = [reader for x in here.outputs for reader in x.consumers()]
        for other in (*makers, *readers):
            if (
                other is not None
                and other not in found
                and other.graph is node.graph
                and is_small_move(other, most)
            ):
                found.add(other)
                pending.append(other)
    return found if len(found) <= MOST_NODES else set()


def private_group_of(node: oir.Node, most: float) -> set[oir.Node]:
    """A move, and the moves before it that nothing else needs."""
    found, pending = {node}, [node]
    while pending and len(found) < MOST_NODES:
        for maker in (x.producer() for x in moved_by(pending.pop())):
            if (
                maker is not None
                and maker not in found
                and maker.graph is node.graph
                and is_small_move(maker, most)
                and not any(x.is_graph_output() for x in maker.outputs)
                and all(reader in found for x in maker.outputs for reader in x.consumers())
            ):
                found.add(maker)
                pending.append(maker)
    return found


@dataclass
class Places:
    """Where the elements of values come from.

    Attributes:
        sources: What is moved: values that no node of the group makes.
        starts: The number of the first element of each source.
        of: The numbers of the elements of each value, and of the sources.
    """

    sources: list[oir.Value]
    starts: dict[oir.Value, int]
    of: dict[oir.Value, np.ndarray]


def places_of(nodes: Iterable[oir.Node]) -> Places:
    """Numbers the elements of the sources of a group, whose nodes come in order, and moves the
    numbers."""
    places, count = Places([], {}, {}), 0
    for node in nodes:
        for x in moved_by(node):
            if x not in places.of:
                dims = fixed(static_shape(x) or ())
                size = math.prod(dims)
                places.sources.append(x)
                places.starts[x] = count
                places.of[x] = np.arange(count, count + size).reshape(dims)
                count += size
        places.of.update(zip(node.outputs, _moved(node, places.of), strict=True))
    return places


def _moved(node: oir.Node, numbers: Mapping[oir.Value, np.ndarray]) -> list[np.ndarray]:
    inputs = [numbers[x] for x in moved_by(node)]
    if node.op_type == "Split":
        axis = node.attributes.get_int("axis", 0)
        ends = np.cumsum([(static_shape(x) or ())[axis] for x in node.outputs])
        return np.split(inputs[0], ends[:-1], axis)
    if node.op_type in _BY_CONSTANTS:
        inputs += [array for x in present(node.inputs[1:]) if (array := const_of(x)) is not None]
    return [MOVES[node.op_type](node, inputs)]

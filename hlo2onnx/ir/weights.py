"""Weights: constants that are parameters of the program, or are computed from some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.names import Names
from hlo2onnx.ir.values import FLOATS, WEIGHT, noted

SMALL_ELEMENTS = 16
"""Constants of up to this many elements are numbers of the program, not weights."""


class WeightsChangedError(Exception):
    """The new weights need another graph: translate the program again."""


@dataclass(eq=False)
class Weight:
    """A parameter, or what is computed from parameters.

    Attributes:
        names: Paths of a parameter; several if arguments share the array. Empty for others.
        operands: What it is computed from: weights, and constants.
        compute: Function of the operands. It raises an exception where they do not allow it.
        is_moved: Whether its elements are those of its first operand, in another order or shape.
        note: What was done to its first operand: "folded", "row 3".
        is_opaque: Whether the graph must not depend on its numbers. Integers of few elements, such
            as sizes and flags, are settings: not opaque.
        stored: The numpy type of a parameter in the model.
        guards: Answers to questions about all weights of the program.
    """

    names: list[str] = field(default_factory=list)
    operands: tuple[Weight | np.ndarray, ...] = ()
    compute: Callable[..., np.ndarray] | None = None
    is_moved: bool = False
    note: str = "folded"
    is_opaque: bool = True
    stored: np.dtype | None = None
    guards: list[Guard] = field(default_factory=list)

    def parameters(self) -> list[Weight]:
        """The parameters that it is computed from, the one of its first operand first."""
        if self.compute is None:
            return [self]
        found = [each for x in self.operands if isinstance(x, Weight) for each in x.parameters()]
        return list(dict.fromkeys(found))

    def is_only_moved(self) -> bool:
        """Whether its elements are those of one parameter, all of them."""
        if self.compute is None:
            return True
        source = self.operands[0]
        return self.is_moved and isinstance(source, Weight) and source.is_only_moved()


@dataclass(frozen=True)
class Guard:
    """The answer to a question about weights, which decided over the graph."""

    question: Callable[..., Any]
    operands: tuple[Weight | np.ndarray, ...]
    answer: Any


def weight_of(value: oir.Value | None) -> Weight | None:
    """The weight that a value is; None for others."""
    found: Weight | None = None if value is None else noted(value, WEIGHT)
    return found


def is_opaque(array: np.ndarray) -> bool:
    """Whether a parameter of this content is a weight, and not a setting."""
    return array.size > SMALL_ELEMENTS or oir.DataType.from_numpy(array.dtype) in FLOATS


def operand_of(value: oir.Value) -> Weight | np.ndarray:
    """A constant as the operand of a weight."""
    return weight_of(value) or content_of(value)


def content_of(value: oir.Value) -> np.ndarray:
    """The numbers of a constant, also of a weight. Use `derived` or `ask` instead."""
    assert value.const_value is not None
    return value.const_value.numpy()


def ask(question: Callable[..., Any], *values: oir.Value) -> Any:
    """Asks a question about the numbers of constants, and records the answer where they are
    weights."""
    answer = question(*map(content_of, values))
    for value in values:
        weight = weight_of(value)
        if weight is not None:
            weight.guards.append(Guard(question, tuple(map(operand_of, values)), answer))
            break
    return answer


def detached(node: oir.Node) -> oir.Node:
    """A node of the same operator, types and attributes that belongs to no graph: for functions
    that are called when the node is gone."""
    inputs = [x if x is None else oir.Value(type=x.type, shape=x.shape) for x in node.inputs]
    outputs = [oir.Value(type=x.type, shape=x.shape) for x in node.outputs]
    return oir.Node(node.domain, node.op_type, inputs, node.attributes.values(), outputs=outputs)


class Renewal:
    """Repeats what was computed from weights, for other numbers.

    Args:
        arrays: The new parameters, by name.
        old: The former parameters.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], old: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._old = old
        self._known: dict[int, np.ndarray] = {}

    def renew(self, values: Iterable[oir.Value], guards: Iterable[Guard]) -> None:
        """Gives constants the new numbers. Nothing is changed if it raises an error.

        Args:
            values: The constants.
            guards: What was asked about weights.

        Raises:
            WeightsChangedError: The graph does not allow the new numbers.
        """
        for name, array in self._old.items():
            if not is_opaque(array) and not _same(array, self._arrays[name]):
                raise WeightsChangedError(f"{name}, a setting, has changed")
        for guard in guards:
            if guard.question(*map(self._array, guard.operands)) != guard.answer:
                raise WeightsChangedError("a condition on the weights no longer holds")
        made = {
            value: oir.Tensor(self._array(weight), name=value.name)
            for value in values
            if (weight := weight_of(value)) is not None
        }
        for value, tensor in made.items():
            value.const_value = tensor

    def _array(self, operand: Weight | np.ndarray) -> np.ndarray:
        if isinstance(operand, np.ndarray):
            return operand
        if id(operand) not in self._known:
            self._known[id(operand)] = self._computed(operand)
        return self._known[id(operand)]

    def _computed(self, weight: Weight) -> np.ndarray:
        if weight.compute is None:
            return self._parameter(weight)
        operands = [self._array(operand) for operand in weight.operands]
        try:
            return np.asarray(weight.compute(*operands))
        except Exception as error:  # the refusal of a rule, of whatever type
            names = ", ".join(each.names[0] for each in weight.parameters())
            raise WeightsChangedError(f"{names}: {error}") from error

    def _parameter(self, weight: Weight) -> np.ndarray:
        first, *others = (self._arrays[name] for name in weight.names)
        for name, array in zip(weight.names[1:], others, strict=True):
            if array is not first and not _same(array, first):
                raise WeightsChangedError(f"{name} and {weight.names[0]} are no longer equal")
        stored = weight.stored or first.dtype
        return first if first.dtype == stored else first.view(stored)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


NAME = "hlo2onnx.name"
"""Where a constant that is not a weight keeps the name that it will have."""

_MOST_LABELS = 3
"""A name lists at most this many other parameters."""


def name_weights(graph: oir.Graph) -> dict[str, list[str]]:
    """Names weights after their arguments, and other constants after the first node that reads
    them.

    Returns:
        For each initializer that is not one parameter under its own path, by its name: the paths of
        the parameters that it is computed from.
    """
    values = list(graph.initializers.values())
    graph.initializers.clear()
    taken = Names.of(graph)
    origins = {}
    # Given names come first, so that no name made up here takes one.
    for value in sorted(values, key=_priority):
        value.name = taken.unique(_wanted(value))
        graph.register_initializer(value)
        if weight := weight_of(value):
            paths = [name for each in weight.parameters() for name in each.names]
            if paths != [value.name]:
                origins[value.name] = paths
    return origins


def _priority(value: oir.Value) -> int:
    """Parameters first, then what is computed from them, then everything else."""
    weight = weight_of(value)
    if weight is None:
        return 2 if noted(value, NAME) else 3
    return 0 if weight.is_only_moved() else 1


def _wanted(value: oir.Value) -> str:
    weight = weight_of(value)
    if weight is not None:
        return label(weight)
    if name := noted(value, NAME):
        return str(name)
    users = value.consumers()
    if value.const_value is None or value.const_value.size <= SMALL_ELEMENTS or not users:
        return str(value.name)
    return f"{users[0].name}/constant"


def label(weight: Weight) -> str:
    """The path of a parameter; for what is computed from several "conv/kernel (folded bn)"."""
    main, *others = (each.names[0] for each in weight.parameters())
    if weight.is_only_moved():
        return main
    found = list(dict.fromkeys(_beside(name, main) for name in others))
    if not found:
        return f"{main} ({weight.note})"
    if len(found) > _MOST_LABELS:
        found[_MOST_LABELS - 1 :] = ["..."]
    return f"{main} ({weight.note} {', '.join(found)})"


def _beside(name: str, main: str) -> str:
    """The layer of a parameter, or within the same layer its own name."""
    *scope, last = name.split("/")
    return last if not scope or scope == main.split("/")[:-1] else scope[-1]

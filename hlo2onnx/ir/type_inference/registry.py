"""Exact output types of the ONNX operators we emit, known the moment a node is made.

An operator without a rule, or one whose output shape depends on run-time values, must be made
with `types=`; nothing is inferred after the fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.values import Shape

ValueType = tuple[oir.DataType, Shape]
Inputs = Sequence[oir.Value | None]
Attributes = Mapping[str, Any]
Rule = Callable[[Inputs, Attributes, int], list[ValueType]]

RULES: dict[str, Rule] = {}


class MissingTypesError(InternalError):
    """An operator has no type rule, and its node was made without `types=`."""

    def __init__(self, op_type: str) -> None:
        super().__init__(f"no type rule for {op_type}; make the node with types=")
        self.op_type = op_type


def rule(*op_types: str) -> Callable[[Rule], Rule]:
    """Registers the type rule of these operators."""

    def register(function: Rule) -> Rule:
        for op_type in op_types:
            if op_type in RULES:
                raise InternalError(f"two type rules for {op_type}")
            RULES[op_type] = function
        return function

    return register


def infer(op_type: str, inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    """Types of a node's outputs.

    Raises:
        MissingTypesError: The operator has no rule.
        InternalError: Its operands or attributes do not fit it.
    """
    known = RULES.get(op_type)
    if known is None:
        raise MissingTypesError(op_type)
    try:
        return known(inputs, attributes, n_outputs)
    except InternalError as error:
        raise InternalError(f"{op_type}({_shown(inputs)}): {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InternalError(f"{op_type}({_shown(inputs)}): {_misuse(inputs, error)}") from error


def _shown(inputs: Inputs) -> str:
    return ", ".join(f"{x.dtype}{x.shape}" if isinstance(x, oir.Value) else "-" for x in inputs)


def _misuse(inputs: Inputs, error: Exception) -> str:
    """A description of the operands or attributes on which a type rule failed."""
    for index, x in enumerate(inputs):
        if x is not None and not isinstance(x, oir.Value):
            return f"operand {index} is a {type(x).__qualname__}, not an onnx_ir.Value"
    if isinstance(error, KeyError):
        return f"the attribute {error.args[0]} is missing"
    return f"the operands or attributes do not fit: {error}"


def check_types(op_type: str, types: Sequence[ValueType], n_outputs: int) -> None:
    """Checks the types that are given for the outputs of a node.

    Raises:
        InternalError: They are not one pair of an element type and a shape for each output.
    """
    form = "one (onnx_ir.DataType, shape) per output"
    if len(types) != n_outputs:
        what = f"{n_outputs} output{'s' if n_outputs > 1 else ''}"
        raise InternalError(f"{op_type}: types= has {len(types)} entries for {what}, not {form}")
    for entry in types:
        match entry:
            case (oir.DataType(), list() | tuple() | oir.Shape()):
                continue
            case _:
                raise InternalError(f"{op_type}: types= has the entry {entry!r}, not {form}")


def need(condition: bool, what: str) -> None:
    """Raises InternalError(what) unless the condition holds."""
    if not condition:
        raise InternalError(what)


def operand(inputs: Inputs, index: int) -> oir.Value:
    """The operand at `index`, which must be there."""
    need(index < len(inputs) and inputs[index] is not None, f"operand {index} is missing")
    return inputs[index]  # type: ignore[return-value]

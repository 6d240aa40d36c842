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
        InternalError: The operator has no rule, or its operands do not fit it.
    """
    known = RULES.get(op_type)
    if known is None:
        raise InternalError(f"no type rule for {op_type}; make the node with types=")
    try:
        return known(inputs, attributes, n_outputs)
    except InternalError as error:
        shown = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in inputs)
        raise InternalError(f"{op_type}({shown}): {error}") from error


def need(condition: bool, what: str) -> None:
    """Raises InternalError(what) unless the condition holds."""
    if not condition:
        raise InternalError(what)


def operand(inputs: Inputs, index: int) -> oir.Value:
    """The operand at `index`, which must be there."""
    need(index < len(inputs) and inputs[index] is not None, f"operand {index} is missing")
    return inputs[index]  # type: ignore[return-value]

"""Handlers for the custom calls that users translate themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from hlo2onnx.custom_calls import CustomOp, Translation
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CALLED, CustomCall, call_key
from hlo2onnx.lowering.registry import Handler, plugin_of


def user_handler(target: str, translation: Translation) -> Handler:
    """The handler of a target with a user's translation."""
    make = _as_operator if isinstance(translation, CustomOp) else _as_expansion
    return Handler(
        call_key(target),
        "any",
        make(translation),  # type: ignore[arg-type]
        frozenset(),
        frozenset(),
        {CALLED: "the user says what is computed"},
        reads_rest=True,
        plugin=plugin_of(translation, target),
    )


# -- written in JAX -----------------------------------------------------------------------------


def _as_expansion(function: Callable[..., Any]) -> Callable[..., list[Parts]]:
    def handler(em: Emitter, op: CustomCall, **configuration: Any) -> list[Parts]:
        """@target(xs) -> function(xs), translated in place."""
        arguments = filter(None, (em.parts(operand) for operand in op.operands))
        made = em.through_jax(partial(function, **configuration), *arguments)
        remaining = iter(made)
        tokens = [not parts_of(result.type) for result in op.results]
        results = [() if is_token else next(remaining, ()) for is_token in tokens]
        return [*results, *remaining]

    return handler


# -- an operator --------------------------------------------------------------------------------


def _as_operator(operator: CustomOp) -> Callable[..., list[Parts]]:
    def handler(em: Emitter, op: CustomCall, **configuration: Any) -> list[Parts]:
        """@target(xs) -> one node."""
        if op.touches_complex:
            raise UnsupportedOp(f"@{op.target} has complex values, and no operator takes them")
        inputs = [part for operand in op.operands for part in em.parts(operand)]
        results = [parts_of(result.type) for result in op.results]
        attributes = _representable(op, operator.node_attributes(configuration))
        types = [part.value_type for parts in results for part in parts]
        made = iter(
            em.foreign(
                operator.domain, operator.version, operator.op_type, inputs, attributes, types
            )
        )
        return [tuple(next(made) for _ in parts) for parts in results]

    return handler


_KINDS = ({bool}, {int}, {float}, {str})


def _representable(op: CustomCall, attributes: object) -> Mapping[str, Any]:
    if not isinstance(attributes, Mapping):
        raise UnsupportedOp(
            f"the attributes for @{op.target} are not a mapping: {attributes!r}",
            "return a dictionary: CustomOp(..., attributes=lambda entries: {...})",
        )
    for name, item in attributes.items():
        kinds = {type(part) for part in item} if isinstance(item, list | tuple) else {type(item)}
        if not isinstance(item, np.ndarray) and kinds not in _KINDS:
            raise UnsupportedOp(
                f"attribute {name} of @{op.target} has no ONNX form: {item}",
                "give the operator's attributes: CustomOp(..., attributes=...)",
            )
    return attributes

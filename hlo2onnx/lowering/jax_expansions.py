"""The JAX function that a custom call is translated by."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx_ir as oir

from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.report import Report


def function_of(call: CustomCall) -> Callable[..., Any] | None:
    """The function of arrays that the handler of a call passes to `through_jax` with its operands;
    None if the handler does anything else.

    Its results, in any pytree, are the results of the call.
    """
    handler = load_handlers().find(call.key, call.touches_complex)
    if handler is None:
        return None
    emitter = _Recorder()
    attributes = {name: call.attribute(name) for name in call.attribute_names}
    read = {name: value for name, value in attributes.items() if name in handler.reads}
    handler.function(emitter, call, **read)
    return emitter.function


class _Recorder:
    """An emitter for handlers that only call `through_jax` on their operands."""

    def __init__(self) -> None:
        self.report = Report()
        self.function: Callable[..., Any] | None = None

    def parts(self, value: MlirValue) -> tuple[oir.Value, ...]:
        """Values of the operand's types."""
        return tuple(
            oir.Value(shape=oir.Shape(part.value_type[1]), type=oir.TensorType(part.dtype))
            for part in parts_of(value.type)
        )

    def through_jax(self, function: Callable[..., Any], *_: Any, **keywords: Any) -> list[Any]:
        """Keeps the function."""
        self.function = partial(function, **keywords)
        return []

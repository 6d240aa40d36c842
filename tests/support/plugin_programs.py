"""A program that calls @acme.kernel, and the error of its translation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hlo2onnx import TranslationError, translate
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles_call

Handler = Callable[..., Any]

PROGRAM = """
module { func.func public @main(%x: TYPE) -> TYPE {
  %0 = stablehlo.custom_call @acme.kernel(%x) : (TYPE) -> TYPE loc(#line)
  return %0 : TYPE
} }
#line = loc("swish"("model.py":7:3))
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def program(mlir_type: str = "tensor<2x3xf32>") -> str:
    return PROGRAM.replace("TYPE", mlir_type)


def refusal(handler: Handler, mlir_type: str = "tensor<2x3xf32>", **options: Any) -> str:
    """The error about a handler of a plug-in."""
    handles_call("acme.kernel", **options)(handler)
    with pytest.raises(TranslationError) as caught:
        translate(program(mlir_type))
    text = str(caught.value)
    assert "report" not in text and "a bug" not in text
    assert "where  model.py:7  swish" in text
    assert f"types  ({mlir_type}) -> {mlir_type}" in text
    assert text.count("\n  next   ") == 1
    line = handler.__code__.co_firstlineno
    name = re.escape(f"the handler {handler.__module__}.{handler.__qualname__} (")
    assert re.search(rf"{name}\S+\.py:{line}\)", text), text
    return text


def nothing(em: Emitter, op: Op) -> None:
    """A handler that returns nothing."""
    em.Relu(em.operand(op))


def two(em: Emitter, op: Op) -> Any:
    """A handler that returns two results instead of one."""
    return [em.operand(op)] * 2

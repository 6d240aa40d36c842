"""Verifies StableHLO's custom calls for dynamic ops. MLIR's verifier does not check them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, constant_operation, integers_of

_SHAPES = "indices_of_shape_operands"
_CALLED = "called_computations"


def operands_of(call: ir.Operation) -> list[MlirValue]:
    """The operands without the shapes of results (indices_of_shape_operands)."""
    shapes = set(to_python(call.attributes[_SHAPES]).flat) if _SHAPES in call.attributes else set()
    return [x for place, x in enumerate(call.operands) if place not in shapes]


def fault_of(call: ir.Operation) -> str | None:
    """The fault in such a call; None for a valid call, and for other custom calls."""
    check = _CHECKS.get(text_of(call, "call_target_name"))
    if check is None:
        return None
    operands = operands_of(call)
    if not all(is_tensor(value.type) for value in (*operands, *call.results)):
        return "an operand or a result is no tensor"
    return check(call, operands)


def _reduce_window(call: ir.Operation, operands: list[MlirValue]) -> str | None:
    values, windows = operands[:-5], operands[-5:]
    called = to_python(call.attributes[_CALLED]) if _CALLED in call.attributes else ()
    if not values or len(values) != 2 * len(call.results):
        return "it takes as many inputs and initial values as it has results, and 5 operands more"
    if len(called) != 1:
        return "it calls no single computation"
    rank = len(shape_of(values[0].type))
    wanted = [*[(rank,)] * 4, (rank, 2)]
    if [shape_of(value.type) for value in windows] != wanted or not all(map(_is_integer, windows)):
        return "what says how windows lie is not of as many integers as there are axes"
    if not all(map(_may_be_positive, windows[:4])):
        return "a size, stride or dilation is not positive"
    return None


def _top_k(call: ir.Operation, operands: list[MlirValue]) -> str | None:
    if len(operands) != 2 or len(call.results) != 2:
        return "it takes two operands and has two results"
    x, k = operands
    if not shape_of(x.type):
        return "its operand has no axis"
    return None if not shape_of(k.type) and _is_integer(k) else "k is no integer"


def _rng_bit_generator(call: ir.Operation, operands: list[MlirValue]) -> str | None:
    if len(operands) != 2 or len(call.results) != 2:
        return "it takes two operands and has two results"
    rank = len(shape_of(call.results[1].type))
    fits = shape_of(operands[1].type) == (rank,) and _is_integer(operands[1])
    return None if fits else "the shape it is given is no vector of the result's rank"


_CHECKS: Mapping[str, Callable[[ir.Operation, list[MlirValue]], str | None]] = {
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "stablehlo.dynamic_top_k": _top_k,
}


def _may_be_positive(value: MlirValue) -> bool:
    constant = constant_operation(value)
    return constant is None or bool((integers_of(constant) > 0).all())


def _is_integer(value: MlirValue) -> bool:
    return element_type(value.type).lstrip("u").startswith("i")

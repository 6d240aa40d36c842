"""Calls: the callee is translated in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as oir

from dialect_handlers.common.threefry import calls_threefry2x32, threefry2x32
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.op_families import schema_of
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.targets.target import schema_dtypes

# -- calls: the callee is translated in place -------------------------------------------------


@handles("func.call", form="real")
@handles("func.call", form="complex")
def call(em: Emitter, op: Op, *, callee: str) -> list[Parts]:
    """call @f(args) -> the body of @f, or a function of the model.

    Threefry, JAX's generator of random bits, has its own translation.
    """
    if calls_threefry2x32(em, callee):
        *_, first, second, high, low = em.operands(op)
        return [(word,) for word in threefry2x32(em, (first, second), (high, low))]
    return em.call(callee, [em.parts(operand) for operand in op.operands])


@handles("stablehlo.composite", form="real", ignores={"version": "picks among decompositions"})
@handles("stablehlo.composite", form="complex", ignores={"version": "picks among decompositions"})
def composite(
    em: Emitter,
    op: Op,
    *,
    decomposition: str,
    name: str = "",
    composite_attributes: Mapping[str, object] | None = None,
) -> list[Parts]:
    """composite "name" (args) -> its decomposition; "onnx.<Operator>" -> the operator."""
    if name.startswith(ONNX_PREFIX):
        return named_operator(em, op, name.removeprefix(ONNX_PREFIX), composite_attributes or {})
    return em.call(decomposition, [em.parts(operand) for operand in op.operands], name)


# -- composites that name an operator of ONNX -------------------------------------------------
#
# Composites that name an operator of ONNX: `jax.lax.composite(f, "onnx.Softmax")(x, axis=-1)`.


ONNX_PREFIX = "onnx."
"""The prefix of such a composite's name, before the name of the operator."""

Kind = onnx.defs.OpSchema.AttrType
_CONVERSIONS: Mapping[onnx.defs.OpSchema.AttrType, Callable[[Any], Any]] = {
    Kind.FLOAT: float,
    Kind.FLOATS: lambda item: tuple(map(float, item)),
    Kind.INT: int,
    Kind.INTS: lambda item: tuple(map(int, item)),
    Kind.STRING: str,
    Kind.STRINGS: lambda item: tuple(map(str, item)),
    Kind.TENSOR: np.asarray,
}


def named_operator(em: Emitter, op: Op, name: str, attributes: Mapping[str, object]) -> list[Parts]:
    """One node of an operator. The user vouches that the composite's decomposition is equivalent.

    Raises:
        UnsupportedOp: The opset has no such operator, or it does not take these operands or
            attributes.
    """
    try:
        schema = schema_of(name, em.opset)
    except onnx.defs.SchemaError:
        raise UnsupportedOp(f"opset {em.opset} has no operator {name}") from None
    if op.touches_complex:
        raise UnsupportedOp(f"{name} takes no complex numbers")
    inputs, results = em.operands(op), [parts_of(result.type) for result in op.results]
    _check_counts(schema, len(inputs), len(results))
    _check_types(schema, inputs)
    values = {key: _converted(schema, key, item) for key, item in attributes.items()}
    missing = [key for key, a in schema.attributes.items() if a.required and key not in values]
    if missing:
        raise UnsupportedOp(f"{name} needs the attribute {', '.join(missing)}")
    types = [part.value_type for parts in results for part in parts]
    return [(value,) for value in em.node(name, inputs, values, types)]


def _check_counts(schema: onnx.defs.OpSchema, inputs: int, outputs: int) -> None:
    for what, count, low, high in (
        ("operands", inputs, schema.min_input, schema.max_input),
        ("results", outputs, schema.min_output, schema.max_output),
    ):
        if not low <= count <= high:
            raise UnsupportedOp(f"{schema.name} has {low} to {high} {what}, not {count}")


def _check_types(schema: onnx.defs.OpSchema, inputs: list[oir.Value]) -> None:
    for index, x in enumerate(inputs):
        parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
        if dtype_of(x) not in schema_dtypes(schema, parameter.type_str):
            raise UnsupportedOp(
                f"{schema.name} takes no {dtype_of(x).name.lower()} as {parameter.name}",
                "convert the operand before the composite",
            )


def _converted(schema: onnx.defs.OpSchema, key: str, item: object) -> Any:
    known = schema.attributes.get(key)
    if known is None or known.type not in _CONVERSIONS:
        takes = ", ".join(schema.attributes) or "none"
        raise UnsupportedOp(
            f"{schema.name} has no attribute {key} that a composite can set; it has {takes}"
        )
    try:
        return _CONVERSIONS[known.type](item)
    except (TypeError, ValueError):
        kind = known.type.name.lower()
        raise UnsupportedOp(f"attribute {key} of {schema.name} is {kind}, not {item}") from None

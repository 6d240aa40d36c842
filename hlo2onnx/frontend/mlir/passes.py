"""MLIR's pass pipelines, tested with the oldest and the newest JAX, and passes of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.functions import functions_of, return_values
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, is_token, shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    constant_operation,
    defining_operation,
    integers_of,
    module_bytecode,
    operations_in,
    operations_of,
)

_SHAPES = "indices_of_shape_operands"
_CALLED = "called_computations"


def operands_of(call: ir.Operation) -> list[MlirValue]:
    """The operands without the shapes of results (indices_of_shape_operands)."""
    shapes = set(to_python(call.attributes[_SHAPES]).flat) if _SHAPES in call.attributes else set()
    return [x for place, x in enumerate(call.operands) if place not in shapes]


def is_malformed(call: ir.Operation) -> bool:
    """Whether the operands or results of such a call do not fit; False for other custom calls."""
    fits = _FIT.get(text_of(call, "call_target_name"))
    if fits is None:
        return False
    operands = operands_of(call)
    are_tensors = all(is_tensor(value.type) for value in (*operands, *call.results))
    return not are_tensors or not fits(call, operands)


def _fits_reduce_window(call: ir.Operation, operands: list[MlirValue]) -> bool:
    values, windows = operands[:-5], operands[-5:]
    called = to_python(call.attributes[_CALLED]) if _CALLED in call.attributes else ()
    if not values or len(values) != 2 * len(call.results) or len(called) != 1:
        return False
    rank = len(shape_of(values[0].type))
    shapes = [shape_of(value.type) for value in windows]
    are_integers = shapes == [*[(rank,)] * 4, (rank, 2)] and all(map(_is_integer, windows))
    return are_integers and all(map(_may_be_positive, windows[:4]))


def _fits_top_k(call: ir.Operation, operands: list[MlirValue]) -> bool:
    if len(operands) != 2 or len(call.results) != 2:
        return False
    x, k = operands
    return bool(shape_of(x.type)) and not shape_of(k.type) and _is_integer(k)


def _fits_rng_bit_generator(call: ir.Operation, operands: list[MlirValue]) -> bool:
    if len(operands) != 2 or len(call.results) != 2:
        return False
    rank = len(shape_of(call.results[1].type))
    return shape_of(operands[1].type) == (rank,) and _is_integer(operands[1])


_FIT: Mapping[str, Callable[[ir.Operation, list[MlirValue]], bool]] = {
    "stablehlo.dynamic_reduce_window": _fits_reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _fits_rng_bit_generator,
    "stablehlo.dynamic_top_k": _fits_top_k,
}


def _may_be_positive(value: MlirValue) -> bool:
    constant = constant_operation(value)
    return constant is None or bool((integers_of(constant) > 0).all())


def _is_integer(value: MlirValue) -> bool:
    return element_type(value.type).lstrip("u").startswith("i")


EXPAND_CHLO = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
"""Expands CHLO ops without an ONNX counterpart into StableHLO."""

EXPAND_COMPLEX = "builtin.module(func.func(stablehlo-complex-math-expander))"
"""Expands exponential, log, log_plus_one and sqrt of complex numbers into their parts."""

NORMALIZE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
    "stablehlo-canonicalize-dynamism))"
)
"""Replaces deprecated ops (dot, broadcast, create_token, ...), and by static ops those dynamic ops
whose sizes are constants."""

QUANTIZED_OPS = "builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq))"
"""Replaces ops on quantized types by ops on floats between conversions."""

FROM_VHLO = (
    f"builtin.module(vhlo-to-version{{target={stablehlo.get_current_version()}}},"
    "vhlo-legalize-to-stablehlo)"
)
"""Upgrades VHLO of any version that this jaxlib knows to StableHLO. Keeps other dialects."""


@cache
def _register() -> None:
    stablehlo.register_stablehlo_passes()


def run_pipeline(operation: ir.Operation, pipeline: str) -> None:
    """Runs a pipeline on a module operation in place."""
    _register()
    with operation.context:
        PassManager.parse(pipeline, operation.context).run(operation)


def refined(module_operation: ir.Operation, shapes: Sequence[Sequence[int] | None]) -> bytes:
    """Gives the arguments of @main static shapes, and infers all other shapes.

    Args:
        module_operation: The module. It changes.
        shapes: One per argument; None for an argument that is not a tensor.

    Returns:
        Bytecode of the static module.

    Raises:
        UsageError: The program does not admit these shapes, or its shapes depend on data.
    """
    arguments = functions_of(module_operation)["main"].regions[0].blocks[0].arguments
    types = [
        str(argument.type) if shape is None else _type_of(argument.type, shape)
        for argument, shape in zip(arguments, shapes, strict=True)
    ]
    _drop_defaults(module_operation)
    pipeline = f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}})"
    try:
        run_pipeline(module_operation, pipeline)
        content: bytes = _jax.mlir.refine_polymorphic_shapes(
            module_bytecode(module_operation),
            enable_shape_assertions=True,
            validate_static_shapes=True,
        )
    except (ir.MLIRError, _jax.JaxRuntimeError, ValueError) as error:
        raise UsageError(f"the program does not admit these shapes: {error}") from error
    return content


def _drop_defaults(module_operation: ir.Operation) -> None:
    """Removes attributes that repeat defaults. With them, the pass does not see dynamic ops."""
    for operation in operations_of(module_operation):
        if operation.name == "stablehlo.custom_call":
            attributes = operation.attributes
            for name in ("has_side_effect", "called_computations"):
                if name in attributes and not to_python(attributes[name]):
                    del attributes[name]


def _type_of(mlir_type: ir.Type, shape: Sequence[int]) -> str:
    element = ir.RankedTensorType(mlir_type).element_type
    return f"tensor<{''.join(f'{dim}x' for dim in shape)}{element}>"


def flatten_results(function: ir.Operation) -> list[int] | None:
    """Makes a function return the members of tuples instead of the tuples, in place.

    Returns:
        Places of the results that are tensors; None if no result is a tuple, and nothing changes.
    """
    (block,) = function.regions[0].blocks
    end = operations_in(block)[-1]
    if not any(isinstance(value.type, ir.TupleType) for value in end.operands):
        return None
    with function.context, end.location, ir.InsertionPoint(end):
        values = [member for value in end.operands for member in _members(value)]
    return_values(function, values)
    return [place for place, value in enumerate(values) if not is_token(value.type)]


def _members(value: MlirValue) -> list[MlirValue]:
    """The tensors and tokens in a value, at any depth."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    maker = defining_operation(value)
    if maker is not None and maker.name == "stablehlo.tuple":
        parts = list(maker.operands)
    else:
        mlir_type = ir.TupleType(value.type)
        parts = [_member(value, mlir_type, index) for index in range(mlir_type.num_types)]
    return [member for part in parts for member in _members(part)]


def _member(value: MlirValue, mlir_type: ir.TupleType, index: int) -> MlirValue:
    place = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), index)
    made = ir.Operation.create(
        "stablehlo.get_tuple_element", [mlir_type.get_type(index)], [value], {"index": place}
    )
    return made.result


_IN_CHLO = {
    f"mhlo.{name}": f"chlo.{name}"
    for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")
}
"""Ops of MHLO that CHLO has and StableHLO has not. (`mhlo.topk` is not among them: it can also find
the smallest elements.)"""


def replace_calls(module_operation: ir.Operation) -> None:
    """Replaces custom calls in place.

    These are ops of MHLO, dynamic forms of ops whose dynamic operands are constants, and the marks
    `@xla_mark_tensor`.
    """
    for operation in operations_of(module_operation):
        if operation.name != "stablehlo.custom_call":
            continue
        make = _MAKERS.get(text_of(operation, "call_target_name"))
        if make is None or is_malformed(operation):
            continue
        with ir.InsertionPoint(operation), operation.location:
            made = make(operation)
        if made is not None:
            for old, new in zip(operation.results, made, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()


def _in_chlo(call: ir.Operation) -> Sequence[MlirValue]:
    name = _IN_CHLO[text_of(call, "call_target_name")]
    return list(ir.Operation.create(name, _types(call), list(call.operands)).results)


def _marked(call: ir.Operation) -> Sequence[MlirValue]:
    """A mark returns its operands."""
    return list(call.operands)


def _reduce_window(call: ir.Operation) -> Sequence[MlirValue] | None:
    """dynamic_reduce_window(inputs, inits, window_dimensions, window_strides, base_dilations,
    window_dilations, padding), whose computation is a called function."""
    operands = operands_of(call)
    values = operands[:-5]
    constants = [found for x in operands[-5:] if (found := constant_operation(x)) is not None]
    if len(constants) != 5:
        return None
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    arrays = (ir.DenseI64ArrayAttr.get(integers_of(item).tolist()) for item in constants[:-1])
    attributes: dict[str, ir.Attribute] = dict(zip(names, arrays, strict=True))
    attributes["padding"] = constants[-1].attributes["value"]
    made = ir.Operation.create(
        "stablehlo.reduce_window", _types(call), values, attributes, regions=1
    )
    scalars = [_scalar(value.type) for value in values]
    block = made.regions[0].blocks.append(*scalars, arg_locs=[call.location] * len(scalars))
    with ir.InsertionPoint(block):
        (computation,) = ir.ArrayAttr(call.attributes["called_computations"])
        results = scalars[: len(scalars) // 2]
        returned = ir.Operation.create(
            "func.call", results, list(block.arguments), {"callee": computation}
        )
        ir.Operation.create("stablehlo.return", operands=list(returned.results))
    return list(made.results)


def _rng_bit_generator(call: ir.Operation) -> Sequence[MlirValue] | None:
    """dynamic_rng_bit_generator(state, shape) with results of static types."""
    if not all(ir.RankedTensorType(mlir_type).has_static_shape for mlir_type in _types(call)):
        return None
    attributes = {"rng_algorithm": call.attributes["rng_algorithm"]}
    operands = operands_of(call)[:1]
    made = ir.Operation.create("stablehlo.rng_bit_generator", _types(call), operands, attributes)
    return list(made.results)


_MAKERS: Mapping[str, Callable[[ir.Operation], Sequence[MlirValue] | None]] = {
    **dict.fromkeys(_IN_CHLO, _in_chlo),
    "stablehlo.dynamic_reduce_window": _reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "xla_mark_tensor": _marked,
}
"""Functions that make the results of a target's call; None if it is dynamic."""


def _types(call: ir.Operation) -> list[ir.Type]:
    return [result.type for result in call.results]


def _scalar(mlir_type: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)

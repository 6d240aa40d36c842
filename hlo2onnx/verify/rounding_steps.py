"""Moves floats just before they become integers, as far as a correct result may be off.

A float of 2.9999998 becomes 2, and one of 3 becomes 3. Both may be right. Results that differ by
what follows from this are right, too.
"""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, defining_operation, made, operations_of
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.guards import broadcast, compared, constant
from hlo2onnx.verify.tolerance import tolerance_of

_ROUNDINGS = frozenset(
    f"stablehlo.{name}" for name in ("ceil", "floor", "round_nearest_afz", "round_nearest_even")
)
_EXACT = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs", "broadcast_in_dim", "clamp", "concatenate", "constant", "iota", "maximum", "minimum",
        "negate", "pad", "reshape", "reverse", "select", "slice", "transpose",
    )
) | _ROUNDINGS  # fmt: skip
"""Ops whose results are exact if their operands are."""
_GRID = 8.0
"""Floats that are all multiples of 1 / 8 are taken to be exact."""
_MOST = 0.125
"""Limit of the part of a move that depends on the largest element."""


def move_steps(module: ir.Operation, sign: int) -> bool:
    """Moves inexact floats where they are rounded or converted to integers, in place.

    Args:
        sign: 1 to move them up, -1 to move them down.

    Returns:
        Whether there are any.
    """
    steps = [item for item in operations_of(module) if _is_step(item)]
    known: dict[MlirValue, bool] = {}
    steps = [item for item in steps if _is_inexact(item.operands[0], known)]
    with module.context, ir.Location.unknown():
        for step in steps:
            with ir.InsertionPoint(step):
                step.operands[0] = _moved(step.operands[0], sign)
    return bool(steps)


def _is_step(operation: ir.Operation) -> bool:
    if operation.name in _ROUNDINGS:
        return _is_float(operation.operands[0].type)
    if operation.name != "stablehlo.convert" or not _is_float(operation.operands[0].type):
        return False
    to = operation.results[0].type
    return not is_complex(to) and is_integer(numpy_type(element_type(to)))


def _is_float(mlir_type: ir.Type) -> bool:
    return is_tensor(mlir_type) and element_type(mlir_type) in ("f16", "bf16", "f32", "f64")


def _is_inexact(value: MlirValue, known: dict[MlirValue, bool]) -> bool:
    """Whether a float may have a rounding error: it is not an element of an input, for example."""
    if value in known:
        return known[value]
    maker = defining_operation(value)
    if maker is None:
        assert isinstance(value.owner, ir.Block)
        region = value.owner.owner.operation
        is_main = region.name == "func.func" and str(region.attributes["sym_name"]) == '"main"'
        found = not is_main
    elif maker.name == "stablehlo.convert":
        before = maker.operands[0]
        found = _is_float(before.type) and _is_inexact(before, known)
    elif maker.name in _EXACT:
        found = any(_is_inexact(x, known) for x in maker.operands if _is_float(x.type))
    else:
        found = True
    known[value] = found
    return found


def _moved(value: MlirValue, sign: int) -> MlirValue:
    """The elements, each moved by the tolerance of its type."""
    dtype = numpy_type(element_type(value.type))
    tolerance = tolerance_of(dtype)
    assert tolerance is not None
    size = made("abs", value.type, value)
    flags = compared("EQ", value, value).type
    is_finite = made("is_finite", flags, value)
    size = made("select", value.type, is_finite, size, _filled(0, value.type))
    is_exact = _is_exact(made("select", value.type, is_finite, value, _filled(0, value.type)))
    scale = _largest(size)
    common = made("multiply", scale.type, scale, _filled(tolerance.absolute, scale.type))
    common = made("minimum", scale.type, common, _filled(_MOST, scale.type))
    own = made("multiply", value.type, size, _filled(tolerance.relative, value.type))
    move = made("add", value.type, own, broadcast(common, value.type))
    name = "add" if sign > 0 else "subtract"
    return made("select", value.type, is_exact, value, made(name, value.type, value, move))


def _is_exact(value: MlirValue) -> MlirValue:
    """Which finite floats are exact: all on a grid, or clipped at a whole number."""
    grid = made("multiply", value.type, value, _filled(_GRID, value.type))
    rest = made("subtract", value.type, grid, made("floor", value.type, grid))
    found = compared("EQ", broadcast(_largest(rest), value.type), 0)
    is_whole = compared("EQ", value, made("floor", value.type, value))
    negative = made("negate", value.type, value)
    for x in (value, negative):
        is_end = compared("EQ", x, broadcast(_largest(x), value.type))
        found = made("or", found.type, found, made("and", found.type, is_end, is_whole))
    return found


def _largest(value: MlirValue) -> MlirValue:
    """The largest of the elements, as a scalar."""
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(value.type).element_type)
    rank = len(shape_of(value.type))
    reduction = ir.Operation.create(
        "stablehlo.reduce",
        [scalar],
        [value, _filled(-np.inf, scalar)],
        {"dimensions": ir.DenseI64ArrayAttr.get(list(range(rank)))},
        regions=1,
    )
    unknown = ir.Location.unknown()
    block = reduction.regions[0].blocks.append(scalar, scalar, arg_locs=[unknown, unknown])
    with ir.InsertionPoint(block):
        larger = made("maximum", scalar, *block.arguments)
        ir.Operation.create("stablehlo.return", operands=[larger])
    return reduction.result


def _filled(number: float, mlir_type: ir.Type) -> MlirValue:
    tensor = ir.RankedTensorType(mlir_type)
    scalar = ir.RankedTensorType.get([], tensor.element_type)
    one = constant(np.array(number).astype(numpy_type(element_type(mlir_type))), scalar)
    return broadcast(one, mlir_type) if tensor.shape else one

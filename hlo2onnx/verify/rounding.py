"""Programs that round otherwise, as another correct implementation might.

-   The weights are rounded as the model stores them.
-   Floats move just before they become integers, as far as a correct result may be off. A float of
    2.9999998 becomes 2, and one of 3 becomes 3. Both may be right.
-   Results of inexact ops are multiplied by 1 plus or minus a few units in the last place. The sign
    differs by element, and from one trip of a loop to the next: errors of one sign cancel in sums
    whose terms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import pairwise

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.constants import Constants, Splat
from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type, shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    defining_operation,
    dense,
    made,
    operations_in,
    operations_of,
)
from hlo2onnx.ir.weight_storage import STORAGE_TYPES
from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.guards import broadcast, compared, filled, reduced
from hlo2onnx.verify.tolerance import tolerance_of

# -- weights --------------------------------------------------------------------------------------


def round_constants(module: ir.Operation, name: str) -> None:
    """Rounds the f32 constants that are weights, in place.

    Args:
        module: The module, with dense constants.
        name: The storage type, a key of `STORAGE_TYPES`.
    """
    narrow = STORAGE_TYPES[name].numpy()
    constants = Constants()
    for operation in operations_of(module):
        if operation.name != "stablehlo.constant" or not _is_weight(operation.results[0].type):
            continue
        content = constants.read(operation)
        if isinstance(content, Splat):  # it is stored as a scalar
            continue
        rounded = content.astype(narrow).astype(content.dtype)
        operation.attributes["value"] = dense(rounded, operation.results[0].type)


_HALF = {"f16": (5, 10), "bf16": (8, 7)}
"""Bits of exponents and mantissas."""
_MOVES = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "slice", "transpose")
)


def keep_half_weights(module: ir.Operation, inputs: Collection[int]) -> None:
    """Rounds f32 weights that the program converts to a half type explicitly, in place.

    The evaluation in f64 converts nothing to narrower types. The model stores rounded weights.

    Args:
        inputs: Positions of the arguments of `main` that are not weights.
    """
    with module.context, ir.Location.unknown():
        for operation in list(operations_of(module)):
            if operation.name != "stablehlo.convert":
                continue
            x = operation.operands[0]
            bits = _HALF.get(element_type(operation.results[0].type))
            if bits is None or element_type(x.type) != "f32" or not _is_stored(x, inputs):
                continue
            i32 = ir.IntegerType.get_signless(32)
            exponent, mantissa = (ir.IntegerAttr.get(i32, count) for count in bits)
            with ir.InsertionPoint(operation):
                operation.operands[0] = made(
                    "reduce_precision", x.type, x, exponent_bits=exponent, mantissa_bits=mantissa
                )


def _is_stored(value: MlirValue, inputs: Collection[int]) -> bool:
    """Whether a value is a constant or a bound argument, perhaps moved."""
    maker = defining_operation(value)
    if maker is not None and maker.name in _MOVES:
        return _is_stored(maker.operands[0], inputs)
    if maker is not None:
        return maker.name == "stablehlo.constant"
    argument: ir.BlockArgument[ir.Type] = ir.BlockArgument(value)
    return _is_argument_of_main(argument) and argument.arg_number not in inputs


def _is_weight(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or element_type(mlir_type) != "f32":
        return False
    return math.prod(dim or 0 for dim in shape_of(mlir_type)) > SMALL_ELEMENTS


# -- floats that become integers ------------------------------------------------------------------

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


def _is_inexact(value: MlirValue, known: dict[MlirValue, bool]) -> bool:
    """Whether a float may have a rounding error: it is not an element of an input, for example."""
    if value in known:
        return known[value]
    maker = defining_operation(value)
    if maker is None:
        found = not _is_argument_of_main(ir.BlockArgument(value))
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
    size = made("select", value.type, is_finite, size, filled(0, value.type))
    is_exact = _is_exact(made("select", value.type, is_finite, value, filled(0, value.type)))
    scale = _largest(size)
    common = made("multiply", scale.type, scale, filled(tolerance.absolute, scale.type))
    common = made("minimum", scale.type, common, filled(_MOST, scale.type))
    own = made("multiply", value.type, size, filled(tolerance.relative, value.type))
    move = made("add", value.type, own, broadcast(common, value.type))
    name = "add" if sign > 0 else "subtract"
    return made("select", value.type, is_exact, value, made(name, value.type, value, move))


def _is_exact(value: MlirValue) -> MlirValue:
    """Which finite floats are exact: all on a grid, or clipped at a whole number."""
    grid = made("multiply", value.type, value, filled(_GRID, value.type))
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
    return reduced("maximum", value, -np.inf)


# -- inexact ops ----------------------------------------------------------------------------------

UNITS = 2
"""The change, in units in the last place."""

_FUNCTIONS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "atan2", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
        "logistic", "sine", "tan", "tanh",
    )
)  # fmt: skip
"""Functions without exact results, but for a few."""
_ARITHMETIC = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add", "cbrt", "cholesky", "convolution", "custom_call", "divide", "dot_general",
        "multiply", "power", "reduce", "reduce_window", "rsqrt", "sqrt", "subtract",
        "triangular_solve",
    )
)  # fmt: skip
"""Ops that are often exact on integers. Their integers stay, if they are small enough to tell."""
_WITH_BLOCKS = frozenset({"func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if"})
"""Ops whose regions are changed. Those of a reduction, for example, are part of their op."""


def round_otherwise(module: ir.Operation, rng: np.random.Generator) -> bool:
    """Changes the results of inexact ops, in place.

    Signs of the changes are a random function of the bits of an element.

    Returns:
        Whether there are any.
    """
    changes = False
    with module.context, ir.Location.unknown():
        for around in operations_of(module):
            if around.name in _WITH_BLOCKS:
                for region in around.regions:
                    for block in region.blocks:
                        changes |= _change_block(block, rng)
    return changes


def _change_block(block: ir.Block, rng: np.random.Generator) -> bool:
    changes = False
    for operation, following in pairwise(operations_in(block)):
        if operation.name == "stablehlo.fft":
            _change_operand(operation, rng)
            changes = True
        elif operation.name in _FUNCTIONS or operation.name in _ARITHMETIC:
            for result in operation.results:
                if _is_float(result.type):
                    _change(result, operation, following, rng)
                    changes = True
    return changes


def _change(
    value: MlirValue, maker: ir.Operation, following: ir.Operation, rng: np.random.Generator
) -> None:
    uses = [(use.owner, use.operand_number) for use in value.uses]
    with ir.InsertionPoint(following):
        changed = _scaled(value, rng)
        if maker.name in _ARITHMETIC:
            changed = made("select", value.type, _is_whole(value), value, changed)
    for owner, place in uses:
        owner.operation.operands[place] = changed


def _is_whole(value: MlirValue) -> MlirValue:
    """Which elements are integers of a size at which the type has all integers."""
    most = 2 / float(ml_dtypes.finfo(numpy_type(element_type(value.type))).eps)
    flags = compared("EQ", value, made("floor", value.type, value))
    return made("and", flags.type, flags, compared("LE", made("abs", value.type, value), most))


def _change_operand(transform: ir.Operation, rng: np.random.Generator) -> None:
    """Changes the elements of which a Fourier transform makes sums.

    Its errors are relative to the largest results, not to each of them.
    """
    x = transform.operands[0]
    with ir.InsertionPoint(transform):
        if is_complex(x.type):
            tensor = ir.RankedTensorType(x.type)
            part = ir.RankedTensorType.get(
                tensor.shape, ir.ComplexType(tensor.element_type).element_type
            )
            parts = [made(name, part, x) for name in ("real", "imag")]
            changed = made("complex", x.type, *(_scaled(each, rng) for each in parts))
        else:
            changed = _scaled(x, rng)
    transform.operands[0] = changed


def _scaled(value: MlirValue, rng: np.random.Generator) -> MlirValue:
    """The elements, each changed by some units in the last place."""
    dtype = numpy_type(element_type(value.type))
    part = UNITS * float(ml_dtypes.finfo(dtype).eps)
    more, less = (filled(number, value.type) for number in (1 + part, 1 - part))
    factor = made("select", value.type, _random_flags(value, dtype, rng), more, less)
    return made("multiply", value.type, value, factor)


def _random_flags(value: MlirValue, dtype: np.dtype, rng: np.random.Generator) -> MlirValue:
    """Flags that depend on the bits of each element: the sign of their product with an odd number.

    The highest bit of a product depends on all bits.
    """
    width = dtype.itemsize * 8
    tensor = ir.RankedTensorType(value.type)
    bits_type = ir.RankedTensorType.get(tensor.shape, ir.IntegerType.get_signless(width))
    odd = int(rng.integers(1 << width - 2, 1 << width - 1)) | 1
    multiplier = filled(odd, bits_type)
    bits = made("bitcast_convert", bits_type, value)
    return compared("LT", made("multiply", bits_type, bits, multiplier), 0)


def _is_float(mlir_type: ir.Type) -> bool:
    return is_tensor(mlir_type) and element_type(mlir_type) in ("f16", "bf16", "f32", "f64")


def _is_argument_of_main(argument: ir.BlockArgument[ir.Type]) -> bool:
    function = argument.owner.owner.operation
    return function.name == "func.func" and str(function.attributes["sym_name"]) == '"main"'

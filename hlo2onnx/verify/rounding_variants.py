"""Changes how a program rounds, as another correct implementation would.

Results of inexact ops are multiplied by 1 plus or minus a few units in the last place. The sign
differs by element, and from one trip of a loop to the next: errors of one sign cancel in sums whose
terms cancel.
"""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type
from hlo2onnx.frontend.mlir.values import MlirValue, made, operations_in
from hlo2onnx.verify.guards import broadcast, compared, constant

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
_REGIONS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})


def round_otherwise(module: ir.Operation, rng: np.random.Generator) -> None:
    """Changes the results of inexact ops, in place.

    Signs of the changes are a random function of the bits of an element.
    """
    with module.context, ir.Location.unknown():
        for function in operations_in(module.regions[0].blocks[0]):
            for region in function.regions:
                for block in region.blocks:
                    _change_block(block, rng)


def _change_block(block: ir.Block, rng: np.random.Generator) -> None:
    for operation, following in pairwise(operations_in(block)):
        if operation.name == "stablehlo.fft":
            _change_operand(operation, rng)
        if operation.name in _REGIONS:
            for region in operation.regions:
                _change_block(region.blocks[0], rng)
        elif operation.name in _FUNCTIONS or operation.name in _ARITHMETIC:
            for result in operation.results:
                if _is_float(result.type):
                    _change(result, operation, following, rng)


def _is_float(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or is_complex(mlir_type):
        return False
    return element_type(mlir_type) in ("f16", "bf16", "f32", "f64")


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
            real = numpy_type(element_type(x.type)).type(0).real.dtype
            part = ir.RankedTensorType.get(ir.RankedTensorType(x.type).shape, _mlir_float(real))
            parts = [made(name, part, x) for name in ("real", "imag")]
            changed = made("complex", x.type, *(_scaled(each, rng) for each in parts))
        else:
            changed = _scaled(x, rng)
    transform.operands[0] = changed


def _scaled(value: MlirValue, rng: np.random.Generator) -> MlirValue:
    """The elements, each changed by some units in the last place."""
    dtype = numpy_type(element_type(value.type))
    part = UNITS * float(ml_dtypes.finfo(dtype).eps)
    more, less = (_filled(np.array(x).astype(dtype), value.type) for x in (1 + part, 1 - part))
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
    multiplier = _filled(np.array(odd, f"i{dtype.itemsize}"), bits_type)
    bits = made("bitcast_convert", bits_type, value)
    return compared("LT", made("multiply", bits_type, bits, multiplier), 0)


def _mlir_float(dtype: np.dtype) -> ir.Type:
    return ir.F64Type.get() if dtype.itemsize > 4 else ir.F32Type.get()


def _filled(number: np.ndarray, mlir_type: ir.Type) -> MlirValue:
    """A tensor of one number."""
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)
    return broadcast(constant(number, scalar), mlir_type)

"""Changes how a program rounds, as another correct implementation would.

Results of inexact ops are multiplied by 1 plus or minus a few units in the last place.
"""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.mlir.types import element_type, is_complex, is_tensor, numpy_type
from hlo2onnx.mlir.values import MlirValue, made
from hlo2onnx.mlir.walk import operations_in
from hlo2onnx.verification.guards import broadcast, compared, constant

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
        "multiply", "power", "reduce", "rsqrt", "sqrt", "subtract", "triangular_solve",
    )
)  # fmt: skip
"""Ops that are often exact on integers. Their integers stay."""
_REGIONS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})


def round_otherwise(module: ir.Operation, rng: np.random.Generator) -> None:
    """Changes the results of inexact ops, in place. Signs of the changes are random."""
    with module.context, ir.Location.unknown():
        for function in operations_in(module.regions[0].blocks[0]):
            for region in function.regions:
                for block in region.blocks:
                    _change_block(block, rng)


def _change_block(block: ir.Block, rng: np.random.Generator) -> None:
    for operation, following in pairwise(operations_in(block)):
        if operation.name in _REGIONS:
            for region in operation.regions:
                _change_block(region.blocks[0], rng)
        elif operation.name in _FUNCTIONS or operation.name in _ARITHMETIC:
            for result in operation.results:
                if _is_float(result.type):
                    _change(result, operation, following, 1.0 if rng.random() < 0.5 else -1.0)


def _is_float(mlir_type: ir.Type) -> bool:
    if not is_tensor(mlir_type) or is_complex(mlir_type):
        return False
    return element_type(mlir_type) in ("f16", "bf16", "f32", "f64")


def _change(value: MlirValue, maker: ir.Operation, following: ir.Operation, sign: float) -> None:
    uses = [(use.owner, use.operand_number) for use in value.uses]
    dtype = numpy_type(element_type(value.type))
    factor = np.array(1 + sign * UNITS * float(ml_dtypes.finfo(dtype).eps)).astype(dtype)
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(value.type).element_type)
    with ir.InsertionPoint(following):
        changed = made(
            "multiply", value.type, value, broadcast(constant(factor, scalar), value.type)
        )
        if maker.name in _ARITHMETIC:
            is_whole = compared("EQ", value, made("floor", value.type, value))
            changed = made("select", value.type, is_whole, value, changed)
    for owner, place in uses:
        owner.operation.operands[place] = changed

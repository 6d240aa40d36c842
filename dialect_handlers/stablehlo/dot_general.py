"""dot_general: any contraction of two tensors, as MatMul."""

from __future__ import annotations

import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.contraction import Operand, accumulate, complex_product, contract
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

IGNORES = {
    "precision_config": "XLA computes at full precision on the CPU, whatever it says",
    "algorithm": "XLA ignores it on the CPU: operands keep their precision, sums are exact enough",
}


@handles("stablehlo.dot_general", ignores=IGNORES)
@handles("stablehlo.dot_general", form="complex", ignores=IGNORES)
def dot_general(
    em: Emitter, op: Op, *, dot_dimension_numbers: stablehlo.DotDimensionNumbers
) -> Parts:
    """dot_general(lhs, rhs) -> MatMul, with the Transposes and Reshapes that it needs."""
    numbers = dot_dimension_numbers
    lhs, rhs = (em.parts(operand) for operand in op.operands)
    types = parts_of(op.results[0].type)
    if len(types) != len(lhs):
        raise unsupported("mixed parts")
    readers_perm = _readers_perm(op)

    def contraction(x: oir.Value, y: oir.Value) -> oir.Value:
        return contract(
            em,
            Operand(
                x,
                tuple(numbers.lhs_batching_dimensions),
                tuple(numbers.lhs_contracting_dimensions),
            ),
            Operand(
                y,
                tuple(numbers.rhs_batching_dimensions),
                tuple(numbers.rhs_contracting_dimensions),
            ),
            readers_perm,
        )

    def product(x: oir.Value, y: oir.Value) -> oir.Value:
        return accumulate(em, contraction, x, y, types[0].dtype)

    return complex_product(em, product, lhs, rhs)


def _readers_perm(op: Op) -> tuple[int, ...]:
    """The permutation of a chain of transposes, if only they read the result."""
    perm = tuple(range(len(op.result_shape())))
    reader = op.reader
    while reader is not None and reader.name == "stablehlo.transpose":
        perm = tuple(perm[axis] for axis in reader.attribute("permutation"))
        reader = reader.reader
    return perm

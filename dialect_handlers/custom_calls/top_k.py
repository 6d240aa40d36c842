"""Custom calls for the k largest elements, exact or approximate."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.sorting import largest_of, sort_by_region
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call
from hlo2onnx.lowering.shape_arithmetic import dims_of

_STABLE = {"is_stable": "equal elements always come in the order of their indices"}


@handles_call("mhlo.topk", ignores=_STABLE)
def mhlo_top_k(em: Emitter, op: CustomCall, *, k: int, largest: bool = True) -> list[oir.Value]:
    """@mhlo.topk(x) -> TopK along the last axis, in total order."""
    return largest_of(em, em.operand(op), k, largest)


@handles_call("stablehlo.dynamic_top_k", ignores=_STABLE)
def dynamic_top_k(em: Emitter, op: CustomCall) -> list[oir.Value]:
    """@stablehlo.dynamic_top_k(x, k) -> TopK; the scalar k may be known only at run time."""
    x, k = em.operands(op)
    (extent,) = dims_of(em, k, op.result_shape()[-1:])
    return largest_of(em, x, extent)


_APPROXIMATE = {
    "top_k": "the result's extent says it, which is greater where results are not aggregated",
    "recall_target": "the exact result has recall 1",
    "aggregate_to_topk": "what is aggregated already may be aggregated again",
    "reduction_input_size_override": "tunes the approximation",
    "is_fallback": "says that this platform may approximate by sorting",
    "log2_reduction": "tunes the approximation",
    "backend_config": "an empty text",
}


@handles_call("ApproxTopK", form="any", ignores=_APPROXIMATE)
def approx_top_k(
    em: Emitter, op: CustomCall, *, called_computations: tuple[str, ...], reduction_dim: int
) -> list[Parts]:
    """@ApproxTopK(inputs, inits) -> the exact first k in the comparator's order.

    The inits would fill the gaps of an approximation; an exact result has none.
    """
    k = op.result_shape()[reduction_dim]
    if k is None:
        raise UnsupportedOp("its number of results, k, is not constant", "use jax.lax.top_k")
    return _first_of(em, op.operands, called_computations[0], reduction_dim, k)


@handles_call("stablehlo.dynamic_approx_top_k", form="any", ignores=_APPROXIMATE)
def dynamic_approx_top_k(
    em: Emitter, op: CustomCall, *, called_computations: tuple[str, ...], reduction_dim: int
) -> list[Parts]:
    """@stablehlo.dynamic_approx_top_k(inputs, inits, k) -> ApproxTopK; k may be symbolic."""
    *values, k = op.operands
    (extent,) = dims_of(em, em.parts(k)[0], [op.result_shape()[reduction_dim]])
    return _first_of(em, values, called_computations[0], reduction_dim, extent)


def _first_of(
    em: Emitter, values: Sequence[MlirValue], comparator: str, axis: int, k: Dim
) -> list[Parts]:
    block = em.context.functions[comparator].regions[0].blocks[0]
    return sort_by_region(em, block, values[: len(values) // 2], axis, k)

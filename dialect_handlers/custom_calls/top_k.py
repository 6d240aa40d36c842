"""Custom calls for the k largest elements, exact or approximate."""

from __future__ import annotations

import onnx_ir as oir

from dialect_handlers.common.largest import largest_of
from dialect_handlers.common.sorting import sort_by_region
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

_STABLE = {"is_stable": "equal elements always come in the order of their indices"}


@handles_call("mhlo.topk", ignores=_STABLE)
def mhlo_top_k(em: Emitter, op: CustomCall, *, k: int, largest: bool = True) -> list[oir.Value]:
    """@mhlo.topk(x) -> TopK along the last axis, in total order."""
    return largest_of(em, em.operand(op), k, largest)


@handles_call("stablehlo.dynamic_top_k", ignores=_STABLE)
def dynamic_top_k(em: Emitter, op: CustomCall) -> list[oir.Value]:
    """@stablehlo.dynamic_top_k(x, k) -> TopK, k being a scalar known at run time."""
    x, k = em.operands(op)
    extent = em.result_type(op).shape[-1]
    if extent is not None:
        return largest_of(em, x, extent)
    return largest_of(em, x, em.reshape(em.cast(k, oir.DataType.INT64), [1]))


@handles_call(
    "ApproxTopK",
    form="any",
    ignores={
        "top_k": "the result's extent says it, which is greater where results are not aggregated",
        "recall_target": "the exact result has recall 1",
        "aggregate_to_topk": "what is aggregated already may be aggregated again",
        "reduction_input_size_override": "tunes the approximation",
        "is_fallback": "says that this platform may approximate by sorting",
        "log2_reduction": "tunes the approximation",
        "backend_config": "an empty text",
    },
)
def approx_top_k(
    em: Emitter, op: CustomCall, *, called_computations: tuple[str, ...], reduction_dim: int
) -> list[Parts]:
    """@ApproxTopK(inputs, inits) -> the exact first k in the comparator's order; the inits, which
    would fill gaps of an approximation, are not needed."""
    count = len(op.operands) // 2
    function = em.walker.functions[called_computations[0]]
    k = op.result_shape()[reduction_dim]
    if k is None:
        raise UnsupportedOp("how many elements it gives is symbolic", "use jax.lax.top_k")
    block = function.regions[0].blocks[0]
    return sort_by_region(em, block, op.operands[:count], reduction_dim, k)

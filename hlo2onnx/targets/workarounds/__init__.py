"""Workarounds for a runtime's faults: what replaces the nodes that meet one.

A target switches them on: by a flag, or by a fusion that its table calls harmful, which also says
in which versions of the runtime. The functions say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlo2onnx.targets.builder import Outputs
from hlo2onnx.targets.target import Target
from hlo2onnx.targets.workarounds.constants import spell_out_weights, write_zero_point
from hlo2onnx.targets.workarounds.fusions import (
    CONV_NORMALIZATION,
    MATMUL_NORMALIZATION,
    keep_bias_apart,
    keep_factor_apart,
    keep_shift_apart,
    spell_out_normalization,
)
from hlo2onnx.targets.workarounds.graph_fusions import (
    move_axes,
    part_clamp,
    spell_out_axes,
    spell_out_reciprocal,
    spell_out_scale,
    transpose_in_gemm,
)
from hlo2onnx.targets.workarounds.nan import GUARDED_FUNCTIONS, guard_domain, guard_nan
from hlo2onnx.targets.workarounds.numerics import (
    center_rows,
    fill_rows,
    split_long_sum,
    trim_rows,
)
from hlo2onnx.targets.workarounds.slow_kernels import (
    count_integers,
    move_one_axis,
    select_by_arithmetic,
    transpose_with_batch_last,
)

Row = tuple[str, Sequence[str], Callable[..., Outputs]]
"""A fault (see `Target.has`), the operators that it concerns, and what replaces their nodes: None
for a node that does not meet the fault."""

WORKAROUNDS: Sequence[Row] = (
    # fusions that give other numbers
    ("ConvAddFusion", ("Add",), keep_shift_apart),
    ("ConvMulFusion", ("Mul",), keep_factor_apart),
    ("WeightBiasQuantization", ("Conv", "Gemm"), keep_bias_apart),
    ("folds_batch_norm", ("BatchNormalization",), spell_out_normalization),
    (CONV_NORMALIZATION, ("BatchNormalization",), spell_out_normalization),
    (MATMUL_NORMALIZATION, ("BatchNormalization",), spell_out_normalization),
    ("QDQSelectorActionTransformer", ("DequantizeLinear",), spell_out_weights),
    ("DivMulFusion", ("Div",), spell_out_reciprocal),
    ("DivMulFusion", ("Div",), move_axes),
    ("GeluFusion", ("Add", "Mul"), move_axes),
    ("FastGeluFusion", ("Pow",), move_axes),
    ("MatMulScaleFusion", ("Div", "Mul"), spell_out_scale),
    ("MatmulTransposeFusion", ("MatMul",), transpose_in_gemm),
    ("Pad_Fusion", ("Pad",), spell_out_axes),
    ("clamps_in_f32", ("Max", "Min"), part_clamp),
    # inexact kernels
    ("saturates_int8", ("DequantizeLinear",), write_zero_point),
    ("naive_variance", ("InstanceNormalization", "LayerNormalization"), center_rows),
    ("naive_sums", ("ReduceMean", "ReduceSum"), split_long_sum),
    ("pads_top_k", ("TopK",), fill_rows),
    ("rejects_unread_rows", ("Conv",), trim_rows),
    # slow kernels
    ("sequential_top_k", ("TopK",), count_integers),
    ("slow_transposes", ("Transpose",), transpose_with_batch_last),
    ("slow_transposes", ("Transpose",), move_one_axis),
    ("slow_where", ("Where",), select_by_arithmetic),
)
"""Tried in this order, also on nodes that replace others."""

GUARDS: Sequence[Row] = (
    ("loses_nan", ("ReduceMax", "ReduceMin"), guard_nan),
    ("ignores_domains", GUARDED_FUNCTIONS, guard_domain),
)
"""Only for nodes of the program: their replacements contain the same operator."""


def rows_of(target: Target, rows: Sequence[Row]) -> Mapping[str, list[Callable[..., Outputs]]]:
    """For each operator what may replace its nodes for the faults that a target has."""
    found: dict[str, list[Callable[..., Outputs]]] = {}
    for fault, operators, make in rows:
        if target.has(fault):
            for op_type in operators:
                found.setdefault(op_type, []).append(make)
    return found

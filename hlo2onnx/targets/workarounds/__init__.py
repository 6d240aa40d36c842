"""Workarounds for a runtime's faults. Flags and harmful fusions of the target switch them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlo2onnx.targets.decompositions import Decompose
from hlo2onnx.targets.workarounds.clamps import part_clamp
from hlo2onnx.targets.workarounds.counting_sort import count_integers
from hlo2onnx.targets.workarounds.double_transposes import transpose_in_gemm
from hlo2onnx.targets.workarounds.float_sums import split_long_sum
from hlo2onnx.targets.workarounds.fusions import (
    CONV_NORMALIZATION,
    MATMUL_NORMALIZATION,
    keep_bias_apart,
    keep_factor_apart,
    keep_shift_apart,
    spell_out_normalization,
)
from hlo2onnx.targets.workarounds.int8_weights import spell_out_weights, write_zero_point
from hlo2onnx.targets.workarounds.integer_reciprocal import spell_out_reciprocal
from hlo2onnx.targets.workarounds.lost_axes import move_axes
from hlo2onnx.targets.workarounds.matmul_scale import spell_out_scale
from hlo2onnx.targets.workarounds.max_pool_padding import spell_out_axes
from hlo2onnx.targets.workarounds.naive_variance import center_rows
from hlo2onnx.targets.workarounds.nan_as_zero import clamp_first, compare_without_guard
from hlo2onnx.targets.workarounds.sequential_top_k import merge_halves
from hlo2onnx.targets.workarounds.slow_boolean_reductions import reduce_bytes
from hlo2onnx.targets.workarounds.slow_transposes import move_one_axis, transpose_with_batch_last
from hlo2onnx.targets.workarounds.slow_where import select_by_arithmetic
from hlo2onnx.targets.workarounds.top_k_padding import fill_rows
from hlo2onnx.targets.workarounds.triangles import triangle_by_trilu

WORKAROUNDS: Mapping[str, Sequence[tuple[str, Decompose]]] = {
    "Add": [
        ("ConvAddFusion", keep_shift_apart),
        ("GeluFusion", move_axes),
    ],
    "BatchNormalization": [
        (fault, spell_out_normalization)
        for fault in ("folds_batch_norm", CONV_NORMALIZATION, MATMUL_NORMALIZATION)
    ],
    "Clip": [("slow_where", clamp_first)],
    "Conv": [("WeightBiasQuantization", keep_bias_apart)],
    "DequantizeLinear": [
        ("QDQSelectorActionTransformer", spell_out_weights),
        ("saturates_int8", write_zero_point),
    ],
    "Div": [
        ("DivMulFusion", spell_out_reciprocal),
        ("DivMulFusion", move_axes),
        ("MatMulScaleFusion", spell_out_scale),
    ],
    "Gemm": [("WeightBiasQuantization", keep_bias_apart)],
    "GreaterOrEqual": [("slow_where", compare_without_guard)],
    "Max": [("clamps_in_f32", part_clamp)],
    "Min": [("clamps_in_f32", part_clamp)],
    "InstanceNormalization": [("naive_variance", center_rows)],
    "LayerNormalization": [("naive_variance", center_rows)],
    "MatMul": [("MatmulTransposeFusion", transpose_in_gemm)],
    "Mul": [
        ("ConvMulFusion", keep_factor_apart),
        ("GeluFusion", move_axes),
        ("MatMulScaleFusion", spell_out_scale),
    ],
    "Pad": [("Pad_Fusion", spell_out_axes)],
    "Pow": [("FastGeluFusion", move_axes)],
    "ReduceMax": [("slow_boolean_reductions", reduce_bytes)],
    "ReduceMean": [("naive_sums", split_long_sum)],
    "ReduceMin": [("slow_boolean_reductions", reduce_bytes)],
    "ReduceSum": [("naive_sums", split_long_sum)],
    "TopK": [
        ("pads_top_k", fill_rows),
        ("sequential_top_k", count_integers),
        ("sequential_top_k", merge_halves),
    ],
    "Transpose": [
        ("slow_transposes", transpose_with_batch_last),
        ("slow_transposes", move_one_axis),
    ],
    "Where": [("slow_where", triangle_by_trilu), ("slow_where", select_by_arithmetic)],
}
"""For each operator the faults (see `Target.has`) that replace a node, in the order of trial. A
function returns None for a node that does not meet the fault."""

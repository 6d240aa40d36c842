"""Operators as combinations of others, for targets that have no kernel for an element type or whose
kernel gives wrong numbers."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.targets.builder import Decompose
from hlo2onnx.targets.decompositions.accumulations import ACCUMULATIONS
from hlo2onnx.targets.decompositions.bits import BIT_OPERATORS
from hlo2onnx.targets.decompositions.convolution import decompose_conv
from hlo2onnx.targets.decompositions.dft import decompose_dft
from hlo2onnx.targets.decompositions.functions import (
    F32_FUNCTIONS,
    F64_FUNCTIONS,
    decompose_function,
)
from hlo2onnx.targets.decompositions.integer_ops import INTEGER_OPERATORS
from hlo2onnx.targets.decompositions.normalization import NORMALIZATIONS
from hlo2onnx.targets.decompositions.order import BOUNDS, COMPARISONS, TOP_K
from hlo2onnx.targets.decompositions.rounded_integers import ROUNDED_INTEGERS

DECOMPOSITIONS: Mapping[tuple[str, oir.DataType], Decompose] = {
    ("Conv", oir.DataType.DOUBLE): decompose_conv,
    ("ConvTranspose", oir.DataType.DOUBLE): decompose_conv,
    ("DFT", oir.DataType.DOUBLE): decompose_dft,
    ("DFT", oir.DataType.FLOAT): decompose_dft,
    **{(op_type, oir.DataType.DOUBLE): decompose_function for op_type in F64_FUNCTIONS},
    **{(op_type, oir.DataType.FLOAT): decompose_function for op_type in F32_FUNCTIONS},
    **ACCUMULATIONS,
    **BIT_OPERATORS,
    **COMPARISONS,
    **BOUNDS,
    **INTEGER_OPERATORS,
    **NORMALIZATIONS,
    **ROUNDED_INTEGERS,
    **TOP_K,
}
"""The decomposition of each operator and main element type: it returns the outputs, or None where
this node has no decomposition."""

"""The rewrite rules, in the order in which they are tried on a node."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import (
    algebra,
    broadcast,
    constants,
    indices,
    integers,
    interleave,
    matmul,
    pads,
    quantized,
    shape,
    signs,
    slices,
    steps,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    constants.FoldConstants(),
    shape.DropIdentity(),
    shape.MoveOneElement(),
    shape.ComposeReshapes(),
    shape.ReshapeOnce(),
    shape.ComposeTransposes(),
    shape.ComposeExpands(),
    shape.UnitTransposeToReshape(),
    matmul.VectorMatMul(),
    quantized.Quantize(),
    quantized.MoveStored(),
    quantized.ExpandDequantized(),
    quantized.IntegerMatMul(),
    algebra.DecideComparison(),
    algebra.DecideWhere(),
    algebra.DropNeutral(),
    algebra.FoldAbsorbed(),
    algebra.FoldSameOperands(),
    algebra.DropInverse(),
    algebra.DropClamp(),
    steps.ExactSteps(),
    integers.ComposeOffsets(),
    integers.FloorDivide(),
    integers.Remainder(),
    integers.FloorRemainder(),
    indices.InsideTest(),
    indices.NegativeIndex(),
    indices.NegativeTuple(),
    indices.WideIndex(),
    interleave.Interleave(),
    broadcast.ImplicitBroadcast(),
    broadcast.LateBroadcast(),
    broadcast.ImplicitLeadingAxes(),
    broadcast.LateSqueeze(),
    pads.JoinPads(),
    slices.SliceOfConcat(),
    slices.ComposeSlices(),
    signs.SubtractNegative(),
    signs.NegateConstant(),
)

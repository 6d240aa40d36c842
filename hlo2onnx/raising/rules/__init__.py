"""The rewrite rules, in the order in which they are tried on a node."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import broadcast, constants, shape

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    constants.FoldConstants(),
    shape.DropIdentity(),
    shape.MoveOneElement(),
    shape.ComposeReshapes(),
    shape.ComposeTransposes(),
    shape.ComposeExpands(),
    shape.UnitTransposeToReshape(),
    broadcast.ImplicitBroadcast(),
    broadcast.LateBroadcast(),
    broadcast.ImplicitLeadingAxes(),
)

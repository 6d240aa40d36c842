"""Legalization: makes every node one that the target can run."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.report import Report
from hlo2onnx.targets.target import Target


def legalize(model: oir.Model, target: Target, report: Report) -> None:
    """Casts or decomposes the nodes that the target has no kernel for."""

"""Raising: rewrite rules that turn plain ONNX into idiomatic ONNX."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import onnx_ir as oir

from hlo2onnx.report import Report
from hlo2onnx.targets import Target

__all__ = ["raise_model"]


def raise_model(
    model: oir.Model, target: Target, without: AbstractSet[str], report: Report
) -> None:
    """Applies every rule until none fires."""

"""Targets: what the runtimes that run the models can execute."""

from __future__ import annotations

from hlo2onnx.targets.table import load_target
from hlo2onnx.targets.target import Target

__all__ = ["Target", "load_target"]

"""Targets: what the runtimes that run the models can execute."""

from __future__ import annotations

from hlo2onnx.targets.table import known_targets, load_target
from hlo2onnx.targets.target import Target

__all__ = ["Target", "known_targets", "load_target"]

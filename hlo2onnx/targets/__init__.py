"""Targets: what the runtimes that run the models can execute."""

from __future__ import annotations

from hlo2onnx.targets.target import Target, load_target

__all__ = ["Target", "load_target"]

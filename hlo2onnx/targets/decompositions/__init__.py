"""Operators spelled with others, for targets that lack their kernel in some element type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as oir

from hlo2onnx.graph.builder import GraphBuilder

Decompose = Callable[[GraphBuilder, oir.Node], oir.Value]

DECOMPOSITIONS: Mapping[tuple[str, oir.DataType], Decompose] = {}
"""What a node of an operator and main element type is replaced by when the target cannot run it."""

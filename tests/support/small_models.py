"""Serialized models from ONNX's text format."""

from __future__ import annotations

import onnx


def model(graph: str) -> bytes:
    """A model of opset 18 with this graph: "g (float[2] x) => (float[2] y) {y = Exp(x)}"."""
    head = '<ir_version: 8, opset_import: ["": 18]> '
    content: bytes = onnx.parser.parse_model(head + graph).SerializeToString()
    return content

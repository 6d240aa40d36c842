"""Operators of other domains than ONNX's own.

While a model is made their names are qualified, "com.example::Add", so that nothing that looks for
an operator of ONNX by its name takes them for one.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes


def qualified(domain: str, op_type: str) -> str:
    """What an operator of the domain goes by while the model is made."""
    return f"{domain}::{op_type}" if domain else op_type


def restore_names(graph: oir.Graph) -> None:
    """Gives the nodes of other domains their operators' own names."""
    for node in all_nodes(graph):
        if node.domain:
            node.op_type = node.op_type.removeprefix(f"{node.domain}::")

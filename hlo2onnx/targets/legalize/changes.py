"""What a target makes of a model, for the report: casts, and operators that are expanded."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as oir

from hlo2onnx.ir.values import noted
from hlo2onnx.report import Report
from hlo2onnx.targets.target import main_dtype

_NEEDED_BY = "hlo2onnx.needed_by"


def note_replaced(report: Report, label: str, made: Iterable[oir.Node]) -> None:
    """Notes that a node became other ones: the same operator among casts, or an expansion.

    Args:
        label: The label of the node before, see `label_of`.
    """
    made = list(made)
    if all(each.op_type in ("Cast", label.partition(" ")[0]) for each in made):
        note_casts(made, label)
    else:
        report.expanded[label] += 1


def note_casts(made: Iterable[oir.Node | None], label: str) -> None:
    """Notes which node needs the Casts among these nodes.

    Args:
        label: The label of that node in the program's types.
    """
    for node in made:
        if node is not None and node.op_type == "Cast":
            node.meta[_NEEDED_BY] = label


def count_casts(report: Report, nodes: Iterable[oir.Node]) -> None:
    """Adds the noted casts that are still in the model to the report.

    Args:
        nodes: All nodes of the model.
    """
    report.casts.update(label for node in nodes if (label := noted(node, _NEEDED_BY)) is not None)


def label_of(node: oir.Node) -> str:
    """The operator and its element type: "Where u32", "Cast f32 -> u8"."""
    dtype = main_dtype(node)
    if dtype is None:
        return node.op_type
    label = f"{node.op_type} {dtype.short_name()}"
    result = node.outputs[0].dtype
    if node.op_type != "Cast" or result is None:
        return label
    return f"{label} -> {result.short_name()}"

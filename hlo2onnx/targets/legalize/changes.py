"""What a target makes of a model, for the report: casts, and operators that are expanded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as oir

from hlo2onnx.report import Report
from hlo2onnx.targets.target import main_dtype

_NEEDED_BY = "hlo2onnx.needed_by"


class Changes:
    """The changes of a legalization.

    Attributes:
        expanded: Count of nodes that became other operators, by operator and type.
    """

    def __init__(self) -> None:
        self.expanded: Counter[str] = Counter()
        self._casts: list[tuple[str, oir.Node]] = []

    def replaced(self, label: str, made: Iterable[oir.Node]) -> None:
        """Notes that a node became other ones: the same operator among casts, or an expansion.

        Args:
            label: What `label_of` gave of the node before.
        """
        made = list(made)
        if all(each.op_type in ("Cast", label.partition(" ")[0]) for each in made):
            self.cast(label, made)
        else:
            self.expanded[label] += 1

    def cast(self, label: str, made: Iterable[oir.Node]) -> None:
        """Notes casts that some nodes need."""
        self._casts += [(label, each) for each in made if each.op_type == "Cast"]

    def write(self, report: Report, nodes: Iterable[oir.Node]) -> None:
        """Adds the changes to the report; of the casts, those that are still in the model.

        Args:
            nodes: All nodes of the model.
        """
        report.expanded.update(self.expanded)
        report.casts.update(label for label, node in self._casts if node.graph is not None)
        report.casts.update(
            label for node in nodes if (label := node.meta.get(_NEEDED_BY)) is not None
        )


def note_cast(value: oir.Value, label: str) -> None:
    """Notes for the report which node needs the Cast that makes a value.

    Args:
        label: What `label_of` gives of that node in the program's types.
    """
    node = value.producer()
    if node is not None and node.op_type == "Cast":
        node.meta[_NEEDED_BY] = label


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

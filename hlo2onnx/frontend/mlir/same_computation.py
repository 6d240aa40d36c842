"""Whether two MLIR operations compute the same."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.block_functions import CALLEES, callee_in_module
from hlo2onnx.frontend.mlir.values import MlirValue


def same_regions(left: ir.Operation, right: ir.Operation) -> bool:
    """Whether the regions of two operations compute the same from their arguments, op by op.

    Constants may stand outside of the regions. Calls are compared by the bodies of the functions.
    Locations, names of functions, and attributes of other dialects do not matter.
    """
    return _Comparison().regions(left, right)


class _Comparison:
    def __init__(self) -> None:
        self._same: dict[Any, Any] = {}

    def regions(self, left: ir.Operation, right: ir.Operation) -> bool:
        if len(left.regions) != len(right.regions):
            return False
        for one, other in zip(left.regions, right.regions, strict=True):
            if len(one.blocks) != 1 or len(other.blocks) != 1:
                return False
            if not self._blocks(one.blocks[0], other.blocks[0]):
                return False
        return True

    def _blocks(self, left: ir.Block, right: ir.Block) -> bool:
        if len(left.arguments) != len(right.arguments):
            return False
        for one, other in zip(left.arguments, right.arguments, strict=True):
            if str(one.type) != str(other.type):
                return False
            self._same[one] = other
        ends = [list(block.operations)[-1].operation for block in (left, right)]
        return self._operations(*ends)

    def _values(self, left: MlirValue, right: MlirValue) -> bool:
        if left in self._same:
            return bool(self._same[left] == right)
        makers = left.owner, right.owner
        if isinstance(makers[0], ir.Block) or isinstance(makers[1], ir.Block):
            return False
        number, other = (ir.OpResult(value).result_number for value in (left, right))
        if number != other or not self._operations(makers[0].operation, makers[1].operation):
            return False
        self._same[left] = right
        return True

    def _operations(self, left: ir.Operation, right: ir.Operation) -> bool:
        if left.name != right.name or _attributes(left) != _attributes(right):
            return False
        if [str(x.type) for x in left.results] != [str(x.type) for x in right.results]:
            return False
        if len(left.operands) != len(right.operands):
            return False
        pairs = zip(left.operands, right.operands, strict=True)
        if not all(self._values(*pair) for pair in pairs) or not self.regions(left, right):
            return False
        callees = callee_in_module(left), callee_in_module(right)
        if callees[0] is None or callees[1] is None:
            return callees[0] is callees[1]
        return self.regions(callees[0], callees[1])


def _attributes(operation: ir.Operation) -> dict[str, str]:
    """The attributes of the operation's own dialect, as text, without the name of a callee."""
    found = {}
    for attribute in operation.attributes:
        name = attribute if isinstance(attribute, str) else attribute.name
        if "." not in name and name != CALLEES.get(operation.name):
            found[name] = str(operation.attributes[name])
    return found

"""Scalar regions as expressions: which of the values they compute are the same function.

Equal expressions get equal numbers, whatever the order of commutative operands and the direction
a comparison is written in; calls of private functions are looked into.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.constants import Constants, Splat
from hlo2onnx.frontend.mlir.types import element_type
from hlo2onnx.frontend.mlir.values import MlirValue, defining_operation
from hlo2onnx.lowering.block_evaluator import BlockEvaluator
from hlo2onnx.lowering.op import Op

BINARY = ("add", "multiply", "minimum", "maximum", "and", "or", "xor")
"""Ops with their plain names as expressions; all are commutative."""

_COMMUTATIVE = frozenset(
    {*BINARY, "compare EQ", "compare NE", "compare EQ TOTALORDER", "compare NE TOTALORDER"}
)
_MIRRORED = {
    "compare GT": "compare LT",
    "compare GE": "compare LE",
    "compare GT TOTALORDER": "compare LT TOTALORDER",
    "compare GE TOTALORDER": "compare LE TOTALORDER",
}
_NO_FUNCTION = frozenset({"stablehlo.custom_call", "stablehlo.rng", "stablehlo.rng_bit_generator"})
"""Ops with results that may differ between calls."""


Term = tuple[Hashable, tuple[int, ...]]
"""The label of an expression and the numbers of its operands."""


class Expressions(BlockEvaluator[int]):
    """Value numbering: structurally equal expressions have equal numbers.

    Args:
        constants: Reads the constants of the program.
        functions: The module's functions by symbol.

    Attributes:
        values: For each number that a value of the numbered block has, one such value.
    """

    def __init__(self, constants: Constants, functions: Mapping[str, ir.Operation]) -> None:
        super().__init__(functions)
        self._constants = constants
        self._numbers: dict[Term, int] = {}
        self._terms: list[Term] = []
        self.values: dict[int, MlirValue] = {}

    def _number(self, label: Hashable, operands: tuple[int, ...] = ()) -> int:
        term = (label, operands)
        if term not in self._numbers:
            self._numbers[term] = len(self._terms)
            self._terms.append(term)
        return self._numbers[term]

    # -- making expressions ---------------------------------------------------------------------

    def argument(self, index: int) -> int:
        """The region's argument at `index`."""
        return self._number(("argument", index))

    def constant(self, number: float, element: str) -> int:
        """A real number of this element type; NaN and zeros differ by their sign."""
        sign = "-" if np.signbit(np.float64(number)) else "+"
        return self._number(("constant", element, sign, repr(abs(number))))

    def node(self, label: Hashable, *operands: int) -> int:
        """An op applied to numbered operands; the label holds all that distinguishes the op."""
        if label in _MIRRORED:
            label, operands = _MIRRORED[label], operands[::-1]
        if label in _COMMUTATIVE:
            operands = tuple(sorted(operands))
        return self._number(label, operands)

    # -- reading expressions --------------------------------------------------------------------

    def term(self, number: int) -> Term:
        """The label and the operands of an expression."""
        return self._terms[number]

    def arguments_of(self, number: int) -> frozenset[int]:
        """Which arguments of the region an expression reads."""
        label, operands = self._terms[number]
        if isinstance(label, tuple) and label[0] == "argument":
            return frozenset({label[1]})
        return frozenset().union(*map(self.arguments_of, operands))

    def swapped(self, number: int) -> int:
        """The expression with arguments 2k and 2k + 1 in each other's place."""
        label, operands = self._terms[number]
        if isinstance(label, tuple) and label[0] == "argument":
            return self.argument(label[1] ^ 1)
        return self.node(label, *map(self.swapped, operands))

    # -- from MLIR --------------------------------------------------------------------------------

    def of_block(self, block: ir.Block) -> list[int]:
        """The value numbers of the results of a block."""
        arguments = [self.argument(index) for index in range(len(block.arguments))]
        results = self.block(block, arguments)
        for value, number in zip(block.arguments, arguments, strict=True):
            self.values[number] = value
        return results

    def captured(self, value: MlirValue) -> int:
        """The number of a value from outside the block."""
        operation = defining_operation(value)
        if operation is not None and operation.name == "stablehlo.constant":
            return self._of_constant(Op(operation))
        return self._number(("captured", value))

    def results(
        self, operation: ir.Operation, operands: list[int], known: Mapping[MlirValue, int]
    ) -> Sequence[int]:
        """The numbers of an op's results."""
        numbers = self._of_op(Op(operation), operands)
        if not self._calls:
            for value, number in zip(operation.results, numbers, strict=True):
                self.values.setdefault(number, value)
        return numbers

    def _of_op(self, op: Op, operands: list[int]) -> Sequence[int]:
        name = op.name.removeprefix("stablehlo.")
        if name == "func.call":
            return self.call(op.operation, operands) or self._opaque(op, operands)
        if name == "constant":
            return [self._of_constant(op)]
        if name == "convert" and op.operands[0].type == op.results[0].type:
            return operands
        if name in BINARY or name == "select":
            return [self.node(name, *operands)]
        if name == "compare":
            return [self.node(_comparison(op), *operands)]
        if op.block_count or op.name in _NO_FUNCTION:
            return self._opaque(op, operands)
        attributes = tuple(f"{a} = {op.operation.attributes[a]}" for a in op.attribute_names)
        types = tuple(str(result.type) for result in op.results)
        return [
            self._number((op.name, attributes, types, index), tuple(operands))
            for index in range(len(op.results))
        ]

    def _of_constant(self, op: Op) -> int:
        content = self._constants.read(op.operation)
        array = content.element if isinstance(content, Splat) else content
        if array.shape == () and array.dtype.kind != "c":
            number = int(array) if array.dtype.kind in "biu" else float(array)
            return self.constant(number, element_type(op.results[0].type))
        return self._number((op.name, op.results[0]))

    def _opaque(self, op: Op, operands: list[int]) -> list[int]:
        return [self._number(("opaque", result), tuple(operands)) for result in op.results]


def _comparison(op: Op) -> str:
    """The direction of a compare; the total order, which tells -0 from 0, is another operation."""
    direction: str = op.attribute("comparison_direction")
    total = "compare_type" in op.attribute_names and op.attribute("compare_type") == "TOTALORDER"
    return f"compare {direction}{' TOTALORDER' if total else ''}"

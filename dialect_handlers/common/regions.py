"""Scalar regions: as expressions, and by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum

import ml_dtypes
import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.constants import Constants, Splat
from hlo2onnx.frontend.mlir.types import element_type, parts_of
from hlo2onnx.frontend.mlir.values import MlirValue, defining_operation
from hlo2onnx.ir.values import FLOATS, UNSIGNED, dtype_of
from hlo2onnx.lowering.block_evaluator import BlockEvaluator
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op

# -- scalar regions as expressions: which values are the same function ------------------------
#
# Scalar regions as expressions: which of the values they compute are the same function.
#
# Equal expressions get equal numbers, whatever the order of commutative operands and the direction
# a comparison is written in; calls of private functions are looked into.


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


# -- scalar regions by name -------------------------------------------------------------------
#
# Scalar regions by name: which well-known function of two values a region computes.
#
# A region of reduce, reduce_window, scatter or select_and_scatter takes the arguments (lhs_0 …
# lhs_n-1, rhs_0 … rhs_n-1) and returns n values. Handlers of such ops ask
#
#     recognise(em, block)       the name of the whole region, None if it has none
#     recognise_each(em, block)  one name per result, for regions that combine n pairs independently
#     neutral(combiner, dtype)   e with combine(e, x) == x for every x
#     is_neutral(em, combiner, init)   whether `init` is provably that element
#
# and apply a region without a name through `em.scalar_function(block)`. Regions are matched by
# structure: equal expressions get equal numbers, in any order of commutative operands, and calls
# of private functions are followed.


Number = int | float | np.generic | np.ndarray


class Combiner(StrEnum):
    """A function of two values. On booleans add and maximum are OR, multiply and minimum AND.

    MAXIMUM and MINIMUM let NaN win, as StableHLO does. ARGMAX and ARGMIN are regions over two
    pairs (value, index): equal values go to the lower index and the first NaN wins (JAX). The
    NAN_UNDEFINED ones have no rule for NaN: its outcome depends on the order of evaluation
    (TensorFlow, PyTorch/XLA).
    """

    ADD = "add"
    MULTIPLY = "multiply"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    AND = "and"
    OR = "or"
    XOR = "xor"
    LHS = "lhs"
    RHS = "rhs"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    ARGMAX_NAN_UNDEFINED = "argmax, NaN undefined"
    ARGMIN_NAN_UNDEFINED = "argmin, NaN undefined"


ARG_EXTREMES = {
    Combiner.ARGMAX: Combiner.MAXIMUM,
    Combiner.ARGMAX_NAN_UNDEFINED: Combiner.MAXIMUM,
    Combiner.ARGMIN: Combiner.MINIMUM,
    Combiner.ARGMIN_NAN_UNDEFINED: Combiner.MINIMUM,
}
"""The regions over (value, index) pairs, each with its effect on the values."""


def promoted(
    em: Emitter, operands: Sequence[MlirValue], arguments: Sequence[MlirValue]
) -> list[Parts]:
    """Operands in the element types that the arguments of a region have."""
    return [
        tuple(
            em.cast(part, kind.dtype)
            for part, kind in zip(em.parts(operand), parts_of(argument.type), strict=True)
        )
        for operand, argument in zip(operands, arguments, strict=True)
    ]


def recognise(em: Emitter, block: ir.Block) -> Combiner | None:
    """The name of a region over one pair, or over (value, index) pairs; None if it has none."""
    each = recognise_each(em, block)
    if len(each) == 1:
        return each[0]
    return _arg_extreme(em, block) if len(each) == 2 else None


def recognise_each(em: Emitter, block: ir.Block) -> list[Combiner | None]:
    """For each result k the name of the function of arguments k and n + k that it is, or None."""
    expressions = Expressions(em.constants, em.context.functions)
    results = expressions.of_block(block)
    names: list[Combiner | None] = []
    for k, result in enumerate(results):
        lhs, rhs = expressions.argument(k), expressions.argument(len(results) + k)
        known = {
            lhs: Combiner.LHS,
            rhs: Combiner.RHS,
            **{expressions.node(name, lhs, rhs): Combiner(name) for name in BINARY},
        }
        name = known.get(result)
        boolean = element_type(block.arguments[k].type) == "i1"
        names.append(_ON_BOOLEANS.get(name, name) if boolean and name else name)
    return names


def neutral(combiner: Combiner, dtype: oir.DataType) -> np.generic:
    """The e of this type with combine(e, x) == x == combine(x, e) for every x, bit for bit.

    Defined for ADD, MULTIPLY, MINIMUM, MAXIMUM, AND, OR and XOR.
    """
    lowest, highest = _limits(dtype)
    elements: dict[Combiner, Number] = {
        Combiner.ADD: -0.0 if dtype in FLOATS else 0,
        Combiner.MULTIPLY: 1,
        Combiner.MINIMUM: highest,
        Combiner.MAXIMUM: lowest,
        Combiner.AND: highest if dtype in UNSIGNED or dtype == oir.DataType.BOOL else -1,
        Combiner.OR: 0,
        Combiner.XOR: 0,
    }
    result: np.generic = dtype.numpy().type(elements[combiner])
    return result


def is_neutral(em: Emitter, combiner: Combiner, init: oir.Value) -> bool:
    """Whether every element of `init` provably is the neutral element; the sign of zero is free."""
    if combiner not in MONOIDS:
        return False
    elements = em.facts.constant(init)
    return elements is not None and bool((elements == neutral(combiner, dtype_of(init))).all())


def _limits(dtype: oir.DataType) -> tuple[Number, Number]:
    """The least and the greatest element, infinities where the type has them."""
    if dtype == oir.DataType.BOOL:
        return False, True
    if dtype not in FLOATS:
        info = ml_dtypes.iinfo(dtype.numpy())
        return info.min, info.max
    infinity = np.array(np.inf).astype(dtype.numpy())
    if np.isinf(infinity):
        return -infinity, infinity
    limits = ml_dtypes.finfo(dtype.numpy())
    return limits.min, limits.max


MONOIDS = frozenset(map(Combiner, BINARY))
"""The combiners with a neutral element."""
_ON_BOOLEANS: dict[Combiner, Combiner] = {
    Combiner.ADD: Combiner.OR,
    Combiner.MAXIMUM: Combiner.OR,
    Combiner.MULTIPLY: Combiner.AND,
    Combiner.MINIMUM: Combiner.AND,
}


def _arg_extreme(em: Emitter, block: ir.Block) -> Combiner | None:
    """The region as an argmax or argmin over (value, index) pairs."""
    expressions = Expressions(em.constants, em.context.functions)
    found = tuple(expressions.of_block(block))
    node = expressions.node
    x, i, y, j = (expressions.argument(k) for k in range(4))
    equal = node("compare EQ", x, y)
    for largest in (True, False):
        wins = node("compare GT" if largest else "compare LT", x, y)
        wins_or_nan = node("or", wins, node("compare NE", x, x))
        first = node("and", equal, node("compare LT", i, j))
        jax_form = (
            node("select", wins_or_nan, x, y),
            node("select", node("or", wins_or_nan, first), i, j),
        )
        at_least = node("compare GE" if largest else "compare LE", x, y)
        picked = node("select", at_least, i, j)
        xla_form = (
            node("select", at_least, x, y),
            node("select", equal, node("minimum", i, j), picked),
        )
        if found == jax_form:
            return Combiner.ARGMAX if largest else Combiner.ARGMIN
        if found == xla_form:
            return Combiner.ARGMAX_NAN_UNDEFINED if largest else Combiner.ARGMIN_NAN_UNDEFINED
    return None

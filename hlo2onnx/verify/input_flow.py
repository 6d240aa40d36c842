"""How inputs flow through a program: which values depend on which inputs, and by which formulas.

A forward walk over the StableHLO module. A value that only moves, scales or shifts elements of an
input keeps its formula, so that a threshold at the value gives a threshold of the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.constants import constant_bytes
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.types import is_complex, is_tensor, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue, operations_in
from hlo2onnx.lowering.block_evaluator import BlockEvaluator


class Formula(NamedTuple):
    """Elements that are `scale * x + offset` for elements x of an input."""

    port: int
    scale: float = 1
    offset: float = 0


@dataclass(frozen=True)
class Flow:
    """What is known of a value.

    Attributes:
        inputs: The inputs that it depends on, as bits.
        formulas: Formulas of some of its elements.
        numbers: Some of its elements, if it is a constant.
        terms: The inputs of which it is a sum of terms, as bits: it is not negative if they are
            not.
    """

    inputs: int = 0
    formulas: frozenset[Formula] = frozenset()
    numbers: tuple[float, ...] = ()
    terms: int = 0

    def __or__(self, other: Flow) -> Flow:
        formulas = self.formulas | other.formulas
        if len(formulas) > _MOST:
            formulas = frozenset(sorted(formulas)[:_MOST])
        numbers = tuple(dict.fromkeys((*self.numbers, *other.numbers)))[:_MOST]
        terms = self.terms | other.terms
        return Flow(self.inputs | other.inputs, formulas, numbers, terms)

    def mapped(self, function: Callable[[float, float], tuple[float, float]]) -> Flow:
        """The flow with other scales and offsets."""
        formulas = (Formula(x.port, *function(x.scale, x.offset)) for x in self.formulas)
        return Flow(self.inputs, frozenset(x for x in formulas if x.scale))


_MOST = 24
"""Limit of the formulas and numbers of a value."""
_CONSTANT_BYTES = 1 << 16
"""Larger constants are weights. Nothing is compared with them."""
_ROUNDS = 4
"""Limit of the walks over the body of a loop."""

_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "reshape", "dynamic_reshape", "broadcast_in_dim", "dynamic_broadcast_in_dim", "transpose",
        "slice", "real_dynamic_slice", "reverse", "convert", "reduce_precision", "pad",
        "dynamic_pad", "gather", "dynamic_gather", "dynamic_slice", "real", "imag",
    )
)  # fmt: skip
"""Ops whose elements are those of their first operand."""
_JOINS = frozenset(
    f"stablehlo.{name}" for name in ("concatenate", "maximum", "minimum", "complex")
)  # fmt: skip
_OWN_RESULTS = frozenset({"stablehlo.optimization_barrier", "stablehlo.sort"})
"""Ops whose results have the elements of the operands at the same place."""
_UPDATES = {"stablehlo.dynamic_update_slice": 1, "stablehlo.scatter": 2}
"""Ops with one result whose elements are those of the first operand, or of this one."""
_KEEP_SIGN = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim", "convert", "divide", "dynamic_broadcast_in_dim", "dynamic_reshape",
        "dynamic_slice", "gather", "reduce", "reshape", "reverse", "slice", "transpose",
    )
)  # fmt: skip
"""Ops whose result is not negative if their first operand is not. A divisor is taken to be
positive."""


class InputFlow(BlockEvaluator[Flow]):
    """The flows of a module.

    Attributes:
        operands: The flows of the operands of each operation that was reached. Those of all calls
            and trips are joined.
        outputs: The flows of the results of `main`.
        of_conditions: The inputs that a condition of a loop depends on, as bits.
        dependent_loops: The loops whose condition depends on an input.

    Args:
        module: A module of static shapes.
        ports: The index of the input at each position of an argument of `main`.
    """

    def __init__(self, module: ir.Operation, ports: Mapping[int, int]) -> None:
        functions = functions_of(module)
        super().__init__(functions)
        self.operands: dict[ir.Operation, list[Flow]] = {}
        self.of_conditions = 0
        self.dependent_loops: set[ir.Operation] = set()
        self._known_calls: dict[tuple[str, tuple[Flow, ...]], list[Flow]] = {}
        (block,) = functions["main"].regions[0].blocks
        arguments = []
        for position in range(len(block.arguments)):
            port = ports.get(position)
            if port is None:
                arguments.append(Flow())
            else:
                arguments.append(Flow(1 << port, frozenset({Formula(port)}), terms=1 << port))
        self.outputs = self.block(block, arguments)

    def captured(self, value: MlirValue) -> Flow:
        """Nothing is known of a value from outside."""
        return Flow()

    def results(
        self, operation: ir.Operation, operands: list[Flow], known: Mapping[MlirValue, Flow]
    ) -> Sequence[Flow]:
        """The flows of an op's results."""
        before = self.operands.get(operation)
        if before is not None:
            joined = [a | b for a, b in zip(before, operands, strict=True)]
        else:
            joined = list(operands)
        self.operands[operation] = joined
        name, count = operation.name, len(operation.results)
        if name == "func.call":
            return self._called(operation, operands)
        if name == "stablehlo.while":
            return self._loop(operation, operands, known)
        if name in ("stablehlo.case", "stablehlo.if"):
            return self._branches(operation, operands[0], known)
        if name in _OWN_RESULTS and len(operands) == count:
            inputs = _inputs(operands) if name == "stablehlo.sort" else 0
            return [Flow(x.inputs | inputs, x.formulas) for x in operands]
        if count != 1:
            return [Flow(_inputs(operands))] * count
        return [replace(_result(operation, operands), terms=_terms(name, operands))]

    def _called(self, operation: ir.Operation, operands: list[Flow]) -> Sequence[Flow]:
        key = (str(operation.attributes["callee"]), tuple(operands))
        if key not in self._known_calls:
            found = self.call(operation, operands)
            if found is None:
                found = [Flow(_inputs(operands))] * len(operation.results)
            self._known_calls[key] = found
        return self._known_calls[key]

    def _loop(
        self, operation: ir.Operation, state: list[Flow], known: Mapping[MlirValue, Flow]
    ) -> list[Flow]:
        condition, body = (region.blocks[0] for region in operation.regions)
        state = [replace(x, terms=0) for x in state]
        for _ in range(_ROUNDS):
            (going,) = self.block(condition, state, known)
            self.of_conditions |= going.inputs
            if going.inputs:
                self.dependent_loops.add(operation)
            found = self.block(body, state, known)
            joined = [
                Flow(a.inputs | b.inputs | going.inputs, (a | b).formulas)
                for a, b in zip(state, found, strict=True)
            ]
            if joined == state:
                break
            state = joined
        return state

    def _branches(
        self, operation: ir.Operation, index: Flow, known: Mapping[MlirValue, Flow]
    ) -> list[Flow]:
        every = [self.block(region.blocks[0], [], known) for region in operation.regions]
        joined = [reduce(Flow.__or__, flows) for flows in zip(*every, strict=True)]
        return [Flow(x.inputs | index.inputs, x.formulas) for x in joined]


def _inputs(operands: Iterable[Flow]) -> int:
    return reduce(int.__or__, (x.inputs for x in operands), 0)


def _result(operation: ir.Operation, operands: list[Flow]) -> Flow:
    """The flow of an op with one result."""
    name, inputs = operation.name, _inputs(operands)
    if name == "stablehlo.constant":
        return Flow(numbers=_numbers(operation))
    if name == "stablehlo.iota":
        axis = to_python(operation.attributes["iota_dimension"])
        last = (shape_of(operation.results[0].type)[axis] or 1) - 1
        return Flow(numbers=(0, last))
    if name in _MOVES:
        return Flow(inputs, operands[0].formulas, operands[0].numbers if not inputs else ())
    if name in _JOINS:
        joined = reduce(Flow.__or__, operands)
        return Flow(inputs, joined.formulas, joined.numbers if not inputs else ())
    if name == "stablehlo.select":
        return Flow(inputs, (operands[1] | operands[2]).formulas)
    if name == "stablehlo.clamp":
        return Flow(inputs, operands[1].formulas)
    if name in _UPDATES:
        return Flow(inputs, (operands[0] | operands[_UPDATES[name]]).formulas)
    if name == "stablehlo.reduce":
        return Flow(inputs, _reduced(operation, operands[0]).formulas)
    return Flow(inputs, _affine(name, operands).formulas)


def _terms(name: str, operands: list[Flow]) -> int:
    """The inputs of which the result of an op is a sum of terms.

    The moments of an optimizer are an example: 0.999 * moment + 0.001 * gradient * gradient.
    """
    if name in _KEEP_SIGN:
        return operands[0].terms
    if name == "stablehlo.select":
        operands = operands[1:]
    elif name == "stablehlo.multiply":
        if all(x.inputs for x in operands):
            return 0
    elif name not in ("stablehlo.add", "stablehlo.concatenate"):
        return 0
    return reduce(int.__or__, (x.terms for x in operands), 0)


def _numbers(operation: ir.Operation) -> tuple[float, ...]:
    mlir_type = operation.results[0].type
    if not is_tensor(mlir_type) or is_complex(mlir_type):
        return ()
    if constant_bytes(operation) > _CONSTANT_BYTES:
        return ()
    try:
        content = np.unique(np.array(to_python(operation.attributes["value"])))
    except (TypeError, ValueError):  # an element type without a buffer
        return ()
    if content.dtype.kind not in "iufb":
        return ()
    if len(content) > _MOST // 2:
        content = content[[0, 1, len(content) // 2, -2, -1]]
    return tuple(item.item() for item in content)


def _affine(name: str, operands: list[Flow]) -> Flow:
    """The flow of arithmetic with constants."""
    if name == "stablehlo.negate":
        return operands[0].mapped(lambda scale, offset: (-scale, -offset))
    if name == "stablehlo.abs":
        return operands[0] | operands[0].mapped(lambda scale, offset: (-scale, -offset))
    if len(operands) != 2:
        return Flow()
    found = Flow()
    for place, (x, other) in enumerate([(operands[0], operands[1]), (operands[1], operands[0])]):
        for number in other.numbers[: _MOST // 8]:
            if math.isfinite(number) and x.formulas:
                found |= _with_number(name, x, number, place)
    return found


def _with_number(name: str, x: Flow, number: float, place: int) -> Flow:
    """The flow of an op on a value and a constant.

    Args:
        place: Index of the value among the operands.
    """
    if name == "stablehlo.add":
        return x.mapped(lambda scale, offset: (scale, offset + number))
    if name == "stablehlo.subtract":
        sign = -1 if place else 1
        return x.mapped(lambda scale, offset: (sign * scale, sign * (offset - number)))
    if name == "stablehlo.multiply":
        return x.mapped(lambda scale, offset: (scale * number, offset * number))
    if name == "stablehlo.divide" and not place and number:
        return x.mapped(lambda scale, offset: (scale / number, offset / number))
    return Flow()


def _reduced(operation: ir.Operation, x: Flow) -> Flow:
    """The flow of a reduction, for inputs whose elements are all the same."""
    body = [item.name for item in operations_in(operation.regions[0].blocks[0])]
    if body[0] != "stablehlo.add" or len(body) != 2:
        return x
    before = math.prod(dim or 1 for dim in shape_of(operation.operands[0].type))
    count = before / max(1, math.prod(dim or 1 for dim in shape_of(operation.results[0].type)))
    return x | x.mapped(lambda scale, offset: (scale * count, offset * count))

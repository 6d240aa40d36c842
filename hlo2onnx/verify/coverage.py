"""Which guards of a program inputs reach: an instrumented program returns the sides, too.

The flags of a block are joined into one vector of i1. Branches, loops and functions return the
vectors of their blocks. A loop joins those of its trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import keys_of, text_of
from hlo2onnx.frontend.mlir.functions import function_type, functions_of, set_function_type
from hlo2onnx.frontend.mlir.locations import OriginReader
from hlo2onnx.frontend.mlir.types import shape_of
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    made,
    module_bytecode,
    operations_in,
    operations_of,
    return_from,
    returned_by,
)
from hlo2onnx.frontend.signature import Port
from hlo2onnx.verify.compare import Coverage
from hlo2onnx.verify.guards import NAN, Side, compared, filled, reduced, sides_of
from hlo2onnx.verify.input_flow import InputFlow
from hlo2onnx.verify.roles import roles_of
from hlo2onnx.verify.xla import Compile

LIMIT = 512
"""Limit of the sides that are observed. XLA compiles a reduction for each."""


TRIPS = 20_000
"""Loops whose condition depends on an input end after this many trips."""
ENDLESS = "too many trips"
"""The side of a loop that ended for this reason."""


@dataclass(frozen=True)
class Place:
    """A side of a guard in the program.

    Attributes:
        op: The name of the op, without its dialect.
        what: The side.
        locations: Where the op is in the user's program, and where its function is called.
        is_counted: Whether it counts for the coverage.
    """

    op: str
    what: str
    locations: tuple[ir.Location, ...]
    is_counted: bool = True


class _Flags(NamedTuple):
    """A vector of flags, and the place that each flag is for."""

    places: tuple[int, ...]
    vector: MlirValue


class Instrumentation:
    """The instrumentation of a module, in place. The last result of `main` is the vector of flags.

    Attributes:
        places: The observed sides.
        flags: For each element of the vector, the index of its side. There is no vector if empty.
        unobserved: Count of guards in regions that cannot be observed, such as that of a sort, and
            beyond the limit.

    Args:
        module: The module.
        flow: The flows in it.
    """

    def __init__(self, module: ir.Operation, flow: InputFlow) -> None:
        self.places: list[Place] = []
        self.unobserved = 0
        self._flow = flow
        self._functions = functions_of(module)
        self._done: dict[str, tuple[int, ...]] = {}
        self._predicates: set[MlirValue] = set()
        self._calls: list[ir.Location] = []
        with module.context, ir.Location.unknown():
            self.flags = self._function("main")

    def _function(self, symbol: str) -> tuple[int, ...]:
        """Makes a function return its flags as well. Returns their places."""
        if symbol not in self._done:
            self._done[symbol] = ()  # no recursion
            function = self._functions[symbol]
            if function.regions[0].blocks:
                (block,) = function.regions[0].blocks
                flags = self._block(block)
                if flags is not None:
                    _return_also(block, flags.vector)
                    old = function_type(function)
                    results = [*old.results, flags.vector.type]
                    set_function_type(function, old.inputs, results)
                    if "res_attrs" in function.attributes:
                        del function.attributes["res_attrs"]
                    self._done[symbol] = flags.places
        return self._done[symbol]

    def _block(self, block: ir.Block) -> _Flags | None:
        """The flags of a block, before its terminator."""
        found = [self._operation(*pair) for pair in pairwise(operations_in(block))]
        with ir.InsertionPoint(operations_in(block)[-1]):
            return _joined(found)

    def _entered(
        self, operation: ir.Operation, what: str, block: ir.Block, flags: _Flags | None
    ) -> _Flags | None:
        """The flags of a block, and one that tells that a run enters it."""
        if len(self.places) >= LIMIT:
            return flags
        place = self._place(operation, what)
        with ir.InsertionPoint(operations_in(block)[-1]):
            return _joined([_Flags((place,), filled(True, _vector_type(1))), flags])

    def _operation(self, operation: ir.Operation, following: ir.Operation) -> _Flags | None:
        name = operation.name
        if name == "func.call":
            return self._call(operation)
        if name == "stablehlo.while":
            return self._while(operation, following)
        if name in ("stablehlo.case", "stablehlo.if"):
            return self._case(operation)
        if operation.regions:
            self.unobserved += sum(x.name in _GUARDS for x in operations_of(operation)[1:])
        flows = self._flow.operands.get(operation)
        if flows is None:
            return None
        if name == "stablehlo.select":  # several may share a predicate
            if operation.operands[0] in self._predicates:
                return None
            self._predicates.add(operation.operands[0])
        sides = sides_of(operation, flows)
        if not sides:
            return None
        if len(self.places) + len(sides) > LIMIT:
            self.unobserved += 1
            return None
        with ir.InsertionPoint(following):
            return _joined([self._flag(operation, side) for side in sides])

    def _flag(self, operation: ir.Operation, side: Side) -> _Flags:
        place = self._place(operation, side.what, side.is_counted)
        return _Flags((place,), _any(side.emit()))

    def _place(self, operation: ir.Operation, what: str, is_counted: bool = True) -> int:
        name = operation.name.removeprefix("stablehlo.")
        locations = (operation.location, *reversed(self._calls))
        self.places.append(Place(name, what, locations, is_counted))
        return len(self.places) - 1

    def _call(self, operation: ir.Operation) -> _Flags | None:
        self._calls.append(operation.location)
        places = self._function(text_of(operation, "callee"))
        self._calls.pop()
        if not places:
            return None
        vector = _vector_type(len(places))
        return _Flags(places, _with_result(operation, [], [vector]).results[-1])

    def _case(self, operation: ir.Operation) -> _Flags | None:
        flows = self._flow.operands.get(operation)
        depends = flows is not None and bool(flows[0].inputs)
        blocks = [region.blocks[0] for region in operation.regions]
        parts: list[_Flags | None] = []
        for index, block in enumerate(blocks):
            flags = self._block(block)
            if depends:
                what = f"branch {index}"
                if operation.name == "stablehlo.if":
                    what = "a false condition" if index else "a true condition"
                flags = self._entered(operation, what, block, flags)
            parts.append(flags)
        found = [part for part in parts if part is not None]
        if not found:
            return None
        for block, part in zip(blocks, parts, strict=True):
            with ir.InsertionPoint(operations_in(block)[-1]):
                vectors = [x.vector if x is part else filled(False, x.vector.type) for x in found]
                vector = _concatenated(vectors)
            _return_also(block, vector)
        places = tuple(place for part in found for place in part.places)
        made_op = _with_result(operation, [], [_vector_type(len(places))])
        return _Flags(places, made_op.results[-1])

    def _while(self, operation: ir.Operation, following: ir.Operation) -> _Flags | None:
        depends = operation in self._flow.dependent_loops
        if depends:
            operation = _with_counter(operation)
        condition, body = (region.blocks[0] for region in operation.regions)
        flags = self._block(body)
        if depends:
            flags = self._entered(operation, "a trip", body, flags)
        if flags is not None:
            condition.add_argument(flags.vector.type, operation.location)
            before = body.add_argument(flags.vector.type, operation.location)
            with ir.InsertionPoint(operations_in(body)[-1]):
                vector = made("or", flags.vector.type, before, flags.vector)
            _return_also(body, vector)
            with ir.InsertionPoint(operation):
                start = filled(False, _vector_type(len(flags.places)))
            operation = _with_result(operation, [start])
            flags = _Flags(flags.places, operation.results[-1])
        if not depends:
            return flags
        with ir.InsertionPoint(following):
            counter = operation.results[-1 if flags is None else -2]
            is_over = _any(compared("GE", counter, TRIPS))
            over = _Flags((self._place(operation, ENDLESS, is_counted=False),), is_over)
            return _joined([flags, over])


_GUARDS = frozenset({"stablehlo.case", "stablehlo.if", "stablehlo.clamp", "stablehlo.select"})


def _joined(found: Iterable[_Flags | None]) -> _Flags | None:
    """The flags of several vectors. Vectors of the same places are united."""
    by_places: dict[tuple[int, ...], MlirValue] = {}
    for places, vector in filter(None, found):
        if places in by_places:
            vector = made("or", vector.type, by_places[places], vector)
        by_places[places] = vector
    if not by_places:
        return None
    every = tuple(place for places in by_places for place in places)
    return _Flags(every, _concatenated(list(by_places.values())))


def _concatenated(vectors: Sequence[MlirValue]) -> MlirValue:
    if len(vectors) == 1:
        return vectors[0]
    count = sum(shape_of(vector.type)[0] or 0 for vector in vectors)
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
    return made("concatenate", _vector_type(count), *vectors, dimension=axis)


def _vector_type(count: int) -> ir.Type:
    return ir.RankedTensorType.get([count], ir.IntegerType.get_signless(1))


def _any(flags: MlirValue) -> MlirValue:
    """Whether an element is true, as a vector of 1."""
    if shape_of(flags.type):
        flags = reduced("or", flags, False)
    return made("reshape", _vector_type(1), flags)


def _return_also(block: ir.Block, value: MlirValue) -> None:
    return_from(block, [*returned_by(block), value])


def _with_counter(operation: ir.Operation) -> ir.Operation:
    """Replaces a loop by one that counts its trips in the last result, and ends after `TRIPS`."""
    i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    condition, body = (region.blocks[0] for region in operation.regions)
    count = condition.add_argument(i32, operation.location)
    (goes_on,) = returned_by(condition)
    with ir.InsertionPoint(operations_in(condition)[-1]):
        both = made("and", goes_on.type, goes_on, compared("LT", count, TRIPS))
    return_from(condition, [both])
    count = body.add_argument(i32, operation.location)
    with ir.InsertionPoint(operations_in(body)[-1]):
        more = made("add", i32, count, filled(1, i32))
    _return_also(body, more)
    with ir.InsertionPoint(operation):
        start = filled(0, i32)
    return _with_result(operation, [start])


def _with_result(
    operation: ir.Operation, operands: Sequence[MlirValue], more: Sequence[ir.Type] = ()
) -> ir.Operation:
    """Replaces an operation by one with more operands, and with results of their types and of more
    types."""
    added = [*[value.type for value in operands], *more]
    types = [*[result.type for result in operation.results], *added]
    attributes = {name: operation.attributes[name] for name in keys_of(operation.attributes)}
    with ir.InsertionPoint(operation):
        made_op = ir.Operation.create(
            operation.name,
            types,
            [*operation.operands, *operands],
            attributes,
            regions=len(operation.regions),
            loc=operation.location,
        )
    for old, new in zip(operation.regions, made_op.regions, strict=True):
        old.blocks[0].append_to(new)
    for result, value in zip(operation.results, made_op.results, strict=False):
        result.replace_all_uses_with(value)
    operation.erase()
    return made_op


class Probe:
    """A program that tells which guards its runs reach.

    Attributes:
        roles: The values of each input that matter.
        places: The sides of the guards.

    Args:
        module: The module operation. It changes.
        ports: The inputs.
        arguments: Converts inputs to the arguments of `main`.
        results: Places of the outputs among its results.
        compiled: Compiles it.

    Raises:
        VerificationError: XLA does not compile the program.
    """

    def __init__(
        self,
        module: ir.Operation,
        ports: Sequence[Port],
        arguments: Callable[[Sequence[np.ndarray]], Iterable[np.ndarray]],
        results: Sequence[int],
        compiled: Compile,
    ) -> None:
        flow = InputFlow(module, {port.position: index for index, port in enumerate(ports)})
        self.roles = roles_of(flow, ports)
        instrumented = Instrumentation(module, flow)
        self.places, self._unobserved = instrumented.places, instrumented.unobserved
        self._flags = np.array(instrumented.flags, np.int64)
        self._arguments = arguments
        self._wanted = list(results)
        if self.places:
            every = function_type(functions_of(module)["main"]).results
            self._wanted.append(len(every) - 1)
        self._program = compiled(module_bytecode(module))

    def nans(self, reached: np.ndarray) -> tuple[bool, bool]:
        """Whether a run that reaches these sides takes the maximum or minimum of NaN, and whether
        it converts NaN to an integer."""
        ops = [place.op for place in self._of(reached) if place.what == NAN]
        return any(op != "convert" for op in ops), "convert" in ops

    def is_endless(self, reached: np.ndarray) -> bool:
        """Whether a run that reaches these sides has a loop of too many trips. Its results are
        wrong."""
        return any(place.what == ENDLESS for place in self._of(reached))

    def coverage(self, reached: np.ndarray) -> Coverage | None:
        """The coverage of runs that reach these sides; None without guards."""
        read = OriginReader()
        missed = []
        for place in self._of(~reached):
            if place.is_counted:
                sources = (read(location).source for location in place.locations)
                source = next(filter(None, sources), "")
                missed.append(f"{place.op} with {place.what}" + (f" ({source})" if source else ""))
        total = sum(place.is_counted for place in self.places)
        if not total and not self._unobserved:
            return None
        return Coverage(total - len(missed), total, tuple(dict.fromkeys(missed)), self._unobserved)

    def _of(self, flags: np.ndarray) -> Iterator[Place]:
        return compress(self.places, flags)

    def __call__(self, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The outputs, and whether the run reaches each side.

        Raises:
            VerificationError: XLA does not run the program.
        """
        found = self._program(self._arguments(arrays), self._wanted)
        reached = np.zeros(len(self.places), bool)
        if self.places:
            np.logical_or.at(reached, self._flags, found.pop())
        return found, reached

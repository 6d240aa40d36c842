"""Walks a module once and hands each op to its handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import InternalError, Refusal, UnsupportedOp
from hlo2onnx.frontend.mlir.callbacks import is_callback, way_out
from hlo2onnx.frontend.mlir.locations import Callers, Origin, OriginReader
from hlo2onnx.frontend.mlir.passes import is_malformed
from hlo2onnx.frontend.mlir.shardings import SHARDINGS, boundary_attributes
from hlo2onnx.frontend.mlir.types import TensorType, parts_of
from hlo2onnx.frontend.mlir.values import MlirValue, leading_to
from hlo2onnx.ir.names import MODULES
from hlo2onnx.ir.notes import ARGUMENTS, CALLEE, Path, note_held, note_origin
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.limitations import limitation_of
from hlo2onnx.lowering.context import Context, Diagnosis, Expansion, Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.functions import KeptFunctions
from hlo2onnx.lowering.mlir_expansion import Expansions, is_elementwise
from hlo2onnx.lowering.op import CustomCall, Op, op_of
from hlo2onnx.lowering.plugins import run_handler
from hlo2onnx.lowering.registry import Handler, Registry, read_attributes
from hlo2onnx.lowering.shape_arithmetic import (
    evaluated,
    evaluated_call,
    extent_contents,
    value_of,
)
from hlo2onnx.lowering.through_jax import Symbols, lowered_function
from hlo2onnx.report import SHARDINGS_DROPPED

_NOWHERE = Origin()
TERMINATORS = frozenset({"func.return", "stablehlo.return", "sdy.return", "chlo.return"})


class Walker:
    """Translates blocks of one module.

    Args:
        em: The emitter whose environment receives the values.
        functions: The module's functions by symbol.
        registry: The handlers.
        kept: The functions of the model, where private functions are kept.
        diagnosis: Receives findings of a check.

    Attributes:
        context: The surroundings of the op that is being translated. It is replaced as a whole.
        refusals: The ops that cannot be translated.
        cause: The first exception that led to one of these.
    """

    def __init__(
        self,
        em: Emitter,
        functions: Mapping[str, ir.Operation],
        registry: Registry,
        kept: KeptFunctions | None = None,
        diagnosis: Diagnosis | None = None,
    ) -> None:
        self.em = em
        self.kept = kept
        self.diagnosis = diagnosis
        self.registry = registry
        self.context = Context(functions)
        self.refusals: list[Refusal] = []
        self.cause: BaseException | None = None
        self.expansions = Expansions()
        self._read_origin = OriginReader()
        em.translator = self

    @contextmanager
    def _within(self, **changes: Any) -> Iterator[None]:
        """Within the block the context has these changes."""
        em = self.em
        saved = (self.context, em.scope, em.metadata)
        self.context = self.context._replace(**changes)
        try:
            yield
        finally:
            self.context, em.scope, em.metadata = saved

    # -- blocks -------------------------------------------------------------------------------

    def block(self, block: ir.Block, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a block in place; returns the parts its terminator returns."""
        environment = self.em.environment
        environment.update(zip(block.arguments, arguments, strict=True))
        path = self._inner_path(block, arguments)
        for index, view in enumerate(block.operations):
            op = op_of(view.operation)
            if op.name in TERMINATORS:
                return [environment[operand] for operand in op.operands]
            self.op(op, None if path is None else (*path, index))
        raise InternalError("a block has no terminator")

    def _inner_path(self, block: ir.Block, arguments: Sequence[Parts]) -> Path | None:
        """The path of a block of the current op, whose arguments are noted."""
        around = self.context.path
        if not around:  # not of the program, or the function that is translated
            return around
        regions = list(block.owner.operation.regions)
        is_callee = block.owner.operation.name == "func.func"
        path = (*around, CALLEE if is_callee else regions.index(block.region))
        for index, parts in enumerate(arguments):
            note_held((*path, ARGUMENTS), index, parts)
        return path

    def call(self, symbol: str, arguments: Sequence[Parts], name: str = "") -> list[Parts]:
        """See `Emitter.call`."""
        made = None
        if self.kept is not None:
            made = self.kept.call(self.em, symbol, arguments, name or symbol, self._translated)
        return self.body(symbol, arguments) if made is None else made

    def _translated(self, em: Emitter, symbol: str, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a function's body with another emitter."""
        inner = Walker(em, self.context.functions, self.registry, self.kept, self.diagnosis)
        inner.context = inner.context._replace(path=self.context.path)
        results = inner.body(symbol, arguments)
        self.refusals += inner.refusals
        self.cause = self.cause or inner.cause
        return results

    def body(self, symbol: str, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a function's body in place."""
        function = self.context.functions.get(symbol)
        if function in self.context.calls:
            raise UnsupportedOp(f"@{symbol} calls itself; ONNX has no recursion")
        if function is None or not function.regions[0].blocks:
            raise UnsupportedOp(f"the module has no function @{symbol} with a body")
        known = evaluated_call(self.em, function, arguments)
        if known is not None:
            return known
        if not SHARDINGS.isdisjoint(boundary_attributes(function)):
            self.em.report.note(SHARDINGS_DROPPED)
        calls, callers = (*self.context.calls, function), Callers(self.context.origin.frames)
        with self._within(scope=self.em.scope, calls=calls, callers=callers):
            return self.block(function.regions[0].blocks[0], arguments)

    def values(
        self, block: ir.Block, arguments: Sequence[Parts], wanted: Sequence[MlirValue]
    ) -> list[Parts]:
        """Translates the ops of a block that some of its values depend on; returns the parts of
        these values."""
        environment = self.em.environment
        environment.update(zip(block.arguments, arguments, strict=True))
        for operation in leading_to(block, wanted):
            self.op(op_of(operation))
        return [environment[value] for value in wanted]

    def scalar_function(
        self, block: ir.Block, results: Sequence[MlirValue] | None = None
    ) -> Callable[..., list[oir.Value]]:
        """See `Emitter.scalar_function`."""

        def apply(*tensors: oir.Value | Parts) -> list[oir.Value]:
            arguments = [item if isinstance(item, tuple) else (item,) for item in tensors]
            with self._within(in_scalar_region=True, path=None):
                if results is None:
                    returned = self.block(block, arguments)
                else:
                    returned = self.values(block, arguments, results)
            return [part for parts in returned for part in parts]

        return apply

    # -- one op -------------------------------------------------------------------------------

    def op(self, op: Op, path: Path | None = None) -> None:
        """Translates one op. A refusal is recorded and the results become placeholders, so that one
        run finds every unsupported op.

        Args:
            path: The place of the op in the program, if its results are values of the program.
        """
        em, context = self.em, self.context
        em.report.ops[op.name] += 1
        if not SHARDINGS.isdisjoint(op.mlir_names):
            em.report.note(SHARDINGS_DROPPED)
        # An op of an expansion gets the location of the expanded op.
        own = _NOWHERE if context.in_expansion else self._read_origin(op.operation.location)
        origin = context.callers.around(own) if own else context.origin
        scope, metadata = em.scope, em.metadata
        self.context = context.at(origin, path)
        try:
            self._name_nodes(op, own, origin)
            results = self._results(op, origin)
        finally:
            self.context, em.scope, em.metadata = context, scope, metadata
        em.environment.update(zip(op.results, results, strict=True))
        if path is not None:
            for index, parts in enumerate(results):
                note_held(path, index, parts)

    def _name_nodes(self, op: Op, own: Origin, origin: Origin) -> None:
        """Sets the name and the metadata of the nodes of an op.

        Args:
            own: The origin of the op itself.
            origin: The same with the callers of the function around it.
        """
        em, modules, last = self.em, own.modules, own.scope or op.label
        em.scope = "/".join(filter(None, (self.context.scope, modules, last)))
        em.metadata = origin.metadata
        if modules:
            layer = em.scope.removesuffix(last).removesuffix("/")
            em.metadata = {**em.metadata, MODULES: layer}

    def _results(self, op: Op, origin: Origin) -> list[Parts]:
        """The results of an op; placeholders if it is refused."""
        before = len(self.em.made)
        try:
            results = self._apply(op)
            if self.diagnosis is not None:
                self._note_expansion(self.diagnosis, op, origin, len(self.em.made) - before)
        except UnsupportedOp as refusal:
            self.cause = self.cause or refusal.__cause__
            where = str(origin)
            self.refusals.append(Refusal(op.key, op.types(), where, refusal.why, refusal.next))
        except InternalError:
            # A placeholder, scalar within a scalar region, does not fit what reads it.
            if not self.refusals:
                raise
        else:
            return results
        return [self._placeholder(value) for value in op.results]

    def _apply(self, op: Op) -> list[Parts]:
        known = evaluated(self.em, op)
        if known is not None:
            return self._checked(op, known)
        is_complex = op.touches_complex
        handler = self.registry.find(op.key, is_complex)
        if handler is None:
            if self.expansions.knows(op):
                return self.expansion(op)
            raise self._unhandled(op)
        if isinstance(op, CustomCall) and is_malformed(op.operation):
            raise UnsupportedOp("the call is malformed: its operands or results do not fit")
        attributes = read_attributes(handler, op)
        if is_complex and handler.form == "parts":
            return self._each_part(handler, op, attributes)
        return self._checked(op, run_handler(handler, self.em, op, attributes))

    def _unhandled(self, op: Op) -> UnsupportedOp:
        refusal = limitation_of(op.key, self.context.origin.scope) or _no_handler(op)
        if is_callback(op.operation):
            advice = way_out(op.operation, self.em.options.callbacks)
            refusal.next = f"{advice}; else {refusal.next}" if advice else refusal.next
        return refusal

    def _each_part(self, handler: Handler, op: Op, attributes: Mapping[str, Any]) -> list[Parts]:
        """Runs a data-movement handler on the real, then on the imaginary parts."""
        environment = self.em.environment
        whole = {operand: environment[operand] for operand in op.operands}
        halves = []
        for index in (0, 1):
            for operand, parts in whole.items():
                environment[operand] = (parts[index],) if len(parts) == 2 else parts
            try:
                returned: Any = run_handler(handler, self.em, op, attributes)
            finally:
                environment.update(whole)
            halves.append([returned] if isinstance(returned, oir.Value) else list(returned))
        flat = [part for pair in zip(*halves, strict=True) for part in pair]
        return self._checked(op, flat)

    def expansion(self, op: Op, operands: Sequence[Parts] | None = None) -> list[Parts]:
        """See `Emitter.expansion`."""
        function = self.expansions.function(op)
        if operands is None:
            operands = [self.em.parts(operand) for operand in op.operands]
        in_scalar_region = self.context.in_scalar_region or is_elementwise(op)
        with self._within(scope=self.em.scope, in_scalar_region=in_scalar_region, path=None):
            results = self.block(function.regions[0].blocks[0], operands)
        for result in results if len(results) == 1 == len(results[0]) else ():
            note_origin(result[0], op.name, [part for parts in operands for part in parts])
        return self._checked(op, results)

    def through_jax(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Parts],
        keywords: Mapping[str, Any],
    ) -> list[Parts]:
        """See `Emitter.through_jax`."""
        symbols = Symbols()
        types = tuple(map(symbols.array_type, arguments))
        named = sorted((name, symbols.named(value)) for name, value in keywords.items())
        lowered = lowered_function(function, types, tuple(named))
        contents = [extent_contents(symbols.extents[name]) for name in lowered.symbols]
        extents = [(value_of(self.em, content, oir.DataType.INT64),) for content in contents]
        unread: list[Parts] = [()] if extents else []
        with self._within(
            functions=lowered.functions, in_expansion=True, in_scalar_region=False, path=None
        ):
            return self.body("main", [*extents, *arguments, *unread])

    # -- results ------------------------------------------------------------------------------

    def _checked(self, op: Op, returned: Any) -> list[Parts]:
        """Checks a handler's values against the op's result types and sets their shapes."""
        if isinstance(returned, oir.Value):
            types = self.em.types(op.results[0].type) if len(op.results) == 1 else ()
            if len(types) == 1:  # as of nearly all
                self._stamp(op, returned, types[0])
                return [(returned,)]
            returned = (returned,)
        values: list[Any] = list(returned)
        if values and isinstance(values[0], tuple):
            values = [part for parts in values for part in parts]
        results: list[Parts] = []
        start = 0
        for result in op.results:
            types = self.em.types(result.type)
            parts = tuple(values[start : start + len(types)])
            if len(parts) != len(types):
                raise InternalError(f"the handler of {op.name} returned too few values")
            for part, expected in zip(parts, types, strict=True):
                self._stamp(op, part, expected)
            results.append(parts)
            start += len(types)
        if start < len(values):
            raise InternalError(f"the handler of {op.name} returned too many values")
        return results

    def _stamp(self, op: Op, value: oir.Value, expected: TensorType) -> None:
        self.em.require_type(expected.dtype)
        if dtype_of(value) != expected.dtype:
            raise InternalError(f"{op.name}: got {value.dtype}, the program says {expected}")
        if self.context.in_scalar_region:
            return
        shape = shape_of(value)
        if shape == expected.shape and None not in shape:  # as of nearly all
            return
        if not expected.admits(shape):
            raise InternalError(f"{op.name}: got shape {shape}, the program says {expected}")
        if any(not isinstance(have, int) for have in shape):
            value.shape = oir.Shape(
                self._introduced(value, axis, have) if want is None else want
                for axis, (have, want) in enumerate(zip(shape, expected.shape, strict=True))
            )

    def _introduced(self, value: oir.Value, axis: int, dim: Dim) -> Dim:
        """The extent, with a symbol if nothing is known about it."""
        if isinstance(dim, int) or dim.value is not None:
            return dim
        return self.em.extents.extent_of(value, axis)

    def _note_expansion(self, found: Diagnosis, op: Op, origin: Origin, nodes: int) -> None:
        if nodes < found.fewest or self.context.in_expansion or op.operation.name in _OF_BODIES:
            return
        found.expansions.append(Expansion(op.key, op.types(), str(origin), nodes, self.em.scope))

    def _placeholder(self, value: MlirValue) -> Parts:
        try:
            types = parts_of(value.type)
        except UnsupportedOp:
            types = (TensorType(oir.DataType.FLOAT, ()),)
        return tuple(
            self.em.value("unsupported", part.dtype, [1 if d is None else d for d in part.shape])
            for part in types
        )


_OF_BODIES = frozenset(
    {"func.call", "stablehlo.case", "stablehlo.composite", "stablehlo.if", "stablehlo.while"}
)
"""Ops whose nodes are those of ops in their bodies."""


def _no_handler(op: Op) -> UnsupportedOp:
    if not isinstance(op, CustomCall):
        kind = "complex numbers" if op.touches_complex else "this op"
        return UnsupportedOp(f"hlo2onnx has no handler for {kind}")
    kind = "complex numbers" if op.touches_complex else "these types"
    return UnsupportedOp(
        f"unknown custom call @{op.target}: hlo2onnx has no translation of it for {kind}",
        "register one: hlo2onnx.expand_custom_call(target, jax_function), or hlo2onnx.custom_call("
        "target, domain=..., op_type=...) for an operator of a runtime, or"
        " translate(..., custom_calls={target: ...}); if the call belongs to another platform,"
        " lower the function for the CPU",
    )

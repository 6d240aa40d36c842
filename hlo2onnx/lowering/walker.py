"""Walks a module once and hands each op to its handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.errors import InternalError, Refusal, UnsupportedOp
from hlo2onnx.ir.expansion_notes import note_origin
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.limitations import limitation_of
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.functions import KeptFunctions
from hlo2onnx.lowering.mlir_expansion import Expansions, is_elementwise
from hlo2onnx.lowering.op import CustomCall, Op, op_of
from hlo2onnx.lowering.registry import Handler, Registry
from hlo2onnx.lowering.shape_arithmetic import (
    evaluated,
    evaluated_call,
    extent_contents,
    value_of,
)
from hlo2onnx.lowering.through_jax import Symbols, lowered_function
from hlo2onnx.mlir.callbacks import is_callback, way_out
from hlo2onnx.mlir.dynamic_calls import fault_of
from hlo2onnx.mlir.locations import Origin, origin_of
from hlo2onnx.mlir.shardings import SHARDINGS, boundary_attributes
from hlo2onnx.mlir.types import TensorType, parts_of
from hlo2onnx.mlir.values import leading_to
from hlo2onnx.report import SHARDINGS_DROPPED

TERMINATORS = frozenset({"func.return", "stablehlo.return", "sdy.return", "chlo.return"})


class Walker:
    """Translates blocks of one module.

    Args:
        em: The emitter whose environment receives the values.
        functions: The module's functions by symbol.
        registry: The handlers.
        kept: The functions of the model, where private functions are kept.
    """

    def __init__(
        self,
        em: Emitter,
        functions: Mapping[str, Any],
        registry: Registry,
        kept: KeptFunctions | None = None,
    ) -> None:
        self.em = em
        self.kept = kept
        self.functions = functions
        self.registry = registry
        self.refusals: list[Refusal] = []
        self.expansions = Expansions()
        self._prefix = ""
        self._origin = Origin()
        self._calls: list[Any] = []
        self._own_origins = True
        em.walker = self

    # -- blocks -------------------------------------------------------------------------------

    def block(self, block: Any, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a block in place; returns the parts its terminator returns."""
        environment = self.em.environment
        for argument, parts in zip(block.arguments, arguments, strict=True):
            environment[argument] = parts
        for operation in block.operations:
            if operation.operation.name in TERMINATORS:
                return [environment[operand] for operand in operation.operation.operands]
            self.op(op_of(operation.operation))
        raise InternalError("a block without terminator")

    def call(self, symbol: str, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a function's body in place."""
        function = self.functions.get(symbol)
        if function in self._calls:
            raise UnsupportedOp(f"@{symbol} calls itself; ONNX has no recursion")
        if function is None or not function.regions[0].blocks:
            raise UnsupportedOp(f"the module has no function @{symbol} with a body")
        known = evaluated_call(self.em, function, arguments)
        if known is not None:
            return known
        if not SHARDINGS.isdisjoint(boundary_attributes(function)):
            self.em.report.note(SHARDINGS_DROPPED)
        saved = (self._prefix, self.em.scope, self.em.metadata)
        self._prefix = self.em.scope
        self._calls.append(function)
        try:
            return self.block(function.regions[0].blocks[0], arguments)
        finally:
            self._calls.pop()
            self._prefix, self.em.scope, self.em.metadata = saved

    def values(self, block: Any, arguments: Sequence[Parts], wanted: Sequence[Any]) -> list[Parts]:
        """Translates those ops of a block that some of its values depend on; returns the parts of
        these values."""
        environment = self.em.environment
        for argument, parts in zip(block.arguments, arguments, strict=True):
            environment[argument] = parts
        for operation in leading_to(block, wanted):
            self.op(op_of(operation))
        return [environment[value] for value in wanted]

    def scalar_function(
        self, block: Any, results: Sequence[Any] | None = None
    ) -> Callable[..., list[oir.Value]]:
        """See `Emitter.scalar_function`."""

        def apply(*tensors: oir.Value | Parts) -> list[oir.Value]:
            saved, self._whole_tensors = self._whole_tensors, True
            arguments = [item if isinstance(item, tuple) else (item,) for item in tensors]
            try:
                if results is None:
                    returned = self.block(block, arguments)
                else:
                    returned = self.values(block, arguments, results)
            finally:
                self._whole_tensors = saved
            return [part for parts in returned for part in parts]

        return apply

    _whole_tensors = False
    """Within a scalar region applied to tensors: results keep the tensors' shape."""

    @property
    def in_expansion(self) -> bool:
        """Whether what an op expands into is being translated."""
        return not self._own_origins

    @property
    def in_scalar_region(self) -> bool:
        """Whether a scalar region is being applied to whole tensors."""
        return self._whole_tensors

    # -- one op -------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        """Translates one op; what it cannot is recorded, and its results become placeholders, so
        that one run finds every unsupported op."""
        em = self.em
        em.report.ops[op.name] += 1
        outer = (em.scope, em.metadata, self._origin)
        # What an expansion consists of has no location of its own: it is the expanded op's.
        own = origin_of(op.operation.location) if self._own_origins else Origin()
        origin = self._origin = own or self._origin
        em.scope = self._scope(op, own)
        em.metadata = {"jax.source": origin.source} if origin.source else {}
        if not SHARDINGS.isdisjoint(op.mlir_names):
            em.report.note(SHARDINGS_DROPPED)
        try:
            results = self._apply(op)
        except UnsupportedOp as refusal:
            self._refuse(op, origin, refusal)
            results = [self._placeholder(value) for value in op.results]
        except InternalError:
            if not self.refusals:
                raise
            # A placeholder, scalar within a scalar region, does not fit what reads it.
            results = [self._placeholder(value) for value in op.results]
        finally:
            em.scope, em.metadata, self._origin = outer
        em.environment.update(zip(op.results, results, strict=True))

    def _scope(self, op: Op, origin: Origin) -> str:
        scope = origin.scope or op.label
        return f"{self._prefix}/{scope}" if self._prefix else scope

    def _apply(self, op: Op) -> list[Parts]:
        known = evaluated(self.em, op)
        if known is not None:
            return self._checked(op, known)
        handler = self.registry.find(op.key, op.touches_complex)
        if handler is None:
            if self.expansions.knows(op):
                return self.expansion(op)
            raise self._unhandled(op)
        fault = fault_of(op.operation) if isinstance(op, CustomCall) else None
        if fault is not None:
            raise UnsupportedOp(f"the call is malformed: {fault}")
        attributes = _attributes(handler, op)
        if handler.form == "parts" and op.touches_complex:
            return self._each_part(handler, op, attributes)
        return self._checked(op, handler.function(self.em, op, **attributes))

    def _unhandled(self, op: Op) -> UnsupportedOp:
        refusal = limitation_of(op.key, self._origin.scope) or _no_handler(op)
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
                returned: Any = handler.function(self.em, op, **attributes)
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
        saved = (self._prefix, self._whole_tensors)
        self._prefix = self.em.scope
        self._whole_tensors = self._whole_tensors or is_elementwise(op)
        try:
            results = self.block(function.regions[0].blocks[0], operands)
        finally:
            self._prefix, self._whole_tensors = saved
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
        extents = [self._extent(symbols.extents[name]) for name in lowered.symbols]
        saved = (self.functions, self._own_origins, self._whole_tensors)
        self.functions, self._own_origins, self._whole_tensors = lowered.functions, False, False
        try:
            return self.call("main", [*extents, *arguments, *([()] if extents else [])])
        finally:
            self.functions, self._own_origins, self._whole_tensors = saved

    def _extent(self, dim: Dim) -> Parts:
        """The scalar that JAX lets a function have for a symbolic extent."""
        return (value_of(self.em, extent_contents(dim), oir.DataType.INT64),)

    # -- results ------------------------------------------------------------------------------

    def _checked(self, op: Op, returned: Any) -> list[Parts]:
        """Checks a handler's values against the op's result types and stamps these on them."""
        values: list[Any] = [returned] if isinstance(returned, oir.Value) else list(returned)
        if values and isinstance(values[0], tuple):
            values = [part for parts in values for part in parts]
        results: list[Parts] = []
        for result in op.results:
            types = parts_of(result.type)
            parts, values = tuple(values[: len(types)]), values[len(types) :]
            if len(parts) != len(types):
                raise InternalError(f"the handler of {op.name} returned too few values")
            for part, expected in zip(parts, types, strict=True):
                self._stamp(op, part, expected)
            results.append(parts)
        if values:
            raise InternalError(f"the handler of {op.name} returned too many values")
        return results

    def _stamp(self, op: Op, value: oir.Value, expected: TensorType) -> None:
        self.em.require_type(expected.dtype)
        if dtype_of(value) != expected.dtype:
            raise InternalError(f"{op.name}: got {value.dtype}, the program says {expected}")
        if self._whole_tensors:
            return
        shape = shape_of(value)
        fits = len(shape) == len(expected.shape) and all(
            want is None or not isinstance(have, int) or have == want
            for have, want in zip(shape, expected.shape, strict=True)
        )
        if not fits:
            raise InternalError(f"{op.name}: got shape {shape}, the program says {expected}")
        if any(not isinstance(have, int) for have in shape):
            value.shape = oir.Shape(
                self._introduced(value, axis, have) if want is None else want
                for axis, (have, want) in enumerate(zip(shape, expected.shape, strict=True))
            )

    def _introduced(self, value: oir.Value, axis: int, dim: Dim) -> Dim:
        """An extent that nothing is known of gets a symbol."""
        if isinstance(dim, int) or dim.value is not None:
            return dim
        return self.em.extents.extent_of(value, axis)

    def _refuse(self, op: Op, origin: Origin, refusal: UnsupportedOp) -> None:
        self.refusals.append(Refusal(op.key, op.types(), str(origin), refusal.why, refusal.next))

    def _placeholder(self, value: Any) -> Parts:
        try:
            types = parts_of(value.type)
        except UnsupportedOp:
            types = (TensorType(oir.DataType.FLOAT, ()),)
        return tuple(
            self.em.value("unsupported", part.dtype, [1 if d is None else d for d in part.shape])
            for part in types
        )


def _no_handler(op: Op) -> UnsupportedOp:
    if not isinstance(op, CustomCall):
        kind = "complex numbers" if op.touches_complex else "this op"
        return UnsupportedOp(f"hlo2onnx has no handler for {kind}")
    kind = "complex numbers" if op.touches_complex else "these types"
    return UnsupportedOp(
        f"@{op.target} is code outside the program, and hlo2onnx has no translation of it that"
        f" takes {kind}",
        "register one: hlo2onnx.expand_custom_call(target, jax_function), or hlo2onnx.custom_call("
        "target, domain=..., op_type=...) for an operator of a runtime, or"
        " translate(..., custom_calls={target: ...}); where the call belongs to another platform,"
        " lower the function for the CPU",
    )


_OF_NO_MEANING = frozenset({"result_layout", "xla_shape"})
"""What XLA's exporters add to any op: how its result lies in memory, and XLA's name of its type."""


def _attributes(handler: Handler, op: Op) -> dict[str, Any]:
    """The attributes the handler reads, as Python values.

    Raises:
        UnsupportedOp: The op carries one that the handler does not know, or lacks one it needs.
    """
    values = {}
    for name in op.attribute_names:
        if name in handler.reads or (handler.reads_rest and name not in handler.ignores):
            values[name] = op.attribute(name)
        elif name not in handler.ignores and name not in _OF_NO_MEANING:
            raise UnsupportedOp(f"attribute {name} = {op.attribute(name)} is not known")
    missing = handler.required - values.keys()
    if missing:
        raise UnsupportedOp(f"attribute {', '.join(sorted(missing))} is missing")
    return values

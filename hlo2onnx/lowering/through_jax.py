"""Lowering of JAX functions that replace an op.

Some ops have no ONNX operator and are long as nodes, but short in JAX: decompositions of linear
algebra, generators of random bits, special functions. Such a function is pure, takes and returns
arrays, and is testable in JAX alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.export
import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.frontend.jax_lowered import from_lowered
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.normalize import normalized
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dims import expression
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.report import Report


@dataclass(frozen=True)
class Symbol:
    """An extent that is not known when a function is traced; equal ones have the same name."""

    name: str


ArrayType = tuple[tuple[int | Symbol, ...], np.dtype]
"""Shape and element type of an argument."""


@dataclass(frozen=True)
class LoweredFunction:
    """A function of JAX as StableHLO.

    Attributes:
        functions: The functions of its module by symbol. "main" takes `symbols` as scalars, then
            the arguments in order, then, if there are symbols, one that it does not read.
        symbols: Names of extents.
        module: The module, kept alive.
    """

    functions: Mapping[str, ir.Operation]
    symbols: tuple[str, ...]
    module: ir.Operation


@functools.lru_cache(maxsize=256)
def lowered_function(
    function: Callable[..., Any],
    types: tuple[ArrayType, ...],
    keywords: tuple[tuple[str, Any], ...],
) -> LoweredFunction:
    """Lowers a function for the CPU, in 64 bits and for arguments of these types.

    Args:
        function: Takes one array per type, and the keywords.
        types: Shapes and element types.
        keywords: Names and hashable values of other arguments. A `Symbol`, also in a tuple, stands
            for the extent.

    Raises:
        UnsupportedOp: The function cannot be traced for symbolic extents.
    """
    items = [dim for shape, _ in types for dim in shape]
    for _, value in keywords:
        items += value if isinstance(value, tuple) else [value]
    names = dict.fromkeys(item.name for item in items if isinstance(item, Symbol))
    dims = dict(zip(names, jax.export.symbolic_shape(", ".join(names)), strict=True))
    arguments = [jax.ShapeDtypeStruct(_replaced(shape, dims), dtype) for shape, dtype in types]
    statics = {name: _replaced(value, dims) for name, value in keywords}
    if names:
        # Every symbol must occur in the shape of an argument.
        arguments.append(jax.ShapeDtypeStruct(tuple(dims.values()), np.bool_))
        function = _but_last(function)
    jitted = jax.jit(functools.partial(function, **statics), keep_unused=True)
    try:
        with jax.enable_x64(True):
            lowered = jitted.trace(*arguments).lower(lowering_platforms=("cpu",))
    except _UNTRACEABLE as error:
        if not names:
            raise
        raise UnsupportedOp(
            "the operands have symbolic extents, and its translation needs static shapes", STATIC
        ) from error
    source = from_lowered(lowered)
    given = source.signature.dims
    symbols = tuple(str(given[position]) for position in sorted(given))
    module = normalized(source.module)
    return LoweredFunction(functions_of(module), symbols, module)


STATIC = (
    'fix the extents: specialize={"n": 8} (--specialize n=8), with every dimension of the program,'
    " or example arguments of static shapes"
)
"""Advice for an op that is translated for static shapes only."""

_UNTRACEABLE = (
    jax.errors.InconclusiveDimensionOperation,
    TypeError,  # also of a tracer where a number has to be
    ValueError,
    NotImplementedError,
)
"""Exceptions of JAX and NumPy where an extent must be a number."""


def _but_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with one more argument, which it ignores."""

    def called(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments[:-1], **keywords)

    return called


def _replaced(value: Any, dims: Mapping[str, Any]) -> Any:
    """The value with symbols replaced by extents of JAX."""
    if isinstance(value, tuple):
        return tuple(_replaced(item, dims) for item in value)
    return dims[value.name] if isinstance(value, Symbol) else value


class Symbols:
    """Names for the symbolic extents in the arguments of one call."""

    def __init__(self) -> None:
        self.extents: dict[str, Dim] = {}
        self._names: dict[Any, Symbol] = {}

    def array_type(self, parts: Parts) -> ArrayType:
        """The type of an argument given as the parts of a value; two are a complex array."""
        if not 1 <= len(parts) <= 2:
            raise InternalError("a token is not an argument of a JAX function")
        dtype = dtype_of(parts[0]).numpy()
        shape = tuple(map(self.named, shape_of(parts[0])))
        return shape, np.result_type(dtype, np.complex64) if len(parts) == 2 else dtype

    def named(self, value: Any) -> Any:
        """An extent, also in a tuple, as a symbol; other values unchanged."""
        if isinstance(value, tuple):
            return tuple(map(self.named, value))
        if not isinstance(value, oir.SymbolicDim):
            return value
        formula = expression(value)
        if formula not in self._names:
            name = f"d{len(self._names)}"
            self._names[formula], self.extents[name] = Symbol(name), value
        return self._names[formula]


def function_of(call: CustomCall) -> Callable[..., Any] | None:
    """The function of arrays that the handler of a call passes to `through_jax` with its operands;
    None if the handler does anything else.

    Its results, in any pytree, are the results of the call.
    """
    handler = load_handlers().find(call.key, call.touches_complex)
    if handler is None:
        return None
    emitter = _Recorder()
    attributes = {name: call.attribute(name) for name in call.attribute_names}
    read = {name: value for name, value in attributes.items() if name in handler.reads}
    handler.function(emitter, call, **read)
    return emitter.function


class _Recorder:
    """An emitter for handlers that only call `through_jax` on their operands."""

    def __init__(self) -> None:
        self.report = Report()
        self.function: Callable[..., Any] | None = None

    def parts(self, value: MlirValue) -> tuple[oir.Value, ...]:
        """Values of the operand's types."""
        return tuple(
            oir.Value(shape=oir.Shape(part.value_type[1]), type=oir.TensorType(part.dtype))
            for part in parts_of(value.type)
        )

    def through_jax(self, function: Callable[..., Any], *_: Any, **keywords: Any) -> list[Any]:
        """Keeps the function."""
        self.function = partial(function, **keywords)
        return []

"""Functions written in JAX, as StableHLO to translate in the place of an op.

What ONNX has no operator for, and what is long to say in nodes, is short in JAX: a decomposition
of linear algebra, a generator of random bits, a special function. Such a function is pure, takes
and returns arrays, and is testable in JAX alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.graph.values import dtype_of, shape_of
from hlo2onnx.mlir.normalize import functions_of, normalized
from hlo2onnx.sources.lowered import from_lowered

if TYPE_CHECKING:
    from hlo2onnx.lowering.emitter import Parts

ArrayType = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and element type of an argument."""


@dataclass(frozen=True)
class LoweredFunction:
    """A function of JAX as StableHLO.

    Attributes:
        functions: The functions of its module by symbol; "main" takes the arguments in order.
        module: Keeps them alive.
    """

    functions: Mapping[str, Any]
    module: Any


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
        keywords: Names and (hashable) values of what is not an array.
    """
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in types]
    jitted = jax.jit(functools.partial(function, **dict(keywords)), keep_unused=True)
    with jax.enable_x64(True):
        lowered = jitted.trace(*arguments).lower(lowering_platforms=("cpu",))
    module = normalized(from_lowered(lowered).module)
    return LoweredFunction(functions_of(module), module)


def array_types(arguments: Sequence[Parts]) -> tuple[ArrayType, ...]:
    """The types of arguments given as parts of values; two parts are a complex array.

    Raises:
        UnsupportedOp: A shape is dynamic.
    """
    return tuple(_array_type(parts) for parts in arguments)


def _array_type(parts: Parts) -> ArrayType:
    if not 1 <= len(parts) <= 2:
        raise InternalError("a token is no argument of a JAX function")
    shape = tuple(dim for dim in shape_of(parts[0]) if isinstance(dim, int))
    if len(shape) != len(shape_of(parts[0])):
        raise UnsupportedOp(
            "its expansion needs static shapes", "lower the function for static shapes"
        )
    dtype = dtype_of(parts[0]).numpy()
    return shape, np.result_type(dtype, np.complex64) if len(parts) == 2 else dtype

"""Inputs as jax2onnx' function takes them, as arguments for `jax.jit(...).lower`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from hlo2onnx.errors import UsageError

_DOUBLES = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


class ArgumentError(UsageError, ValueError, TypeError):
    """An argument has a wrong type or value. jax2onnx raises ValueError or TypeError for it."""


def input_specs(inputs: Any, double: bool) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of the positional arguments.

    Args:
        inputs: Shapes, `jax.ShapeDtypeStruct`s or arrays.
        double: Whether shapes and f32 inputs become f64. The caller has set `jax_enable_x64`.

    Raises:
        ArgumentError: An item is none of these.
    """
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise ArgumentError(f"inputs={inputs!r} is no list of shapes, shape structs or arrays")
    items = list(inputs)
    shapes = [_shape(index, item) for index, item in enumerate(items)]
    scopes = (getattr(dim, "scope", None) for shape in shapes for dim in shape)
    scope = next((found for found in scopes if found is not None), jax.export.SymbolicScope())
    dtypes = [np.dtype(np.float32) if _is_shape(item) else item.dtype for item in items]
    return [
        jax.ShapeDtypeStruct(_dims(index, shape, scope), _dtype(dtype, double))
        for index, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]


def parameter_specs(parameters: Mapping[str, Any] | None, double: bool) -> dict[str, Any]:
    """The keyword arguments, arrays as their shapes and types.

    Raises:
        ArgumentError: They are not a mapping of strings to values.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ArgumentError(f"input_params={parameters!r} is not a mapping of names to values")
    for name in parameters or {}:
        if not isinstance(name, str):
            raise ArgumentError(f"input_params: the key {name!r} is not a string")
    return {
        name: jax.tree.map(
            lambda leaf: (
                jax.ShapeDtypeStruct(leaf.shape, _dtype(leaf.dtype, double)) if _has(leaf) else leaf
            ),
            value,
        )
        for name, value in (parameters or {}).items()
    }


def _has(item: Any) -> bool:
    return hasattr(item, "shape") and hasattr(item, "dtype")


def _is_shape(item: Any) -> bool:
    return isinstance(item, tuple | list)


def _shape(index: int, item: Any) -> Sequence[Any]:
    if not _is_shape(item) and not _has(item):
        raise ArgumentError(
            f"inputs[{index}] is {item!r}: give a shape such as ('B', 3), a jax.ShapeDtypeStruct"
            " or an array"
        )
    return tuple(item if _is_shape(item) else item.shape)


def _dims(index: int, shape: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    """The extents, texts among them as symbolic dimensions."""
    for dim in shape:
        is_number = isinstance(dim, int | np.integer) and dim >= 0
        if not is_number and not isinstance(dim, str) and not jax.export.is_symbolic_dim(dim):
            raise ArgumentError(
                f"inputs[{index}] has the dimension {dim!r}: give a number, or a name such as 'B'"
                " for a free one"
            )
    if all(isinstance(dim, int | np.integer) for dim in shape):
        return tuple(map(int, shape))
    try:
        return tuple(jax.export.symbolic_shape(",".join(map(str, shape)), scope=scope))
    except ValueError as error:
        raise ArgumentError(f"inputs[{index}] has the shape {tuple(shape)}: {error}") from error


def _dtype(dtype: Any, double: bool) -> Any:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):  # typed PRNG keys
        return dtype
    known = np.dtype(dtype)
    return jax.dtypes.canonicalize_dtype(_DOUBLES.get(known, known) if double else known)

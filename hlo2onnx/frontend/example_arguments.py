"""What to say about example arguments: errors of JAX that they cause, and types that it narrows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax
import jax.export
import numpy as np

from hlo2onnx.frontend.port_names import leaf_name
from hlo2onnx.frontend.signature import PyTree

Arguments: TypeAlias = tuple[tuple[PyTree, ...], Mapping[str, PyTree]]
"""`(args, kwargs)`."""

_SHOWN = 5


def advice_for(error: Exception, arguments: Arguments, names: Sequence[str]) -> str:
    """What an error of a traced function means, and what to do; "" if nothing is known.

    Args:
        error: The error.
        arguments: The arguments, with free dimensions.
        names: Names of the positional parameters.
    """
    message = str(error)
    if text := _text_in(message, error, arguments, names):
        return text
    leaves = jax.tree.leaves(arguments)
    dims = {dim for leaf in leaves for dim in getattr(leaf, "shape", ())}
    symbols = sorted(
        {name for dim in dims if jax.export.is_symbolic_dim(dim) for name in _symbols(dim)}
    )
    is_comparison = isinstance(error, jax.errors.InconclusiveDimensionOperation)
    is_shape = isinstance(error, TypeError | ValueError) and "shape" in message
    named = [name for name in symbols if re.search(rf"\b{re.escape(name)}\b", message)]
    if not named or not (is_comparison or is_shape):
        return ""
    bound = re.search(r"\bmin\((\d+),|\+ (\d+)|<= '(\d+)'", message)  # such as a length
    number = "64" if bound is None else bound[bound.lastindex or 0]
    first, second = (*named[:2], number)[:2]
    return (
        f"JAX cannot trace the function for all sizes of {', '.join(named)}:"
        f" {message.partition(chr(10))[0]}\n"
        f'  next   say what holds for the sizes, as in constraints=["{first} <= {second}"]; or give'
        " equal dimensions the same name, or fix them with a number"
    )


def _symbols(dim: object) -> list[str]:
    names = re.findall(r"[^\W\d]\w*", str(dim))
    return [name for name in names if name not in ("floordiv", "max", "min", "mod")]


def _text_in(message: str, error: Exception, arguments: Arguments, names: Sequence[str]) -> str:
    """About a text in a pytree that the function takes for an array."""
    if not isinstance(error, TypeError | AttributeError):
        return ""
    for path, leaf in jax.tree_util.tree_flatten_with_path(arguments)[0]:
        if isinstance(leaf, str) and (re.search(r"\bstr\b", message) or leaf in message):
            return (
                f"the function takes {leaf_name(path, names)} for an array, and it is the text"
                f" {leaf!r}: {message.partition(chr(10))[0]}\n"
                "  next   write the shape of an array in a pytree with its type, as in"
                ' "float32[b]", or with a comma, as in "b, 4"; other texts there are settings'
            )
    return ""


def narrowed(arguments: Arguments, names: Sequence[str]) -> list[str]:
    """A note on arguments of f64 that become f32, because 64-bit types are off in JAX."""
    found = [
        leaf_name(path, names)
        for path, leaf in jax.tree_util.tree_flatten_with_path(arguments)[0]
        if _is_narrowed(getattr(leaf, "dtype", None))
    ]
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [
        f"arguments of 64-bit floats are of 32 bits in the program: {', '.join(found[:_SHOWN])}"
        f'{more}; jax.config.update("jax_enable_x64", True) keeps 64 bits'
    ]


def _is_narrowed(dtype: object) -> bool:
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fc":
        return False
    return bool(jax.dtypes.canonicalize_dtype(dtype) != dtype)

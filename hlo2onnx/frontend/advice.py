"""What to tell users about example arguments, unread arguments and training mode."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.export
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.values import operations_in
from hlo2onnx.frontend.ports import leaf_name
from hlo2onnx.frontend.signature import PyTree, Signature, key_paths
from hlo2onnx.frontend.source import Source, find_function

Arguments: TypeAlias = tuple[tuple[PyTree, ...], Mapping[str, PyTree]]
"""`(args, kwargs)`."""

SHOWN = 5
"""A note lists at most this many names."""


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
    return [
        f"arguments of 64-bit floats are of 32 bits in the program: {_listed(found)};"
        ' jax.config.update("jax_enable_x64", True) keeps 64 bits'
    ]


def _is_narrowed(dtype: object) -> bool:
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fc":
        return False
    return bool(jax.dtypes.canonicalize_dtype(dtype) != dtype)


STATISTICS = frozenset({"batch_stats", "moving_mean", "moving_variance", "running_mean"})
"""Parts of the names of batch statistics."""

DROPOUT = (
    "the program draws bernoulli samples, as dropout does in training: if it is for inference,"
    " translate it with deterministic=True, train=False or inference=True"
)


def with_notes(loaded: Source, bound: Source, parameters: Sequence[str]) -> Source:
    """The program with notes on arguments that it does not read, and on training mode.

    Args:
        loaded: The program before arguments were bound.
        bound: The program.
        parameters: Names of the function's positional parameters, if known.
    """
    unread = _pruned(loaded.signature, parameters)
    notes = list(bound.notes)
    weights = [
        item.port.name for item in bound.signature.bound if _is_unread(bound, item.port.position)
    ]
    if unread:
        notes.append(f"the program does not read these arguments: {_listed(unread)}")
    if weights:
        notes.append(f"the program does not read these parameters: {_listed(weights)}")
    if any(
        name.lstrip("_").startswith("bernoulli") for name in functions_of(bound.module.operation)
    ):
        notes.append(DROPOUT)
    if updated := _updated_statistics(bound):
        notes.append(
            f"the program updates batch statistics, as in training: {_listed(updated)}; if it is"
            " for inference, translate it with train=False or use_running_average=True"
        )
    return replace(bound, notes=tuple(dict.fromkeys(notes)))


def _pruned(signature: Signature, parameters: Sequence[str]) -> list[str]:
    """The arguments that jit has pruned, each as a whole if nothing of it is read."""
    trees = signature.trees
    if trees is None:
        return []
    paths = key_paths(trees.in_tree, trees.in_leaves)
    read = {
        path[:2] for path, leaf in zip(paths, trees.in_leaves, strict=True) if leaf.port is not None
    }
    named = parameters if not trees.statics.positional else ()
    names = [
        leaf_name(path if path[:2] in read else path[:2], named)
        for path, leaf in zip(paths, trees.in_leaves, strict=True)
        if leaf.port is None
    ]
    return list(dict.fromkeys(names))


def _is_unread(source: Source, position: int) -> bool:
    argument = _function(source).regions[0].blocks[0].arguments[position]
    return not any(True for _ in argument.uses)


def _updated_statistics(source: Source) -> list[str]:
    """Results that are batch statistics, and not those that the program was given."""
    signature = source.signature
    names = [port for port in signature.outputs if STATISTICS & set(port.name.split("/"))]
    if not names:
        return []
    results = operations_in(_function(source).regions[0].blocks[0])[-1].operands
    return [port.name for port in names if not isinstance(results[port.position].owner, ir.Block)]


def _function(source: Source) -> ir.Operation:
    return find_function(source.module.operation, source.function, source.description)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

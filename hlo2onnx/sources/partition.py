"""Separates the arrays in arguments from other leaves: the functions and settings of modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import jax
from jax.tree_util import PyTreeDef

from hlo2onnx.sources.signature import PyTree


def partitioned(tree: PyTree) -> tuple[PyTree, PyTree]:
    """A tree of the arrays and one of the other leaves, with numbers; None replaces leaves."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return _halves(structure, [(leaf, is_array(leaf)) for leaf in leaves])


def partitioned_within(arguments: PyTree) -> tuple[PyTree, PyTree]:
    """The same for `(args, kwargs)` of `jax.jit`.

    Numbers are among the arrays. So are arguments that are single leaves: JAX refuses them if they
    are no arrays. Otherwise, they would silently become part of the program.
    """
    pairs, structure = jax.tree_util.tree_flatten_with_path(arguments)
    kinds = [
        (leaf, len(path) == 2 or is_array(leaf) or isinstance(leaf, bool | int | float | complex))
        for path, leaf in pairs
    ]
    return _halves(structure, kinds)


def _halves(structure: PyTreeDef, pairs: Sequence[tuple[object, bool]]) -> tuple[PyTree, PyTree]:
    arrays = structure.unflatten([leaf if is_array else None for leaf, is_array in pairs])
    objects = structure.unflatten([None if is_array else leaf for leaf, is_array in pairs])
    return arrays, objects


def combined(arrays: PyTree, objects: PyTree) -> PyTree:
    """The reverse of `partitioned`."""
    return jax.tree_util.tree_map(
        lambda array, other: array if other is None else other,
        arrays,
        objects,
        is_leaf=lambda leaf: leaf is None,
    )


def plain_function(
    function: Callable[..., object],
) -> tuple[Callable[..., object], PyTree | None]:
    """The plain function of a callable, and its module; None if the callable has no arrays.

    A module is a pytree that can be called, as those of equinox and flax.nnx. It is the first
    argument of the plain function.
    """
    function = unfiltered(function)
    leaves = jax.tree_util.tree_leaves(function)
    if not any(is_array(leaf) for leaf in leaves):
        return function, None
    method = type(function).__call__
    return (method, function) if inspect.isfunction(method) else (function, None)


def is_filtered(function: Callable[..., object]) -> bool:
    """Whether a function is one of `equinox.filter_jit`. Numbers are static arguments of these."""
    return unfiltered(function) is not function


def unfiltered(function: Callable[..., object]) -> Callable[..., object]:
    """The function in one of `equinox.filter_jit`, or the function itself."""
    is_equinox = type(function).__module__ == "equinox._jit"
    return getattr(function, "__wrapped__", function) if is_equinox else function


def is_array(leaf: object) -> bool:
    """Whether a leaf is an array, or can be made one by JAX."""
    return (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or hasattr(leaf, "__jax_array__")

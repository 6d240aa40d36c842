"""Leaves of arguments that are no arrays: functions and settings that modules carry along."""

from __future__ import annotations

from typing import Any

import jax


def partitioned(tree: Any) -> tuple[Any, Any]:
    """The tree with its arrays alone, and the one with everything else; None takes the others'
    places. Numbers and truth values are arrays, as for `jax.jit`; texts are not."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    kinds = [_is_array(leaf) for leaf in leaves]
    pairs = list(zip(leaves, kinds, strict=True))
    arrays = structure.unflatten([leaf if is_array else None for leaf, is_array in pairs])
    objects = structure.unflatten([None if is_array else leaf for leaf, is_array in pairs])
    return arrays, objects


def combined(arrays: Any, objects: Any) -> Any:
    """What `partitioned` took apart."""
    return jax.tree_util.tree_map(
        lambda array, other: array if other is None else other,
        arrays,
        objects,
        is_leaf=lambda leaf: leaf is None,
    )


def _is_array(leaf: Any) -> bool:
    has_type = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    is_number = isinstance(leaf, bool | int | float | complex)
    return has_type or is_number or hasattr(leaf, "__jax_array__")

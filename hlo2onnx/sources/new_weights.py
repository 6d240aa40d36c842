"""Other weights for a program whose weights are bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hlo2onnx.errors import SignatureError, UsageError
from hlo2onnx.sources.captured import Arrays, held_arrays, paths
from hlo2onnx.sources.input_arrays import input_array
from hlo2onnx.sources.signature import Bound, PyTree
from hlo2onnx.sources.source import Source

_MOST_NAMES = 5
"""Limit of the missing names that an error lists."""


def with_new_weights(source: Source, tree: PyTree) -> Source:
    """The program with other arrays in place of the bound ones.

    Args:
        source: The program.
        tree: The weights: a mapping of arguments to pytrees, as for `bind=`; the one argument that
            is bound; a module or another callable with weights, like the one that was translated;
            or a mapping of names to arrays.

    Raises:
        UsageError: Weights are missing, or an array has another shape or type.
    """
    given = _named(tree, source)
    bound = tuple(
        replace(item, array=_stored_array(item, given[item.port.name]))
        for item in source.signature.bound
    )
    return replace(source, signature=replace(source.signature, bound=bound))


def bound_arrays(source: Source) -> dict[str, np.ndarray]:
    """The bound arrays by the names of their weights; complex ones by parts."""
    arrays: dict[str, np.ndarray] = {}
    for item in source.signature.bound:
        name, array = item.port.name, item.array
        if item.port.element.startswith("complex"):
            arrays |= {f"{name}/re": array.real, f"{name}/im": array.imag}
        else:
            arrays[name] = array
    return arrays


def _named(tree: PyTree, source: Source) -> Arrays:
    """The arrays of a tree by the names of the bound inputs."""
    names = [item.port.name for item in source.signature.bound]
    if not names:
        raise UsageError("no weights are bound: translate a module, or with bind=")
    found = (held_arrays(tree) if callable(tree) else {}) or paths(tree)
    heads = {name.split("/")[0] for name in names}
    if not found.keys() >= set(names) and len(heads) == 1:
        (head,) = heads
        found = {"/".join(part for part in (head, path) if part): x for path, x in found.items()}
    missing = [name for name in names if name not in found]
    if missing:
        listed = ", ".join(missing[:_MOST_NAMES])
        more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
        raise UsageError(f"these weights are missing: {listed}{more}")
    return found


def _stored_array(item: Bound, leaf: PyTree) -> np.ndarray:
    """An array for a bound input, in the type in which the old one is stored."""
    try:
        array = input_array(leaf, item.port, None)
    except SignatureError as error:
        raise UsageError(f"weights: {error}") from error
    return array.astype(item.array.dtype, copy=False)

"""What `dynamic=` says about one argument: a text, or texts for the parts of a pytree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.export
import jax.numpy as jnp
from jax.tree_util import PyTreeDef

from hlo2onnx.errors import UsageError
from hlo2onnx.sources.signature import PyTree, key_name


def with_spec(argument: PyTree, spec: PyTree, scope: jax.export.SymbolicScope, name: str) -> PyTree:
    """An argument as `jax.ShapeDtypeStruct`s with free dimensions.

    Args:
        argument: An array or a pytree of arrays.
        spec: A text for all arrays in it, None to keep them, or a container with a text, None or
            a container for each part.
        name: Name of the argument, for errors.

    Raises:
        UsageError: The text is no shape or does not fit, or the containers differ.
    """
    if spec is None:
        return argument
    if isinstance(spec, str):
        return _with_text(argument, spec, scope, name)
    (parts, structure), (specs, _) = _parts(argument), _parts(spec)
    if structure == _LEAF:
        shape = jnp.shape(argument)
        raise UsageError(
            f"dynamic= has {spec!r} for {name}, an array of shape {shape}: write the text"
            f' "{_as_text(spec, len(shape))}"'
        )
    if parts.keys() != specs.keys():
        keys = ", ".join(map(repr, parts)) or "no parts"
        raise UsageError(
            f"dynamic= has {spec!r} for {name}, which has {keys}: give each of them a text such as"
            ' "b, ..." or None, or one text for all'
        )
    return structure.unflatten(
        [with_spec(part, specs[key], scope, f"{name}[{key!r}]") for key, part in parts.items()]
    )


_LEAF = jax.tree_util.tree_structure(0)


def _with_text(argument: PyTree, text: str, scope: jax.export.SymbolicScope, name: str) -> PyTree:
    try:
        specs = jax.export.symbolic_args_specs(argument, text, scope=scope)
        for old, new in zip(jax.tree.leaves(argument), jax.tree.leaves(specs), strict=True):
            if len(jnp.shape(old)) != len(new.shape):
                raise ValueError(f"{text!r} has another rank than the shape {jnp.shape(old)}")
    except (ValueError, TypeError) as error:
        raise UsageError(f"these dynamic dimensions do not fit {name}: {error}") from error
    return specs


def _parts(tree: PyTree) -> tuple[dict[str, PyTree], PyTreeDef]:
    """The parts of a container by their keys, and its structure."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda item: item is not tree
    )
    return {key_name(path[0]): part for path, part in pairs if path}, structure


def _as_text(spec: object, rank: int) -> str:
    """The text for axes as other exporters name them: {0: "batch"}, or (None, 4)."""
    dims: list[object] = ["_"] * rank
    if isinstance(spec, Mapping):
        for axis, dim in spec.items():
            if isinstance(axis, int) and -rank <= axis < rank:
                dims[axis] = dim
    elif isinstance(spec, Sequence) and len(spec) == rank:
        dims = [
            ("b" if not axis else f"d{axis}") if d is None else d for axis, d in enumerate(spec)
        ]
    is_text = all(isinstance(dim, str | int) for dim in dims)
    return ", ".join(map(str, dims)) if is_text and set(dims) != {"_"} else "b, ..."

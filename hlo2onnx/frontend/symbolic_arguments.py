"""Example arguments with dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

import jax
import jax.export
import jax.numpy as jnp
from jax.tree_util import DictKey, KeyPath, PyTreeDef, SequenceKey

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.ports import argument_names, leaf_name, listed, positional_names
from hlo2onnx.frontend.signature import PyTree, key_name
from hlo2onnx.frontend.specialize import check_constraints, scope_of
from hlo2onnx.ir.dims import evaluate, parse
from hlo2onnx.options import Dynamic

_SPEC = re.compile(r"\s*(?:(?P<dtype>\w+)\s*\[(?P<inner>.*)\]|(?P<dims>.*))\s*", re.DOTALL)
_WORDS = re.compile(r"\w+")
_NO_NAMES = frozenset({"None", "True", "False"})
_MAX_EXTENT = (1 << 63) - 1


def symbolic_arguments(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic | None,
    constraints: Sequence[str] = (),
    statics: Collection[str | int] = (),
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """Replaces dynamic arguments by `jax.ShapeDtypeStruct`s of symbolic shapes.

    Args:
        function: The function. `dynamic` names its parameters.
        args, kwargs: Example arguments. A text such as "b, 128" (f32) or "int32[b, s]" is an
            argument of that shape, and so is a leaf of a pytree. Within a pytree, a text without
            a comma or a type, such as "relu", stays.
        dynamic: "b, ..." for an argument names its first dimension `b`. The other dimensions are
            those of the example. For a pytree, it holds for all leaves.
        constraints: What holds for the dimensions, such as "s <= 64".
        statics: Positions and names of static arguments. They stay as they are.

    Raises:
        UsageError: A text is not a shape or constraint, does not fit the example, or belongs to no
            argument.
    """
    if dynamic is not None and not isinstance(dynamic, str | Mapping):
        raise UsageError(
            f'dynamic={dynamic!r} is neither a string such as "b, ..." nor a mapping such as'
            ' {"x": "b, ..."}'
        )
    scope = scope_of(constraints)
    names = positional_names(function)
    specs = _by_argument(names, args, kwargs, dynamic or {})

    def free(place: str | int, item: PyTree) -> PyTree:
        if place in statics:
            return item
        if isinstance(place, int):
            keys: KeyPath = (SequenceKey(0), SequenceKey(place))
        else:
            keys = (SequenceKey(1), DictKey(place))
        item = _with_texts(item, keys, names, scope)
        return with_spec(item, specs.get(place), scope, leaf_name(keys, names))

    positional = tuple(free(index, item) for index, item in enumerate(args))
    named = {name: free(name, item) for name, item in kwargs.items()}
    if constraints:
        texts = [leaf for leaf in jax.tree.leaves((args, kwargs, dynamic)) if isinstance(leaf, str)]
        check_constraints(constraints, (positional, named), texts)
    return positional, named


def _with_texts(
    argument: PyTree, place: KeyPath, names: Sequence[str], scope: jax.export.SymbolicScope
) -> PyTree:
    """An argument with the shapes that texts in it describe.

    Args:
        place: Its path in `(args, kwargs)`.
        names: Names of the positional parameters.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(argument)
    if not any(isinstance(leaf, str) for _, leaf in leaves):
        return argument

    def converted(path: KeyPath, leaf: PyTree) -> PyTree:
        if not isinstance(leaf, str) or (path and not _is_shape(leaf)):
            return leaf
        try:
            return _from_text(leaf, scope)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"these dynamic dimensions do not fit: {leaf_name((*place, *path), names)} is the"
                f" text {leaf!r}: {error}\n"
                '  next   write the shape of a float32 array as "b, 4", others as "int32[b, s]"'
            ) from error

    return structure.unflatten([converted(path, leaf) for path, leaf in leaves])


def _is_shape(text: str) -> bool:
    """Whether a text in a pytree is a shape: it has a type, or a comma and the form of a shape.

    Others, such as "relu", are settings.
    """
    match = _SPEC.fullmatch(text)
    assert match is not None
    try:
        if match["dtype"]:
            # NumPy has codes of one letter, too: "a[0]" is not an array of the type "a".
            return len(match["dtype"]) > 3 and jnp.dtype(match["dtype"]) is not None
        return "," in text and bool(jax.export.symbolic_shape(text))
    except (ValueError, TypeError):
        return False


def with_sizes(arguments: PyTree, sizes: Mapping[str, int]) -> PyTree:
    """Arguments with numbers instead of symbolic dimensions."""

    def static(leaf: object) -> object:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        shape = [x if isinstance(x, int) else evaluate(parse(str(x)), sizes) for x in leaf.shape]
        return leaf.update(shape=tuple(shape))

    return jax.tree.map(static, arguments)


def _from_text(text: str, scope: jax.export.SymbolicScope) -> jax.ShapeDtypeStruct:
    match = _SPEC.fullmatch(text)
    assert match is not None
    dims = match["inner"] if match["dtype"] else match["dims"]
    dtype = jnp.dtype(match["dtype"] or "float32")
    shape = jax.export.symbolic_shape(dims, scope=scope)
    for dim in shape:
        if isinstance(dim, int) and not 0 <= dim <= _MAX_EXTENT:
            raise ValueError(f"{dim} in {text!r} is not an extent; a free dimension needs a name")
    if _NO_NAMES & set(_WORDS.findall(dims)):
        raise ValueError(f"a dimension in {text!r} has an invalid name; give it another")
    return jax.ShapeDtypeStruct(shape, dtype)


def _by_argument(
    names: Sequence[str],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic,
) -> dict[str | int, PyTree]:
    """The dimensions by position and, for keywords, by name."""
    if isinstance(dynamic, str):
        return dict.fromkeys([*range(len(args)), *kwargs], dynamic)
    places = {name: index for index, name in enumerate(names[: len(args)])}
    specs: dict[str | int, PyTree] = {}
    for key, spec in dynamic.items():
        place = places.get(str(key), key)
        if place not in kwargs and not (isinstance(place, int) and 0 <= place < len(args)):
            known = argument_names(names, args, kwargs)
            form = f', as in dynamic={{{known[0]!r}: "b, ..."}}' if known else ""
            raise UsageError(
                f"dynamic= names {key!r}, which is not among the arguments: {listed(known)}{form}"
            )
        specs[place] = spec
    return specs


def with_spec(argument: PyTree, spec: PyTree, scope: jax.export.SymbolicScope, name: str) -> PyTree:
    """An argument as `jax.ShapeDtypeStruct`s with free dimensions.

    Args:
        argument: An array or a pytree of arrays.
        spec: A text for all arrays in it, None to keep them, or a container with a text, None or
            a container for each part.
        name: Name of the argument, for errors.

    Raises:
        UsageError: The text is not a shape or does not fit, or the containers differ.
    """
    if spec is None:
        return argument
    if isinstance(spec, str):
        return _with_text(argument, spec, scope, name)
    (parts, structure), (specs, _) = _parts(argument), _parts(spec)
    if structure == _LEAF:
        shape = jnp.shape(argument)
        raise UsageError(
            f"dynamic= has {spec!r} for {name}, an array of shape {shape}: write a text such as"
            ' "b, ..."'
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

"""Binds arguments: they become named initializers of the model."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax
import numpy as np
import onnx_ir as oir
from jax.tree_util import KeyEntry, KeyPath

from hlo2onnx.errors import SignatureError, UsageError
from hlo2onnx.frontend.captured import Arrays, held_arrays, paths
from hlo2onnx.frontend.ports import argument_names, input_array, listed
from hlo2onnx.frontend.signature import (
    Bound,
    Leaf,
    Port,
    PyTree,
    Signature,
    Statics,
    Trees,
)
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.weight_storage import rounded_weights
from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.options import Bind

Place: TypeAlias = tuple[int, int | str]
"""The place of an argument in `(args, kwargs)`."""


def bound(
    source: Source, values: Mapping[str | int, PyTree], parameters: Sequence[str] = ()
) -> Source:
    """The program with these arguments fixed.

    Args:
        values: The arguments, pytrees of arrays, by the parameter's name or position. For a bare
            StableHLO program: arrays, by the input's name or index.
        parameters: Names of positional parameters, if known. The signature has no names of
            arguments without arrays, or without arrays that the program reads.

    Raises:
        UsageError: There is no such argument, or the value does not fit it.
    """
    signature = source.signature
    if signature.trees is None:
        chosen = _ports(signature, values)
        return replace(source, signature=_without(signature, chosen, None))
    return replace(source, signature=_with_trees(signature, signature.trees, values, parameters))


def named_without_argument(source: Source) -> Source:
    """The program with bound weights named by their paths within their argument."""
    taken = {port.name for port in source.signature.inputs}
    names = [item.port.name.partition("/")[2] for item in source.signature.bound]
    renamed = tuple(
        replace(item, port=replace(item.port, name=name)) if name and name not in taken else item
        for item, name in zip(source.signature.bound, names, strict=True)
    )
    return replace(source, signature=replace(source.signature, bound=renamed))


def stored_as(source: Source, dtype: oir.DataType) -> Source:
    """The program with its bound f32 weights rounded to a narrower type."""
    rounded = tuple(
        replace(item, array=item.array.astype(dtype.numpy()))
        if item.port.element == "f32" and item.array.size > SMALL_ELEMENTS
        else item
        for item in source.signature.bound
    )
    return replace(source, signature=replace(source.signature, bound=rounded))


def values_to_bind(
    bind: Bind, parameters: Sequence[str], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> dict[str | int, PyTree]:
    """The values to bind, by position or keyword.

    Args:
        bind: The option of the user. Names without values get the example arguments.
        parameters: Names of the function's positional parameters.
        args, kwargs: Its example arguments.

    Raises:
        UsageError: There is no such example argument.
    """
    if isinstance(bind, Mapping):
        return dict(bind)
    keys = [bind] if isinstance(bind, str | int) else bind
    if not isinstance(keys, Iterable):
        raise UsageError(f"bind={bind!r} names no argument: pass a name, names, or a mapping")
    positions = {name: index for index, name in enumerate(parameters[: len(args)])}
    values: dict[str | int, PyTree] = {}
    for key in keys:
        place = positions.get(str(key), key)
        if isinstance(place, int) and place < len(args):
            values[place] = args[place]
        elif place in kwargs:
            values[place] = kwargs[str(place)]
        else:
            raise UsageError(_without_value(key, argument_names(parameters, args, kwargs)))
    return values


def _without_value(key: object, known: Sequence[str | int]) -> str:
    """The error for a name in bind= that is none of the example arguments."""
    if known:
        return f"bind= names {key!r}: {listed(known)}, as in bind={known[0]!r}"
    return (
        f"bind={key!r} has no value: there are no example arguments. Give the value with the name,"
        f" as in bind={{{key!r}: params}}"
    )


def _ports(signature: Signature, values: Mapping[str | int, PyTree]) -> dict[int, np.ndarray]:
    """The bound inputs of a bare program, by index."""
    names = [port.name for port in signature.inputs]
    chosen = {}
    for key, value in values.items():
        index = names.index(key) if key in names else key
        if not isinstance(index, int) or not 0 <= index < len(names):
            raise UsageError(f"bind= names the input {key!r}; there are {', '.join(names)}")
        chosen[index] = _array(value, signature.inputs[index], None)
    return chosen


def _array(value: PyTree, port: Port, dtype: np.dtype | None) -> np.ndarray:
    try:
        return input_array(value, port, dtype)
    except SignatureError as error:
        raise UsageError(f"bind=: {error}") from error


def _with_trees(
    signature: Signature,
    trees: Trees,
    values: Mapping[str | int, PyTree],
    parameters: Sequence[str],
) -> Signature:
    arguments = _arguments(trees)
    places: dict[Place, str | int] = {}
    for key, item in values.items():
        position = parameters.index(str(key)) if key in parameters else key
        places[_place(signature, trees, arguments, (key, position), item)] = key
    chosen: dict[int, np.ndarray] = {}
    for place, key in places.items():
        leaves = jax.tree_util.tree_flatten_with_path(arguments[place])[0]
        given = _arrays(trees, place, values[key])
        if [tuple(path) for path, _ in given] != [tuple(path) for path, _ in leaves]:
            raise UsageError(f"the value for {key!r} in bind= has another pytree structure")
        for (_, index), (_, item) in zip(leaves, given, strict=True):
            leaf = trees.in_leaves[index]
            if leaf.port is not None:
                port = signature.inputs[leaf.port]
                chosen[leaf.port] = _array(item, port, leaf.aval.dtype)
    return _without(signature, chosen, _remaining(trees, places, chosen))


def _arguments(trees: Trees) -> dict[Place, PyTree]:
    """The arguments by place, with the indices of their leaves."""
    args, kwargs = jax.tree_util.tree_unflatten(trees.in_tree, range(len(trees.in_leaves)))
    positional: dict[Place, PyTree] = {(0, index): item for index, item in enumerate(args)}
    return positional | {(1, name): item for name, item in kwargs.items()}


def _arrays(trees: Trees, place: Place, value: PyTree) -> list[tuple[KeyPath, PyTree]]:
    """The leaves of an argument with their paths in it, without the objects of the program."""
    paths = jax.tree_util.tree_flatten_with_path(trees.statics.objects)[0]
    own = {tuple(path[2:]) for path, _ in paths if (path[0].idx, _key_of(path[1])) == place}
    leaves = jax.tree_util.tree_flatten_with_path(value)[0]
    return [(path, leaf) for path, leaf in leaves if tuple(path) not in own]


def _key_of(entry: KeyEntry) -> int | str:
    key: int | str = entry.idx if hasattr(entry, "idx") else entry.key
    return key


def _place(
    signature: Signature,
    trees: Trees,
    arguments: Mapping[Place, PyTree],
    keys: tuple[str | int, str | int],
    value: PyTree,
) -> Place:
    """The place of an argument.

    Args:
        arguments: All arguments.
        keys: The user's name of the argument, and the position of a parameter of that name, if
            known.
        value: The value to bind.
    """
    key, position = keys[0], _dynamic_position(trees, keys[1])
    names: dict[Place, str] = {}
    for place, item in arguments.items():
        ports = (trees.in_leaves[index].port for index in jax.tree.leaves(item))
        for port in ports:
            if port is not None:
                names[place] = signature.inputs[port].name.split("/")[0]
        if names.get(place) == key:
            return place
    for place in arguments:
        if place in ((1, key), (0, position)):
            return place
    empty = [place for place, item in arguments.items() if not jax.tree.leaves(item)]
    if not jax.tree.leaves(value) and len(empty) == 1:  # lowered programs name leaves only
        return empty[0]
    known = [names.get(place, place[1]) for place in arguments]
    raise UsageError(
        f"bind= names the argument {key!r}, which the program does not have: {listed(known)}"
    )


def _dynamic_position(trees: Trees, key: str | int) -> int | None:
    """The position of an argument among the dynamic ones."""
    if not isinstance(key, int) or key in trees.statics.positional:
        return None
    return key - sum(static < key for static in trees.statics.positional)


def _remaining(trees: Trees, places: Iterable[Place], chosen: Collection[int]) -> Trees:
    """The calling convention without the bound arguments."""
    args, kwargs = jax.tree_util.tree_unflatten(trees.in_tree, range(len(trees.in_leaves)))
    taken = set(places)
    left = _left((args, kwargs), taken)
    kept, tree = jax.tree_util.tree_flatten(left)
    leaves = []
    for index in kept:
        leaf = trees.in_leaves[index]
        port = None if leaf.port is None else leaf.port - sum(b < leaf.port for b in chosen)
        leaves.append(Leaf(leaf.aval, port))
    statics = trees.statics
    positions = [i for i in range(statics.count) if i not in statics.positional]
    gone = {place for index, place in enumerate(positions) if (0, index) in taken}
    moved = Statics(
        max(statics.count - len(gone), 0),
        {
            index - sum(other < index for other in gone): value
            for index, value in statics.positional.items()
        },
        statics.keywords,
        None if statics.objects is None else _left(statics.objects, taken),
    )
    return replace(trees, in_tree=tree, in_leaves=tuple(leaves), statics=moved)


def _left(arguments: PyTree, taken: Container[Place]) -> PyTree:
    args, kwargs = arguments
    return (
        tuple(item for index, item in enumerate(args) if (0, index) not in taken),
        {name: item for name, item in kwargs.items() if (1, name) not in taken},
    )


def _without(
    signature: Signature, chosen: Mapping[int, np.ndarray], trees: Trees | None
) -> Signature:
    kept = [port for index, port in enumerate(signature.inputs) if index not in chosen]
    added = [Bound(signature.inputs[index], array) for index, array in sorted(chosen.items())]
    return replace(signature, inputs=tuple(kept), trees=trees, bound=(*signature.bound, *added))


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


def as_stored(source: Source, graph: oir.Graph) -> Source:
    """The program with the numbers that the weights of its model stand for."""
    rounded = rounded_weights(graph, bound_arrays(source))
    bound = tuple(
        replace(item, array=rounded.get(item.port.name, item.array))
        for item in source.signature.bound
    )
    return replace(source, signature=replace(source.signature, bound=bound)) if rounded else source


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

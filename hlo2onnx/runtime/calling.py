"""The signature of a JAX function as the calling convention of a model."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import DictKey, GetAttrKey, KeyPath, PyTreeDef, SequenceKey, default_registry

from hlo2onnx.errors import SignatureError
from hlo2onnx.frontend.captured import combined
from hlo2onnx.frontend.jax_lowered import constraints_of
from hlo2onnx.frontend.ports import host_array, is_key, key_impl, narrows, tensor_of
from hlo2onnx.frontend.signature import Leaf, Port, PyTree, Signature, Statics, Trees, key_paths
from hlo2onnx.interface import tensors
from hlo2onnx.interface.caller import Caller, FlatTrees, PlainTrees, bound_hints, trees_of
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.pytrees import Json
from hlo2onnx.interface.tensors import FLOAT0, Tensor
from hlo2onnx.ir.dims import free_symbols


def describe(signature: Signature, in_place: Sequence[int] = ()) -> Description:
    """The signature as data.

    Args:
        in_place: Outputs that can overwrite their state.
    """
    inputs = [tensor_of(port) for port in signature.inputs]
    outputs = [tensor_of(port) for port in signature.outputs]
    shared = Description(
        tuple(inputs),
        tuple(outputs),
        names=tuple(free_symbols(dim for port in signature.inputs for dim in port.shape)),
        states={str(place): output for place, output in signature.aliases.items()},
        in_place=tuple(sorted(in_place)),
        bound=signature.bound_arguments,
        x64=not narrows(),
    )
    trees = signature.trees
    if trees is None:
        return shared
    statics = [*trees.statics.positional.items(), *trees.statics.keywords.items()]
    return dataclasses.replace(
        shared,
        inputs=_with_jax_types(inputs, trees.in_leaves),
        outputs=_with_jax_types(outputs, trees.out_leaves),
        arguments=arguments_structure(trees),
        results=results_structure(trees),
        constraints=constraints_of(leaf.aval for leaf in trees.in_leaves) if shared.names else (),
        statics={str(name): shown(value) for name, value in statics},
    )


def caller_of(signature: Signature) -> Caller:
    """The compiled signature, with JAX's pytrees and types."""
    description = describe(signature)
    if signature.trees is None:
        return _caller(description, FlatTrees(description))
    return _caller(description, JaxTrees(description, signature.trees))


def loaded_caller(description: Description, types: Iterable[type]) -> Caller:
    """The compiled signature of a saved model, with JAX's types.

    Args:
        types: Classes of pytree nodes.
    """
    return _caller(description, trees_of(description, types, LoadedTrees))


def _caller(description: Description, trees: FlatTrees) -> Caller:
    return Caller(description, trees, narrows, host_array)


def extents_of(signature: Signature, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The values of the symbols in the inputs' shapes.

    Raises:
        SignatureError: The extents contradict each other.
    """
    return caller_of(signature).extents(arrays)


def _with_jax_types(ports: Sequence[Tensor], leaves: Sequence[Leaf]) -> tuple[Tensor, ...]:
    """The tensors with JAX's types where these are others."""
    found = list(ports)
    for leaf in leaves:
        if leaf.port is not None:
            name = _type_name(leaf.aval.dtype)
            found[leaf.port] = dataclasses.replace(found[leaf.port], jax_type=name)
    return tuple(found)


def _type_name(dtype: np.dtype) -> str:
    if dtype == FLOAT0:
        return "float0"
    return f"key<{key_impl(dtype)}>" if is_key(dtype) else ""


class LoadedTrees(PlainTrees):
    """The pytrees of a saved program, with JAX's types."""

    def unflatten(self, leaves: Sequence[Any]) -> PyTree:
        """The results of the JAX function."""
        keys = {
            place: port.jax_type.removeprefix("key<").removesuffix(">")
            for place, port in enumerate(self._outputs)
            if port.jax_type.startswith("key<")
        }
        if keys:
            leaves = list(leaves)
            for place, impl in keys.items():
                leaves[place] = jax.random.wrap_key_data(leaves[place], impl=impl)
        return super().unflatten(leaves)


class JaxTrees(FlatTrees):
    """The pytrees of a JAX function.

    Args:
        description: The signature as data.
        trees: The pytrees.
    """

    def __init__(self, description: Description, trees: Trees) -> None:
        super().__init__(description)
        self._description = description
        self._trees = trees
        statics = trees.statics
        self._has_statics = bool(statics.positional or statics.keywords)
        self._objects = _objects(statics)
        self._in_tree = trees.in_tree if statics.objects is None else _whole_tree(trees)
        kept = [index for index, leaf in enumerate(trees.in_leaves) if leaf.port is not None]
        self._kept = None if len(kept) == len(trees.in_leaves) else kept
        self._wrapped = [
            (place, leaf.aval.dtype)
            for place, leaf in enumerate(trees.out_leaves)
            if _type_name(leaf.aval.dtype)
        ]

    def flatten(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Sequence[PyTree]:
        """One leaf per input. jit keeps the order of the leaves that it does not prune."""
        dynamic: PyTree = (args, kwargs)
        if self._has_statics:
            dynamic = _without_statics(self._trees.statics, args, kwargs)
        given, tree = jax.tree_util.tree_flatten(dynamic)
        if tree != self._in_tree:
            raise SignatureError(self._difference(tree, given, args, kwargs))
        if self._objects:
            given = _without_objects(self._objects, dynamic)
        return given if self._kept is None else [given[index] for index in self._kept]

    def unflatten(self, leaves: Sequence[Any]) -> PyTree:
        """The results of the JAX function."""
        if self._wrapped:
            leaves = list(leaves)
            for place, dtype in self._wrapped:
                leaves[place] = _wrap(dtype, leaves[place])
        return jax.tree_util.tree_unflatten(self._trees.out_tree, leaves)

    def _difference(
        self,
        tree: PyTreeDef,
        given: Sequence[PyTree],
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
    ) -> str:
        trees = self._trees
        wanted = {_argument(path) for path in key_paths(trees.in_tree, trees.in_leaves)}
        found = {_argument(path) for path in key_paths(tree, given)}
        found -= {_argument(path) for path in self._objects}
        lines = ["the arguments do not have the structure the function was lowered with"]
        if missing := sorted(wanted - found):
            lines.append(f"  missing     {', '.join(missing)}")
        if unexpected := sorted(found - wanted):
            lines.append(f"  unexpected  {', '.join(unexpected)}")
        if wanted == found:
            lines += [f"  expected  {trees.in_tree}", f"  got       {tree}"]
        lines += bound_hints(self._description, args, kwargs)
        lines.append("  static arguments are part of the program and are left out")
        return "\n".join(lines)


def _without_statics(
    statics: Statics, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """The arguments without the static ones, which are optional.

    Raises:
        SignatureError: A static argument differs from its value in the program.
    """
    positional: Mapping[int, object] = statics.positional if len(args) == statics.count else {}
    for index, value in positional.items():
        _check_static(f"argument {index}", args[index], value)
    for name in statics.keywords.keys() & kwargs.keys():
        _check_static(f"argument {name}", kwargs[name], statics.keywords[name])
    return (
        tuple(value for index, value in enumerate(args) if index not in positional),
        {name: value for name, value in kwargs.items() if name not in statics.keywords},
    )


def _check_static(what: str, given: object, value: object) -> None:
    try:
        differs = given is not value and bool(given != value)
    except ValueError:  # an array
        differs = True
    if differs:
        raise SignatureError(
            f"{what} is static: the program was made with {value!r} and cannot run with {given!r}"
        )


def _whole_tree(trees: Trees) -> PyTreeDef:
    """The structure of the arguments with their objects."""
    arrays = jax.tree_util.tree_unflatten(trees.in_tree, trees.in_leaves)
    return jax.tree_util.tree_structure(combined(arrays, trees.statics.objects))


def _without_objects(objects: Mapping[KeyPath, object], dynamic: PyTree) -> list[PyTree]:
    """The arrays among the arguments' leaves.

    Raises:
        SignatureError: Another leaf differs from its value in the program.
    """
    arrays = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(dynamic)[0]:
        if tuple(path) in objects:
            _check_static(f"argument {_argument(path)}", leaf, objects[tuple(path)])
        else:
            arrays.append(leaf)
    return arrays


def _objects(statics: Statics) -> dict[KeyPath, object]:
    """The leaves of the arguments that are not arrays, by path."""
    pairs = jax.tree_util.tree_flatten_with_path(statics.objects)[0]
    return {tuple(path): leaf for path, leaf in pairs}


def _argument(path: KeyPath) -> str:
    """The argument at a key path in Python: "args[0]['w']", "scale"."""
    kind, parameter, *rest = path
    suffix = jax.tree_util.keystr(tuple(rest))
    return f"args[{parameter.idx}]{suffix}" if kind.idx == 0 else f"{parameter.key}={suffix}"


def _wrap(dtype: np.dtype, array: Any) -> PyTree:
    """A result of a type that numpy does not have."""
    if dtype == FLOAT0:
        return np.zeros(array.shape, FLOAT0)
    return jax.random.wrap_key_data(array, impl=key_impl(dtype))


# -- the model's side -------------------------------------------------------------------------


def to_model(
    names: Sequence[str], arrays: Sequence[np.ndarray], ports: Sequence[Port] = ()
) -> dict[str, np.ndarray]:
    """The model's feeds.

    Complex arrays become float arrays with a trailing axis of 2, and floats that the model stores
    as bits become uint8. Images get the layout of their port.
    """
    moved = {name for name, port in zip(names, ports, strict=False) if port.channels_second}
    pairs = zip(names, arrays, strict=True)
    return {name: tensors.to_model(array, name in moved) for name, array in pairs}


def from_model(ports: Sequence[Port], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The model's outputs in the program's types and layouts: the reverse of `to_model`."""
    pairs = zip(ports, arrays, strict=True)
    return [tensors.from_model(array, tensor_of(port)) for port, array in pairs]


_SCALARS = (str, int, float, bool, type(None))


@dataclasses.dataclass(frozen=True)
class _Mark:
    """Stands for an array in a pytree."""

    leaf: Leaf


def arguments_structure(trees: Trees) -> Json:
    """The structure of `(args, kwargs)`: two lists of pairs of a name and a node."""
    marked = jax.tree_util.tree_unflatten(trees.in_tree, map(_Mark, trees.in_leaves))
    if trees.statics.objects is not None:
        marked = combined(marked, trees.statics.objects)
    args, kwargs = marked
    return [
        ["args", [_node(item) for item in args]],
        ["kwargs", [[name, _node(item)] for name, item in kwargs.items()]],
    ]


def results_structure(trees: Trees) -> Json:
    """The structure of the results."""
    return _node(jax.tree_util.tree_unflatten(trees.out_tree, map(_Mark, trees.out_leaves)))


def _node(tree: PyTree) -> Json:
    if isinstance(tree, _Mark):
        return "unused" if tree.leaf.port is None else tree.leaf.port
    if tree is None:
        return None
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [_node(item) for item in tree]}
    if type(tree) in (dict, collections.OrderedDict, collections.defaultdict):
        return {"dict": [[_key(key), _node(item)] for key, item in tree.items()]}
    of = f"{type(tree).__module__}.{type(tree).__qualname__}"
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        fields = [[name, _node(item)] for name, item in zip(tree._fields, tree, strict=True)]
        return {"class": of, "kind": "namedtuple", "fields": fields}
    flat = default_registry.flatten_one_level_with_keys(tree)
    if flat is None:
        return {"object": shown(tree)}
    pairs = list(flat[0])
    fields = [[_name(key, place), _node(item)] for place, (key, item) in enumerate(pairs)]
    found = {"class": of, "kind": _kind([key for key, _ in pairs]), "fields": fields}
    static = _static(tree, {str(name) for name, _ in fields})
    return found | ({"static": static} if static else {})


def _kind(keys: list[Any]) -> str:
    if keys and all(isinstance(key, DictKey) for key in keys):
        return "mapping"
    return "object" if keys and all(isinstance(key, GetAttrKey) for key in keys) else "sequence"


def _name(key: Any, place: int) -> Json:
    if isinstance(key, GetAttrKey):
        return key.name
    if isinstance(key, DictKey):
        return _key(key.key)
    return key.idx if isinstance(key, SequenceKey) else place


def _key(key: object) -> Json:
    """A key of a dict; a tuple as a list. Others are shown: such a dict has no equal in JSON."""
    if isinstance(key, tuple):
        return [_key(item) for item in key]
    return key if isinstance(key, _SCALARS) else shown(key)


def _static(tree: PyTree, fields: set[str]) -> Mapping[str, Json]:
    """The other fields of a dataclass, where JSON has their values."""
    if not dataclasses.is_dataclass(tree):
        return {}
    values = {
        item.name: getattr(tree, item.name, None)
        for item in dataclasses.fields(tree)
        if item.name not in fields
    }
    return {name: value for name, value in values.items() if isinstance(value, _SCALARS)}


def shown(value: object) -> str:
    """A short text without addresses in memory, which differ from run to run."""
    name = getattr(value, "__qualname__", None)
    text = str(name) if name else repr(value)
    return type(value).__name__ if " at 0x" in text else text[:80]

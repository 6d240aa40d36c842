"""Writes the pytrees of a JAX function as JSON: see `hlo2onnx.interface.pytrees`."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey, default_registry

from hlo2onnx.frontend.captured import combined
from hlo2onnx.frontend.signature import Leaf, PyTree, Trees
from hlo2onnx.interface.pytrees import Json

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

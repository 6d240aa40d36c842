"""Pytrees as JSON, flattened and rebuilt without JAX.

A node is one of
- a number: the leaf of this index
- null: None, which has no leaves
- "unused": a leaf that the program does not read; any value fits
- {"object": TEXT}: a leaf that is not an array and part of the program; any value fits
- {"list": [NODE, ...]}, {"tuple": [NODE, ...]}
- {"dict": [[KEY, NODE], ...]}
- {"class": "module.Name", "kind": KIND, "fields": [[KEY, NODE], ...], "static": {NAME: VALUE}}: a
  "namedtuple", a "dataclass", a custom "mapping" or "sequence", or an "object" with attributes
"""

from __future__ import annotations

import collections
import dataclasses
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from hlo2onnx.errors import LoadError, SignatureError

Json: TypeAlias = Any
PyTree: TypeAlias = Any
Flatten: TypeAlias = Callable[[Any, list[Any], str], None]
"""Appends the leaves of a pytree to a list. The text is the path of the pytree, for errors."""
Build: TypeAlias = Callable[[Sequence[Any]], Any]
"""A pytree of these leaves."""


class Restored:
    """A node of a class that is not known here. Its fields are attributes."""

    def __init__(self, of: str, fields: Mapping[str, PyTree]) -> None:
        self.__dict__.update(fields)
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Restored) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in vars(self).items() if name != "_of"]
        return f"{self._of}({', '.join(shown)})"


# -- flattening -------------------------------------------------------------------------------


def flattener(node: Json) -> Flatten:
    """A function that flattens pytrees of this structure.

    It raises a SignatureError if a pytree has another one.

    Raises:
        LoadError: The structure is damaged.
    """
    if isinstance(node, int):
        return lambda tree, leaves, _: leaves.append(tree)
    if node is None:
        return _nothing
    if node == "unused" or (isinstance(node, dict) and "object" in node):
        return lambda tree, leaves, path: None
    match node:
        case {"list": children} | {"tuple": children}:
            return _flatten_sequence(list if "list" in node else tuple, children)
        case {"dict": items}:
            return _flatten_mapping(items)
        case {"kind": "mapping", "fields": items}:
            return _flatten_mapping(items)
        case {"kind": "sequence", "fields": items}:
            return _flatten_sequence(None, [child for _, child in items])
        case {"kind": "namedtuple", "fields": items}:
            return _flatten_sequence(tuple, [child for _, child in items])
        case {"class": str(name), "fields": items}:
            return _flatten_object(name, items)
    raise _unknown(node)


def _nothing(tree: PyTree, leaves: list[Any], path: str) -> None:
    if tree is not None:
        raise SignatureError(f"{path} must be None, not {_kind(tree)}")


def _flatten_sequence(kind: type | None, children: Sequence[Json]) -> Flatten:
    count, parts = len(children), [flattener(child) for child in children]
    all_leaves = all(isinstance(child, int) for child in children)
    name = "sequence" if kind is None else kind.__name__

    def flatten(tree: PyTree, leaves: list[Any], path: str) -> None:
        fits = isinstance(tree, kind) if kind else hasattr(tree, "__getitem__")
        if not fits or len(tree) != count:
            raise SignatureError(f"{path} must be a {name} of {count}, not {_kind(tree)}")
        if all_leaves:
            leaves.extend(tree)
            return
        for index, part in enumerate(parts):
            part(tree[index], leaves, f"{path}[{index}]")

    return flatten


def _flatten_mapping(items: Sequence[tuple[Json, Json]]) -> Flatten:
    keys = [_key(key) for key, _ in items]
    parts = [(key, flattener(child)) for key, (_, child) in zip(keys, items, strict=True)]
    all_leaves = all(isinstance(child, int) for _, child in items)
    wanted = set(keys)

    def flatten(tree: PyTree, leaves: list[Any], path: str) -> None:
        if not isinstance(tree, Mapping) or tree.keys() != wanted:
            raise SignatureError(f"{path} must be a dict of {_listed(keys)}: {_lacks(tree, keys)}")
        if all_leaves:
            leaves.extend([tree[key] for key in keys])
            return
        for key, part in parts:
            part(tree[key], leaves, f"{path}[{key!r}]")

    return flatten


def _flatten_object(of: str, items: Sequence[tuple[Json, Json]]) -> Flatten:
    parts = [(_key(key), flattener(child)) for key, child in items]
    names = [key for key, _ in parts]

    def flatten(tree: PyTree, leaves: list[Any], path: str) -> None:
        if isinstance(tree, Mapping):
            if not tree.keys() >= set(names):
                raise SignatureError(f"{path} must be a {of}: {_lacks(tree, names)}")
            found = [tree[name] for name in names]
        else:
            missing = [name for name in names if not hasattr(tree, str(name))]
            if missing:
                raise SignatureError(
                    f"{path} must be a {of}, with {_listed(names)}; {_kind(tree)} has no"
                    f" {_listed(missing)}"
                )
            found = [getattr(tree, str(name)) for name in names]
        for (name, part), child in zip(parts, found, strict=True):
            part(child, leaves, f"{path}.{name}")

    return flatten


def _lacks(tree: PyTree, keys: Sequence[Any]) -> str:
    if not isinstance(tree, Mapping):
        return f"it is {_kind(tree)}"
    missing = [key for key in keys if key not in tree]
    unexpected = [key for key in tree if key not in keys]
    parts = [f"missing {_listed(missing)}"] if missing else []
    parts += [f"unexpected {_listed(unexpected)}"] if unexpected else []
    return ", ".join(parts)


def _listed(keys: Sequence[Any]) -> str:
    return ", ".join(map(str, keys)) or "nothing"


def _kind(tree: PyTree) -> str:
    if isinstance(tree, list | tuple):
        return f"a {type(tree).__name__} of {len(tree)}"
    return "None" if tree is None else f"a {type(tree).__name__}"


# -- building ---------------------------------------------------------------------------------


def builder(node: Json, types: Mapping[str, type]) -> Build:
    """A function that builds pytrees of this structure.

    Args:
        types: Classes of nodes by "module.Name". Others come back as plain tuples with names,
            dicts, lists and `Restored`.

    Raises:
        LoadError: The structure is damaged.
    """
    if isinstance(node, int):
        return lambda leaves: leaves[node]
    if node is None or node == "unused" or (isinstance(node, dict) and "object" in node):
        return lambda leaves: None
    match node:
        case {"list": children} | {"tuple": children}:
            return _build_sequence(list if "list" in node else tuple, children, types)
        case {"dict": items}:
            return _build_mapping(items, types)
        case {"class": str(name), "kind": str(kind), "fields": items}:
            return _build_node(name, kind, items, node.get("static", {}), types)
    raise _unknown(node)


def _build_sequence(
    kind: Callable[[Any], Any], children: Sequence[Json], types: Mapping[str, type]
) -> Build:
    first = children[0] if children and isinstance(children[0], int) else 0
    if list(children) == list(range(first, first + len(children))):  # leaves in their order
        end = first + len(children)
        return lambda leaves: kind(leaves[first:end])
    parts = [builder(child, types) for child in children]
    return lambda leaves: kind([part(leaves) for part in parts])


def _build_mapping(items: Sequence[tuple[Json, Json]], types: Mapping[str, type]) -> Build:
    parts = [(_key(key), builder(child, types)) for key, child in items]
    return lambda leaves: {key: part(leaves) for key, part in parts}


def _build_node(
    of: str,
    kind: str,
    items: Sequence[tuple[Json, Json]],
    static: Mapping[str, Json],
    types: Mapping[str, type],
) -> Build:
    fields = _build_mapping(items, types)
    known: Any = types.get(of)
    if kind == "namedtuple":
        names = [str(key) for key, _ in items]
        made: Any = known or _named_tuple(of, names)
        return lambda leaves: made(*fields(leaves).values())
    if kind == "sequence":
        return lambda leaves: (known or list)(list(fields(leaves).values()))
    if kind == "mapping":
        return fields if known is None else lambda leaves: known(fields(leaves))
    if known is None:
        return lambda leaves: Restored(of, {**fields(leaves), **static})
    return lambda leaves: _instance(known, {**fields(leaves), **static})


def _named_tuple(of: str, names: Sequence[str]) -> Callable[..., Any]:
    name = of.rpartition(".")[2]
    if not name.isidentifier() or keyword.iskeyword(name):
        name = "NamedTuple"
    return collections.namedtuple(name, names, rename=True)  # type: ignore[misc]


def _instance(of: type, fields: Mapping[str, PyTree]) -> Any:
    """An instance with these attributes. Dataclasses with the usual `__init__` make it."""
    parameters = getattr(of, "__dataclass_params__", None)
    if dataclasses.is_dataclass(of) and parameters is not None and parameters.init:
        initial = {item.name for item in dataclasses.fields(of) if item.init}
        if "__init__" in vars(of) and initial >= fields.keys():
            return of(**fields)
    instance: Any = object.__new__(of)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def _key(key: Json) -> Any:
    """A key of a dict; a list stands for a tuple."""
    return tuple(map(_key, key)) if isinstance(key, list) else key


def _unknown(node: Json) -> LoadError:
    return LoadError(f"the signature of the model has a node {str(node)[:80]}, not a pytree")

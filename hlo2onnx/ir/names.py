"""Unique names of nodes and values, and names of layers after their weights."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Set

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, all_values


class Names:
    """Hands out names; a name asked for again gets the suffix _1, _2, ..."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    @classmethod
    def of(cls, graph: oir.Graph) -> Names:
        """The names of the nodes and values of a graph and its bodies."""
        names = cls()
        found = [str(value.name) for value in all_values(graph)]
        names.take([*found, *(str(node.name) for node in all_nodes(graph))])
        return names

    def take(self, names: Iterable[str]) -> None:
        """Learns of names that a model has."""
        self._next = {**dict.fromkeys(names, 1), **self._next}

    def unique_node(self, base: str, outputs: int) -> str:
        """A name for a node and its first output; the others are `name:1`, `name:2`, ...

        A value keeps its name when another node replaces its producer, so one of those may be taken
        although `name` is free.
        """
        while True:
            name = self.unique(base)
            if outputs == 1:
                return name
            others = [f"{name}:{index}" for index in range(1, outputs)]
            if self._next.keys().isdisjoint(others):
                self._next.update(dict.fromkeys(others, 1))
                return name

    def unique(self, base: str) -> str:
        """`base` itself the first time, later `base_1`, `base_2`, ..."""
        count = self._next.get(base)
        if count is None:
            self._next[base] = 1
            return base
        name = f"{base}_{count}"
        while name in self._next:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count + 1
        self._next[name] = 1
        return name


MODULES = "jax.modules"
"""Metadata of a node: the classes of its modules, with which its name begins."""

_OF_NO_LAYER = re.compile(r"(.*/)?(constant(_\d+)?|\d+)")
"""Names of constants that are not weights, and of leaves that are only numbered."""


def name_layers(graph: oir.Graph) -> None:
    """Renames nodes that read weights of one layer, and their outputs."""
    nodes = list(all_nodes(graph))
    if not any(MODULES in node.metadata_props for node in nodes):
        return
    names = Names.of(graph)
    weights = {*graph.inputs, *graph.initializers.values()}
    for node in nodes:
        modules = node.metadata_props.get(MODULES)
        if not modules or not str(node.name).startswith(f"{modules}/"):
            continue
        rest = str(node.name).removeprefix(f"{modules}/")
        if layer := _layer(node, weights):
            outermost = modules.split("/", 1)[0]
            _rename(node, names.unique_node(f"{outermost}/{layer}/{rest}", len(node.outputs)))


def _layer(node: oir.Node, weights: Set[oir.Value]) -> str:
    """The path of the layer whose weights a node reads; "" if there is none.

    For weights of several layers it is the common prefix of their paths.
    """
    names = [str(value.name) for value in node.inputs if value is not None and value in weights]
    # The leaf of a variable of flax.nnx is its `value`.
    leaves = [name.removesuffix("/value") for name in names]
    layers = [leaf.rpartition("/")[0] for leaf in leaves if not _OF_NO_LAYER.fullmatch(leaf)]
    layers = [layer for layer in layers if layer]
    return posixpath.commonpath(layers) if layers else ""


def _rename(node: oir.Node, name: str) -> None:
    old, node.name = str(node.name), name
    for value in node.outputs:
        suffix = str(value.name).removeprefix(old)
        if not value.is_graph_output() and re.fullmatch(r"(:\d+)?", suffix):
            value.name = name + suffix

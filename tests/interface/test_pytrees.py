"""Pytrees are flattened and rebuilt as JAX does it."""

from __future__ import annotations

import collections
import dataclasses
import json
import random
from typing import Any

import jax
import pytest

from hlo2onnx.errors import LoadError, SignatureError
from hlo2onnx.frontend.mlir.types import STORED_FLOATS
from hlo2onnx.frontend.signature import Leaf, Trees
from hlo2onnx.interface.caller import known_types
from hlo2onnx.interface.pytrees import builder, flattener
from hlo2onnx.interface.tensors import STORED_AS_BITS
from hlo2onnx.runtime.calling import results_structure

Pair = collections.namedtuple("Pair", ["left", "right"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Data:
    one: Any
    two: Any
    name: str = dataclasses.field(metadata={"static": True}, default="d")


@jax.tree_util.register_pytree_with_keys_class
class Bag:
    """A custom node without names of its children."""

    def __init__(self, items: Any) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def tree_flatten_with_keys(self) -> Any:
        pairs = [(jax.tree_util.SequenceKey(i), item) for i, item in enumerate(self.items)]
        return pairs, None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Bag:
        return cls(children)


TYPES = known_types([Pair, Data, Bag])


def random_tree(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.2:
        return None if rng.random() < 0.2 else rng.random()
    children = [random_tree(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    two = [random_tree(rng, depth - 1) for _ in range(2)]
    kind = rng.randint(0, 6)
    if kind == 0:
        return children
    if kind == 1:
        return tuple(children)
    if kind == 2:
        return {rng.choice("zyxw") + str(i): child for i, child in enumerate(children)}
    if kind == 3:
        return {9 - i: child for i, child in enumerate(children)}
    if kind == 4:
        return Pair(*two)
    return Data(*two) if kind == 5 else Bag(children)


def node_of(tree: Any) -> Any:
    """The structure of a tree, by way of JSON."""
    leaves, structure = jax.tree.flatten(tree)
    described = [Leaf(jax.ShapeDtypeStruct((), float), index) for index in range(len(leaves))]
    trees = Trees(structure, (), structure, tuple(described))
    return json.loads(json.dumps(results_structure(trees)))


@pytest.mark.parametrize("seed", range(5))
def test_random_pytrees(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        tree, other = random_tree(rng, 4), random_tree(rng, 2)
        node, leaves = node_of(tree), jax.tree.leaves(tree)
        found: list[Any] = []
        flattener(node)(tree, found, "tree")
        assert found == leaves
        again = builder(node, TYPES)(leaves)
        assert jax.tree.structure(again) == jax.tree.structure(tree)
        assert jax.tree.leaves(again) == leaves
        if jax.tree.structure(other) != jax.tree.structure(tree) and not _is_one_leaf(tree):
            try:
                flattener(node)(other, [], "tree")
            except SignatureError as error:
                assert str(error).startswith("tree")
            else:
                assert "Bag" in str(node) or "Data" in str(node) or "Pair" in str(node)


def _is_one_leaf(tree: Any) -> bool:
    """Whether anything is a leaf of this structure."""
    return not isinstance(tree, list | tuple | dict | Data | Bag | None)


@pytest.mark.parametrize(
    "node", [1.5, "leaf", {}, {"set": [0]}, [0], {"class": 3, "kind": "object"}]
)
def test_nodes_of_a_damaged_file(node: Any) -> None:
    for read in (flattener, lambda item: builder(item, {})):
        with pytest.raises(LoadError, match="not a pytree"):
            read(node)


def test_one_table_of_bits() -> None:
    assert {dtype.name for dtype in STORED_FLOATS.values()} == STORED_AS_BITS

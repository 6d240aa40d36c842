"""A graph network in plain JAX: messages along edges, summed and maximised at their receivers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, Any]


class Graph(NamedTuple):
    """Several graphs as one: the nodes and edges of all graphs in sequence."""

    nodes: jax.Array
    edges: jax.Array
    senders: jax.Array
    receivers: jax.Array
    graph_of_node: jax.Array


def mlp(params: Params, x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(x @ params["hidden"] + params["hidden_bias"])
    return hidden @ params["out"] + params["out_bias"]


def message_passing(params: Params, graph: Graph) -> Graph:
    """Update every edge from its two nodes, then every node from the edges that end in it."""
    count = graph.nodes.shape[0]
    ends = [graph.nodes[graph.senders], graph.nodes[graph.receivers]]
    edges = graph.edges + mlp(params["edge"], jnp.concatenate([graph.edges, *ends], axis=-1))
    total = jax.ops.segment_sum(edges, graph.receivers, count)
    largest = jax.ops.segment_max(edges, graph.receivers, count)
    # The maximum over no edges is -inf.
    largest = jnp.where(jnp.isneginf(largest), 0.0, largest)
    gathered = jnp.concatenate([graph.nodes, total, largest], axis=-1)
    return graph._replace(nodes=graph.nodes + mlp(params["node"], gathered), edges=edges)


def predict(params: Params, graph: Graph, *, graphs: int) -> jax.Array:
    """Return one number for each graph, computed from the mean of its nodes."""
    for layer in params["layers"]:
        graph = message_passing(layer, graph)
    total = jax.ops.segment_sum(graph.nodes, graph.graph_of_node, graphs)
    size = jnp.bincount(graph.graph_of_node, length=graphs)
    return total / jnp.maximum(size, 1)[:, None] @ params["readout"]


def create_params(rng: np.random.Generator, layers: int, width: int, dtype: Any) -> Params:
    def normal(std: float, *shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, std, shape), dtype)

    def mlp_params() -> Params:
        return {
            "hidden": normal(1.0 / math.sqrt(3 * width), 3 * width, 2 * width),
            "hidden_bias": normal(0.1, 2 * width),
            "out": normal(0.5 / math.sqrt(2 * width), 2 * width, width),
            "out_bias": normal(0.1, width),
        }

    return {
        "layers": [{"edge": mlp_params(), "node": mlp_params()} for _ in range(layers)],
        "readout": normal(1.0 / math.sqrt(width), width, 1),
    }


def create_graph(
    rng: np.random.Generator, graphs: int, nodes: int, edges: int, width: int, dtype: Any
) -> Graph:
    """Draw graphs of so many nodes and edges each; some nodes receive no edge."""
    first = nodes * np.repeat(np.arange(graphs), edges)
    return Graph(
        nodes=jnp.asarray(rng.normal(size=(graphs * nodes, width)), dtype),
        edges=jnp.asarray(rng.normal(size=(graphs * edges, width)), dtype),
        senders=jnp.asarray(first + rng.integers(0, nodes, graphs * edges), jnp.int32),
        receivers=jnp.asarray(first + rng.integers(0, nodes, graphs * edges), jnp.int32),
        graph_of_node=jnp.asarray(np.repeat(np.arange(graphs), nodes), jnp.int32),
    )


def build(
    layers: int = 3,
    width: int = 64,
    graphs: int = 16,
    nodes: int = 24,
    edges: int = 60,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[Params, Graph], jax.Array], tuple[Params, Graph]]:
    """Return the network, its parameters and a batch of graphs (small molecules, by their size)."""
    rng = np.random.default_rng(0)
    params = create_params(rng, layers, width, dtype)
    graph = create_graph(rng, graphs, nodes, edges, width, dtype)
    return partial(predict, graphs=graphs), (params, graph)


EXAMPLE = Example(
    name="graph_network",
    summary="Graph network with segment_sum and segment_max, graphs of different edges in a batch",
    build=build,
    tolerance=1e-6,
    small={"layers": 2, "width": 8, "graphs": 3, "nodes": 5, "edges": 9},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

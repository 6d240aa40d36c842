"""Loops as lowering makes them from JAX functions, without the rules about loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from against_xla import Run, against_xla
from jax import lax
from rule_names import LOOP_RULE_NAMES

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)


def against_jax(function: Callable[..., Any], *arguments: Any) -> Run:
    """The function as JAX lowers it, in loops as lowering makes them."""
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    return against_xla(text, *jax.tree.leaves(arguments), without=LOOP_RULE_NAMES)


def loops(run: Run) -> list[oir.Node]:
    """The Loops of the model, outer before inner."""
    return [node for node in run.program.model.graph.all_nodes() if node.op_type == "Loop"]


def states(loop: oir.Node) -> list[tuple[int, ...]]:
    """The shapes of a Loop's carried values."""
    return [tuple(map(int, value.shape or ())) for value in loop.inputs[2:] if value is not None]


def body(loop: oir.Node) -> oir.Graph:
    """The operators of a Loop's trip."""
    return loop.attributes["body"].as_graph()


def stacked(loop: oir.Node) -> list[tuple[int, ...]]:
    """The shapes of a Loop's stacked outputs."""
    return [tuple(map(int, value.shape or ())) for value in loop.outputs[len(loop.inputs) - 2 :]]


def rnn(x: Any, w: Any, reverse: bool = False) -> Any:
    """A scan with a state and two stacks."""

    def body(c: Any, row: Any) -> Any:
        c = jnp.tanh(c @ w + row)
        return c, (c * 2, c.sum())

    return lax.scan(body, jnp.zeros(3), x, reverse=reverse)

"""What JAX's ways to index become: no more nodes than they need, and the numbers of XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_xla
from jax import lax

X = np.arange(36, dtype=np.float32).reshape(9, 4)
TYPES = {"i32": np.int32, "i64": np.int64, "ui32": np.uint32}
INSIDE, OUTSIDE = [0, 8, 3, 3, 5], [-1, 9, -9, -10, 100]


def run(function: Callable[..., Any], *arguments: Any) -> Run:
    """The function as JAX lowers it, without 64-bit types narrowed."""
    with jax.enable_x64(True):
        text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
    return against_xla(text, *arguments).bit_exact()


def numbers(items: list[int], index: str) -> np.ndarray:
    return np.array(items).astype(TYPES[index])


TAKE_CLIP = {
    "i32": ["Clip", "Gather"],
    # The runtime orders i64 wrongly beyond 32 bits.
    "i64": ["Less", "Where", "Less", "Where", "Gather"],
    "ui32": ["Min", "Cast", "Gather"],
}


@pytest.mark.parametrize("index", TYPES)
def test_take_clip(index: str) -> None:
    for items in (INSIDE, OUTSIDE):
        i = numbers(items, index)
        result = run(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), X, i)
        result.graph_is(*TAKE_CLIP[index])


ANYWHERE: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "take": (
        lambda x, i: jnp.take(x, i, axis=0),
        ["Clip", "Equal", "Reshape", "Gather", "Where"],
    ),
    "take_wrap": (lambda x, i: jnp.take(x, i, axis=0, mode="wrap"), ["Mod", "Gather"]),
    "rows": (lambda x, i: x[i], ["Clip", "Gather"]),
    "columns": (lambda x, i: x[:, i], ["Clip", "Gather"]),
    "one_row": (lambda x, i: x[i[0]], ["Slice", "Reshape", "Clip", "Gather"]),
    "fill": (
        lambda x, i: x.at[i].get(mode="fill", fill_value=7),
        ["Clip", "Equal", "Reshape", "Gather", "Where"],
    ),
    "along": (
        lambda x, i: jnp.take_along_axis(x[:5], i[:, None], axis=1),
        ["Slice", "Reshape", "Clip", "Equal", "GatherElements", "Where"],
    ),
    "along_clip": (
        lambda x, i: jnp.take_along_axis(x[:5], i[:, None], axis=1, mode="clip"),
        ["Slice", "Reshape", "Clip", "GatherElements"],
    ),
    "pairs": (
        lambda x, i: x[i, i[::-1]],
        [
            *["Slice", "Reshape", "Reshape", "Concat", "Less", "Add", "Where", "Max", "Min"],
            *["Cast", "GatherND"],
        ],
    ),
    "labels": (
        lambda x, i: x[jnp.arange(5), i],
        ["Less", "Add", "Where", "Reshape", "Concat", "Max", "Min", "Cast", "GatherND"],
    ),
    "one_hot": (lambda x, i: jax.nn.one_hot(i, 4), ["Reshape", "Equal", "Cast"]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", ANYWHERE)
def test_indices_that_may_be_anywhere(name: str) -> None:
    function, nodes = ANYWHERE[name]
    for items in (INSIDE, OUTSIDE):
        run(function, X, numbers(items, "i32")).graph_is(*nodes)


@pytest.mark.costly
@pytest.mark.parametrize("index", ["i64", "ui32"])
@pytest.mark.parametrize("name", ANYWHERE)
def test_indices_of_other_types(name: str, index: str) -> None:
    function, _ = ANYWHERE[name]
    for items in (INSIDE, OUTSIDE):
        run(function, X, numbers(items, index))


SCALARS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "row": (lambda x, i: x[i], ["Clip", "Gather"]),
    "column": (lambda x, i: x[:, i], ["Clip", "Gather"]),
    "element": (lambda x, i: x[i, i], ["Clip", "Gather", "Clip", "Gather"]),
    "dynamic_index": (lambda x, i: lax.dynamic_index_in_dim(x, i), ["Clip", "Gather", "Reshape"]),
}


@pytest.mark.parametrize("name", SCALARS)
def test_one_index(name: str) -> None:
    function, nodes = SCALARS[name]
    for item in (0, 3, 8, 9, -1, -9, -10, 2**31 - 1, -(2**31)):
        run(function, X, np.int32(item)).graph_is(*nodes)


def test_an_element_of_something_large_is_sliced_off() -> None:
    """Picking a row first would copy it."""
    x = np.zeros((8, 8, 4096), np.float32)
    result = run(lambda x, i: x[i, i], x, np.int32(3))
    assert not result.nodes["Gather"] and result.nodes["Slice"] == 1


KNOWN: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "row": (lambda x: x[3], ["Slice", "Reshape"]),
    "last_row": (lambda x: x[-1], ["Slice", "Reshape"]),
    "rows": (lambda x: x[np.array([2, 0, -1])], ["Gather"]),
    "elements": (lambda x: x[-1, np.array([0, 2])], ["GatherND"]),
    "reversed": (lambda x: x[::-1], ["Slice"]),
    "strided": (lambda x: x[1::2], ["Slice"]),
    "set_row": (lambda x: x.at[3].set(1.0), ["ScatterND"]),
    "set_last_row": (lambda x: x.at[-1].set(1.0), ["ScatterND"]),
    "set_rows": (lambda x: x.at[np.array([1, -1])].set(1.0), ["ScatterND"]),
    "set_strided": (lambda x: x.at[::2].set(1.0), ["ScatterND"]),
    "set_slice": (lambda x: x.at[2:5].set(x[:3]), ["Slice", "Slice", "Slice", "Concat"]),
    "add_row": (lambda x: x.at[3].add(1.0), ["Slice", "Add", "ScatterND"]),
    "add_rows": (lambda x: x.at[np.array([1, -1])].add(1.0), ["ScatterND"]),
    "diagonal": (jnp.diagonal, ["GatherND"]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", KNOWN)
def test_known_indices_need_no_guards(name: str) -> None:
    function, nodes = KNOWN[name]
    run(function, X).graph_is(*nodes)


def test_indices_that_are_inside_by_what_made_them() -> None:
    cases: list[tuple[Callable[..., Any], int]] = [
        (lambda x: x[jnp.argmax(x[:, 0])], 1),
        (lambda x: x[jnp.argsort(x[:, 0])], 1),
        (lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=0), axis=0), 1),
        # A Scan takes its rows by itself.
        (lambda x: lax.fori_loop(0, 9, lambda i, c: c * 2 + x[i], jnp.zeros(4, x.dtype)), 0),
        (lambda x: lax.fori_loop(0, 9, lambda i, c: c.at[8 - i].set(x[i]), x), 0),
    ]
    for function, gathers in cases:
        result = run(function, np.random.default_rng(0).permutation(X))
        assert result.nodes["Gather"] + result.nodes["GatherElements"] == gathers
        result.has_no("Clip", "Less", "GreaterOrEqual", "And")
        assert result.nodes["Max"] <= result.nodes["ReduceMax"], "no Max but that of NaN"


def test_carried_weights_are_no_state() -> None:
    def body(c: Any, row: Any) -> Any:
        h, weights = c
        return (jnp.maximum(h @ weights["w"] + row + weights["b"], 0), weights), h

    w = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, np.float32)}

    def f(x: Any, w: Any) -> Any:
        (h, _), ys = lax.scan(body, (jnp.zeros(4, x.dtype), w), x)
        return h, ys

    rows = np.tile(X, (30, 1))  # too many trips to unroll
    text = jax.jit(f).lower(rows, w).as_text()
    result = against_xla(text, rows, w["b"], w["w"]).bit_exact()
    (scan,) = [n for n in result.program.model.graph.all_nodes() if n.op_type == "Scan"]
    assert [shape(value) for value in scan.inputs] == [(4,), (270, 4)]
    assert [shape(value) for value in scan.outputs] == [(4,), (270, 4)]


def shape(value: oir.Value | None) -> tuple[int, ...]:
    assert value is not None and value.shape is not None
    return tuple(map(int, value.shape))

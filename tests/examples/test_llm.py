"""Whole `generate` loops of examples/llm: JAX's tokens, in one Loop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import generate
import jax
import jax.numpy as jnp
import llama
import llama_nnx
import numpy as np
import onnx_ir as oir
import onnxruntime
import pytest
from flax import nnx
from lowered_loops import body
from small_llama import PARAMS, SIZES, padded

import hlo2onnx
from hlo2onnx.ir.values import shape_of

LENGTH = 24
BATCHES = {
    "one length": [[10, 11, 12, 13, 14], [20, 21, 22, 23, 24]],
    "two lengths": [[5, 6, 7], [10, 11, 12, 13, 14]],
}
FORMS = [pytest.param("one length", marks=pytest.mark.wide), "two lengths"]
FREE = {"constraints": [f"s <= {LENGTH - 1}"]}
KEYS = [np.asarray(jax.random.PRNGKey(seed)) for seed in range(4)]
SCALES = np.where(np.arange(SIZES.vocab) == generate.STOP, np.float32(1.8), np.float32(1))
WEIGHTS = {**PARAMS, "lm_head": PARAMS["lm_head"] * SCALES}
"""Weights with which some rows end early."""
GRAPH, STATE = nnx.split(llama_nnx.from_params(SIZES, WEIGHTS))


def plain(params: Any) -> Callable[..., Any]:
    return partial(llama.transformer, SIZES, params)


def whole(name: str, model: Callable[[Any], Callable[..., Any]] = plain) -> Callable[..., Any]:
    """A loop as a function of weights, prompts, their mask, and a key."""

    def function(weights: Any, *inputs: Any) -> Any:
        return getattr(generate, name)(SIZES, model(weights), *inputs, length=LENGTH)

    return function


@cache
def in_jax(name: str) -> Callable[..., Any]:
    return jax.jit(whole(name))


@cache
def translated(name: str, free: bool = False) -> hlo2onnx.OnnxProgram:
    ids = "int32[b, s]" if free else "int32[2, 5]"
    more = ["uint32[2]"] if name == "sample" else []
    options: Any = {"opset": 24} | (FREE if free else {})
    return hlo2onnx.translate(whole(name), WEIGHTS, ids, ids, *more, bind=0, **options)


def loop_of(program: hlo2onnx.OnnxProgram) -> oir.Node:
    """The only Loop of a model."""
    (loop,) = (node for node in program.model.graph.all_nodes() if node.op_type == "Loop")
    return loop


def operators(program: hlo2onnx.OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph.all_nodes())


def same_tokens(program: hlo2onnx.OnnxProgram, name: str, *inputs: Any) -> np.ndarray:
    """Checks tokens in ONNX Runtime by those of JAX, and returns them."""
    expected = jax.tree.leaves(in_jax(name)(WEIGHTS, *inputs))
    tokens, *scores = jax.tree.leaves(program(*inputs))
    np.testing.assert_array_equal(tokens, expected[0])
    for mine, theirs in zip(scores, expected[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5)
    return np.asarray(tokens)


def ends(tokens: np.ndarray) -> list[int]:
    """The number of tokens before the end of each row, after which all are STOP."""
    rows = tokens.reshape(-1, LENGTH)
    counts = np.cumprod(rows != generate.STOP, axis=1).sum(axis=1)
    assert ((rows == generate.STOP) == (np.arange(LENGTH) >= counts[:, None])).all()
    found: list[int] = counts.tolist()
    return found


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize(("batch", "counts"), [("one length", [9, 24]), ("two lengths", [5, 9])])
def test_greedy(batch: str, counts: list[int], free: bool) -> None:
    tokens = same_tokens(translated("greedy", free), "greedy", *padded(BATCHES[batch]))
    assert ends(tokens) == counts


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize("batch", FORMS)
def test_sampling(batch: str, free: bool) -> None:
    inputs = padded(BATCHES[batch])
    drawn = [same_tokens(translated("sample", free), "sample", *inputs, key) for key in KEYS]
    assert len({tokens.tobytes() for tokens in drawn}) == len(KEYS)
    assert len({count for tokens in drawn for count in ends(tokens)}) > 1


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize("batch", FORMS)
def test_beam_search(batch: str, free: bool) -> None:
    program = translated("beam_search", free)
    tokens = same_tokens(program, "beam_search", *padded(BATCHES[batch]))
    assert tokens.shape == (2, 3, LENGTH)
    assert min(ends(tokens)) < max(ends(tokens)) == LENGTH


@pytest.mark.wide
@pytest.mark.parametrize("name", ["greedy", "sample", "beam_search"])
def test_other_sizes(name: str) -> None:
    """One model with free sizes takes three prompts that are shorter."""
    prompts = np.array([[5, 6], [20, 21], [0, 30]], np.int32)
    mask = np.array([[1, 1], [1, 1], [0, 1]], np.int32)
    same_tokens(translated(name, free=True), name, prompts, mask, *KEYS[: name == "sample"])


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize("name", ["greedy", "sample", "beam_search"])
def test_caches_are_written_by_one_node(name: str, free: bool) -> None:
    """A ScatterND of the state itself, which nothing else reads; beams gather what it gives.

    ONNX Runtime copies the states of a Loop once in each trip.
    """
    loop = loop_of(translated(name, free))
    caches = [state for state in body(loop).inputs[2:] if len(shape_of(state)) == 4]
    assert len(caches) == 2 * SIZES.layers
    for state in caches:
        ((writer, place),) = state.uses()
        assert (writer.op_type, place) == ("ScatterND", 0)
        readers = {node.op_type for node in writer.outputs[0].consumers()}
        assert readers - {"Attention"} == ({"Gather"} if name == "beam_search" else set())


@pytest.mark.parametrize("name", ["greedy", "sample", "beam_search"])
def test_a_trip(name: str) -> None:
    """The operators of the plain step, and no inner loop: sampling sorts with TopK."""
    found = Counter(node.op_type for node in body(loop_of(translated(name))))
    assert (found["Attention"], found["RMSNormalization"], found["RotaryEmbedding"]) == (2, 5, 4)
    assert not found.keys() & {"Loop", "Scan", "If", "Transpose"}
    assert found["TopK"] == (name != "greedy")
    assert found["LogSoftmax"] == (name == "beam_search")
    assert found["Softmax"] == (name == "sample")


@pytest.mark.wide
def test_nucleus_of_all_tokens() -> None:
    """Sampling that sorts the whole vocabulary, as many write it, sorts once in each trip.

    A Scan draws its many random bits.
    """

    def nucleus(params: Any, prompts: Any, mask: Any, key: Any) -> Any:
        def choose(state: generate.State, logits: Any) -> generate.State:
            tokens = jnp.argsort(logits, axis=-1, descending=True)
            scores = jnp.take_along_axis(logits, tokens, axis=-1)
            chances = jax.nn.softmax(scores)
            scores = jnp.where(jnp.cumsum(chances, axis=-1) - chances < 0.8, scores, -jnp.inf)
            drawn = jax.random.categorical(jax.random.fold_in(key, state.place), scores)
            return generate.add(state, jnp.take_along_axis(tokens, drawn[:, None], axis=1)[:, 0])

        options = {"length": LENGTH}
        return generate.generate(SIZES, plain(params), prompts, mask, choose, **options).tokens

    inputs = (*padded(BATCHES["two lengths"]), KEYS[0])
    program = hlo2onnx.translate(nucleus, WEIGHTS, *inputs, bind=0)
    compiled = jax.jit(nucleus)
    for key in KEYS:
        expected = compiled(WEIGHTS, *inputs[:2], key)
        np.testing.assert_array_equal(program(*inputs[:2], key), expected)
    found = Counter(node.op_type for node in body(loop_of(program)))
    assert found["TopK"] == 1
    assert not found.keys() & {"Loop", "If"}


def test_no_attention_without_a_kernel() -> None:
    """Beams sort, which asks for opset 26; there ONNX Runtime would expand Attention."""
    ids = "int32[2, 5]"
    program = hlo2onnx.translate(whole("beam_search"), WEIGHTS, ids, ids, bind=0)
    assert program.model.opset_imports[""] == 26
    found = operators(program)
    assert (found["Attention"], found["Softmax"]) == (0, 4)
    same_tokens(program, "beam_search", *padded(BATCHES["two lengths"]))


def test_prefill_and_donated_steps() -> None:
    """The same tokens by two programs, of which one writes its donated cache in place."""
    ids, mask = padded(BATCHES["two lengths"])
    mask = np.pad(mask, ((0, 0), (0, LENGTH - ids.shape[1])), constant_values=1)
    cache = [(np.zeros((2, SIZES.kv_heads, LENGTH, SIZES.head_dim), np.float32),) * 2] * 2

    def step(cache: Any, params: Any, new: Any, place: Any, mask: Any) -> Any:
        logits, cache = generate.forward(plain(params), new, place, mask, cache)
        return cache, jnp.argmax(logits, axis=-1).astype(jnp.int32)[:, None]

    donating = jax.jit(step, donate_argnums=0)
    arguments = (WEIGHTS, ids, np.int32(0), mask)
    programs = hlo2onnx.translate(
        {
            "prefill": donating.lower(cache, *arguments),
            "decode": donating.lower(cache, WEIGHTS, ids[:, :1], *arguments[2:]),
        },
        bind={"params": WEIGHTS},
    )
    state, last = programs["prefill"].step(cache, *arguments[1:])
    found = [last]
    for place in range(ids.shape[1], LENGTH - 1):
        state, last = programs["decode"].step(state, last, np.int32(place), mask)
        found.append(last)
    expected = in_jax("greedy")(WEIGHTS, *padded(BATCHES["two lengths"]))
    for row, tokens, count in zip(np.hstack(found), expected, ends(expected), strict=True):
        np.testing.assert_array_equal(row[: count - 5], tokens[5:count])
    graph = programs["decode"].model.graph
    writers = [node for node in graph if node.op_type == "ScatterND"]
    assert [node.inputs[0] for node in writers] == list(graph.inputs[:4])


def test_the_same_in_nnx() -> None:
    """JAX's own attention and nnx's layers give the same tokens in as many nodes.

    `nnx.Embed` gives NaN for an id that is too large: two nodes more.
    """
    inputs = padded(BATCHES["two lengths"])
    module = whole("greedy", partial(nnx.merge, GRAPH))
    program = hlo2onnx.translate(module, STATE, *inputs, bind=0)
    twin = translated("greedy")
    np.testing.assert_array_equal(program(*inputs), twin(*inputs))
    found = operators(program)
    found.subtract(operators(twin))
    assert +found == Counter(Equal=2, Where=2) and not -found


@pytest.mark.wide
def test_the_example(tmp_path: Path) -> None:
    example = Path(generate.__file__)
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, example], cwd=tmp_path, env=os.environ | path, check=True)
    session = onnxruntime.InferenceSession(tmp_path / "greedy.onnx")
    assert [value.shape for value in session.get_outputs()] == [["b", 64]]
    assert len(list(tmp_path.glob("*.onnx"))) == 3

"""Calls of JAX's Threefry give the same bits: written out for few numbers, one Scan for more."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from against_xla import against_xla
from jax.extend.random import threefry2x32_p
from rule_names import LOOP_RULE_NAMES

import hlo2onnx

SHAPES = [
    ((), ()),
    ((), (1,)),
    ((), (7,)),
    ((), (3, 5)),
    ((), (0,)),
    ((4, 3), (4, 3)),
    ((4, 1), (4, 3)),
    ((1, 3), (4, 3)),
]
"""Of the key's words and of the counter's."""

EDGES = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x1BD11BDA], np.uint32)


def words(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random words with the edges among them."""
    random = np.random.default_rng(seed).integers(1 << 32, size=shape, dtype=np.uint32)
    count = min(len(EDGES), random.size)
    random.reshape(-1)[:count] = np.roll(EDGES, seed)[:count]
    return random


def text_of(*arguments: np.ndarray) -> str:
    return str(jax.jit(lambda *words: threefry2x32_p.bind(*words)).lower(*arguments).as_text())


LARGE = [
    ((), (300,)),
    ((9, 1), (9, 40)),
    ((9, 40), (9, 40)),
    ((1, 300), (2, 300)),
    ((150, 1), (1, 2)),
    ((5, 30, 1, 1), (1, 1, 4, 2)),
    ((5, 30, 1), (5, 30, 2)),
]
"""The same, of more numbers than are written out."""


def inputs_of(key: tuple[int, ...], counter: tuple[int, ...]) -> list[np.ndarray]:
    return [words(key, 0), words(key, 1), words(counter, 2), words(counter, 3)]


@pytest.mark.costly
@pytest.mark.parametrize(("key", "counter"), SHAPES)
def test_few_numbers_are_written_out(key: tuple[int, ...], counter: tuple[int, ...]) -> None:
    arguments = inputs_of(key, counter)
    run = against_xla(text_of(*arguments), *arguments).bit_exact()
    assert run.nodes["Scan"] == run.nodes["Loop"] == 0
    assert run.nodes["MatMul"] == (0 if 0 in counter else 20)
    assert sum(run.nodes.values()) <= 115


@pytest.mark.costly
@pytest.mark.parametrize(("key", "counter"), [*SHAPES, *LARGE])
def test_same_bits_in_one_scan(key: tuple[int, ...], counter: tuple[int, ...]) -> None:
    """Of many numbers, and of few where the target's costs do not ask for more nodes."""
    arguments = inputs_of(key, counter)
    target = "ort-cpu" if (key, counter) in LARGE else "onnx"
    run = against_xla(text_of(*arguments), *arguments, target=target).bit_exact()
    assert run.nodes["Scan"] == (0 not in counter)
    assert run.nodes["Loop"] == run.nodes["MatMul"] == 0
    assert sum(run.nodes.values()) <= 40


@pytest.mark.wide
def test_short_rows_of_a_free_batch() -> None:
    def draw(keys: jax.Array) -> jax.Array:
        return jax.vmap(lambda key: jax.random.bits(key, (2,)))(keys)

    keys = words((150, 2), 0)
    program = hlo2onnx.translate(draw, keys, dynamic={0: "b, 2"})
    for rows in (150, 7, 1, 0):
        assert program.verify(keys[:rows]), rows


@pytest.mark.parametrize("key", EDGES)
def test_edges_of_the_key(key: np.uint32) -> None:
    arguments = [np.array(key), np.array(~key), EDGES, EDGES[::-1].copy()]
    against_xla(text_of(*arguments), *arguments).bit_exact()


def test_lowered_for_other_platforms() -> None:
    """There the rounds stand one after the other, without a loop."""
    arguments = [words((), 0), words((), 1), words((5,), 2), words((5,), 3)]
    traced = jax.jit(lambda *words: threefry2x32_p.bind(*words)).trace(*arguments)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.while" not in text
    assert against_xla(text, *arguments).bit_exact().nodes["BitwiseXor"] == 22


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("dense<466688986>", "dense<466688987>"),
        ("dense<[13, 15, 26, 6]>", "dense<[13, 15, 26, 7]>"),
        ("dense<5> : tensor<i32>", "dense<4> : tensor<i32>"),
    ],
)
def test_what_only_looks_like_it(before: str, after: str) -> None:
    """Another constant, rotation or number of rounds: translated as it stands."""
    arguments = [words((), 0), words((), 1), words((6,), 2), words((6,), 3)]
    text = text_of(*arguments)
    assert text.count(before) == 1
    text = text.replace(before, after)
    run = against_xla(text, *arguments, without=LOOP_RULE_NAMES).bit_exact()
    assert run.nodes["Scan"] == run.nodes["MatMul"] == 0


def test_counters_below_two_to_the_32_have_no_high_word() -> None:
    """Nothing computes the zeros that JAX adds the key's first word to."""
    program = hlo2onnx.translate(
        jax.jit(lambda k: jax.random.bits(k, (400,))).lower(jax.random.PRNGKey(0))
    )
    assert program.report.nodes["Cast"] == 0
    assert program.report.nodes["BitShift"] == 4  # in the rounds


def test_one_scan_for_a_symbolic_batch() -> None:
    """The counters come of extents, which JAX passes to the function first."""
    program = hlo2onnx.translate(
        lambda key, x: jax.random.bits(key, x.shape),
        np.array([1, 2], np.uint32),
        np.zeros((3, 4), np.float32),
        dynamic={1: "b, 4"},
    )
    assert program.report.nodes["Scan"] == 1
    assert program.report.nodes["Loop"] == 0
    for batch in (1, 5):
        key = np.array([7, batch], np.uint32)
        np.testing.assert_array_equal(
            program(key, np.zeros((batch, 4), np.float32)), jax.random.bits(key, (batch, 4))
        )

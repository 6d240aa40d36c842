"""Uses of Threefry that are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from target_costs import use_costs

import hlo2onnx
from hlo2onnx.raising.rules.algebra.batch_threefry import BatchThreefry

BATCH = BatchThreefry.name
SEEDS = np.array([[0, 0], [0, 1234], [0xFFFFFFFF, 0xFFFFFFFF]], np.uint32)
ROUNDS = 20
"""Products of a use that is written out."""


class Translated:
    """A function of a key in ONNX, compared with XLA for three keys.

    Attributes:
        rules: How often each rule fired.
        uses: How many uses of Threefry the model has, bodies and branches included.
    """

    def __init__(self, function: Callable[..., Any], *args: Any, without: Any = ()) -> None:
        kept = {"loop-unroll", *without}
        program = hlo2onnx.translate(function, SEEDS[0], *args, without=kept)
        compiled = jax.jit(function)
        for seed in SEEDS:
            got, want = program(seed, *args), compiled(seed, *args)
            for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
                np.testing.assert_array_equal(x, y)
        self.rules = program.report.rules
        self.uses = program.report.nodes["MatMul"] / ROUNDS


def two_draws(key: jax.Array) -> Any:
    first, second = random.split(key)
    return random.uniform(first, (3,)), random.bits(second, (2, 5))


def three_levels(key: jax.Array) -> Any:
    """Two chains of two and of three uses: three batches, the last of one."""
    first, second = random.split(key)
    third = random.split(second)[1]
    return random.bits(first, (3,)), random.bits(third, (4,)), random.fold_in(first, 7)


def of_many_keys(key: jax.Array) -> Any:
    keys = random.split(key, 3)
    draws = jax.vmap(lambda each: random.bits(each, (2,)))(keys)
    return draws, random.bits(keys[0], (5,))


@pytest.mark.wide
@pytest.mark.parametrize(
    ("function", "uses", "before"),
    [
        (two_draws, 2, 3),
        (three_levels, 3, 5),
        (of_many_keys, 2, 3),
        (lambda key: random.randint(key, (8,), -3, 100), 2, 3),
        (lambda key: random.randint(key, (), 0, 10, jnp.uint8), 2, 3),
        (lambda key: (random.bits(key, (0, 3)), random.bits(key, (3,))), 1, 1),
        (lambda key: (random.fold_in(key, key[0]), random.bits(key, (3,))), 1, 2),
    ],
    ids=["two", "levels", "vmap", "randint", "u8", "empty", "counters"],
)
def test_those_that_wait_for_equally_many_are_one(
    function: Callable[..., Any], uses: int, before: int
) -> None:
    run = Translated(function)
    assert run.rules[BATCH] == (uses < before)
    assert run.uses == uses
    assert Translated(function, without=[BATCH]).uses == before


@pytest.mark.parametrize(("size", "fired"), [(253, 1), (254, 0)])
def test_no_more_numbers_than_are_written_out(size: int, fired: int) -> None:
    run = Translated(lambda key: (random.bits(key, (size,)), random.bits(~key, (3,))))
    assert run.rules[BATCH] == fired


@pytest.mark.wide
@pytest.mark.parametrize("partitionable", [False, True])
def test_both_ways_to_count(partitionable: bool) -> None:
    with jax.threefry_partitionable(partitionable):
        assert Translated(two_draws).uses == 2
        assert Translated(lambda key: random.randint(key, (3,), 0, 9)).rules[BATCH] == 1


def test_targets_that_do_not_write_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, threefry_written_elements=0)
    run = Translated(two_draws)
    assert not run.rules[BATCH]
    assert run.uses == 0


@pytest.mark.wide
def test_a_symbolic_number_stays() -> None:
    def function(key: jax.Array, x: jax.Array) -> Any:
        return random.bits(key, x.shape), random.bits(~key, (3,))

    x = np.zeros((4,), np.float32)
    program = hlo2onnx.translate(function, SEEDS[1], x, dynamic={1: "n"})
    assert program.report.rules[BATCH] == 0
    for got, want in zip(program(SEEDS[1], x), function(SEEDS[1], x), strict=True):
        np.testing.assert_array_equal(got, want)

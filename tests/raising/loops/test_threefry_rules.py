"""Uses of Threefry that are joined, moved out of branches, and started a trip earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from target_costs import use_costs

import hlo2onnx
from hlo2onnx.raising.rules.algebra.batch_threefry import BatchThreefry
from hlo2onnx.raising.rules.loops.hoist_threefry import HoistThreefry
from hlo2onnx.raising.rules.loops.pipeline_threefry import PipelineThreefry

BATCH, HOIST, PIPELINE = BatchThreefry.name, HoistThreefry.name, PipelineThreefry.name
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


# -- batch-threefry --------------------------------------------------------------------------------


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
    assert not {BATCH, HOIST, PIPELINE} & {*run.rules}
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


# -- pipeline-threefry -----------------------------------------------------------------------------


def split_and_draw(key: jax.Array, trips: int = 3) -> Any:
    """Stops by what was drawn, so that no trip can be done ahead."""

    def step(state: Any) -> Any:
        key, count, _, total = state
        key, part = random.split(key)
        drawn = random.bits(part, (3,))
        return key, count + 1, drawn, total ^ drawn

    zeros = jnp.zeros(3, jnp.uint32)
    start = (key, 0, zeros, zeros)
    return lax.while_loop(lambda s: (s[1] < trips) & (s[2][0] != 7), step, start)


def chained(key: jax.Array) -> Any:
    """The key of the next trip depends on what is drawn: nothing can start earlier."""

    def step(state: Any) -> Any:
        key, count = state
        drawn = random.bits(random.split(key)[0], (2,))
        return drawn, count + 1

    return lax.while_loop(lambda s: (s[1] < 3) & (s[0][0] != 7), step, (key, 0))


def numbered(key: jax.Array) -> Any:
    """What is split depends on the count, which is a state of a while loop."""

    def step(state: Any) -> Any:
        count, total = state
        return count + 1, total ^ random.bits(random.fold_in(key, count), (2,))

    start = (0, jnp.zeros(2, jnp.uint32))
    return lax.while_loop(lambda s: (s[0] < 3) & (s[1][0] != 7), step, start)


@pytest.mark.wide
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_keys_are_split_a_trip_earlier(trips: int) -> None:
    run = Translated(lambda key: split_and_draw(key, trips))
    assert run.rules[PIPELINE] == 1
    assert run.uses == 2  # before the loop, and in it
    assert Translated(lambda key: split_and_draw(key, trips), without=[PIPELINE]).rules[BATCH] == 0


@pytest.mark.wide
def test_a_counter_of_the_loop_is_folded_in_a_trip_earlier() -> None:
    assert Translated(numbered).rules[PIPELINE] == 1


def of_a_table(key: jax.Array) -> Any:
    """The key is a row of a table, whose number is in range within a trip only."""
    table = random.split(key, 3)

    def step(state: Any) -> Any:
        count, total = state
        return count + 1, total ^ random.bits(random.split(table[count])[0], (2,))

    start = (0, jnp.zeros(2, jnp.uint32))
    return lax.while_loop(lambda s: (s[0] < 3) & (s[1][0] != 7), step, start)


def test_a_row_after_the_last_one_is_not_read() -> None:
    assert Translated(of_a_table).rules[PIPELINE] == 0


def test_what_waits_for_the_draw_stays() -> None:
    run = Translated(chained)
    assert run.rules[PIPELINE] == 0
    assert run.uses == 2


def test_rows_behind_the_states_keep_their_places() -> None:
    """A Loop with states, the words and stacks, in this order."""

    def function(key: jax.Array) -> Any:
        def step(state: Any, _: Any) -> Any:
            key, x = state
            key, part = random.split(key)
            x = x * 3 + random.bits(part, (2,))
            return (key, x), x

        return lax.scan(step, (key, jnp.ones(2, jnp.uint32)), length=4)

    run = Translated(function, without=["loop-fission"])
    assert run.rules[PIPELINE] == 1


# -- hoist-threefry --------------------------------------------------------------------------------


def drawn_in_a_branch(key: jax.Array) -> Any:
    first, second = random.split(key)
    in_branch = lax.cond(
        key[0] > 5,
        lambda: random.bits(first, (3,)) ^ random.bits(random.fold_in(first, 1), (3,)),
        lambda: jnp.zeros(3, jnp.uint32),
    )
    return in_branch, random.bits(second, (2,))


@pytest.mark.wide
def test_a_branch_shares_the_use_around_it() -> None:
    """Two of three uses in the branch wait for no more than the one around it."""
    run = Translated(drawn_in_a_branch)
    assert run.rules[HOIST] == 2
    assert run.uses == 3
    assert Translated(drawn_in_a_branch, without=[HOIST]).uses == 4


def test_a_branch_on_its_own_draws_when_it_is_taken() -> None:
    def function(key: jax.Array) -> Any:
        return lax.cond(
            key[0] > 5, lambda: random.bits(key, (3,)), lambda: jnp.zeros(3, jnp.uint32)
        )

    run = Translated(function)
    assert run.rules[HOIST] == 0
    assert run.uses == 1


def test_a_branch_that_returns_the_words() -> None:
    """The hoisted words would be outputs of the branch that no node of it makes."""

    def function(key: jax.Array) -> Any:
        words = lambda: jax.extend.random.threefry2x32_p.bind(*key, key[:1], key[1:])  # noqa: E731
        inner = lax.cond(key[0] > 5, words, lambda: [key[:1], key[1:]])
        return inner, random.bits(key, (2,))

    assert Translated(function).rules[HOIST] == 0

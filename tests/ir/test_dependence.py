"""Keys that are constants of the program are noticed, wherever they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.report import FIXED_KEY

X = np.ones(3, np.float32)


def noise(key: jax.Array) -> jax.Array:
    return jax.random.uniform(key, (3,))


def carried(key: jax.Array, x: jax.Array) -> jax.Array:
    def body(_: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, x = carry
        key, here = jax.random.split(key)
        return key, x + noise(here)

    return jax.lax.fori_loop(0, 4, body, (key, x))[1]


def captured(key: jax.Array, x: jax.Array) -> Any:
    def body(x: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x + noise(jax.random.fold_in(key, i)), x

    return jax.lax.scan(body, x, jnp.arange(4))


def per_step(key: jax.Array, x: jax.Array) -> Any:
    def body(x: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x + noise(key), x

    return jax.lax.scan(body, x, jax.random.split(key, 4))


def until(key: jax.Array, x: jax.Array) -> jax.Array:
    def body(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, x = carry
        return jax.random.split(key)[0], x + noise(key)

    return jax.lax.while_loop(lambda carry: carry[1].sum() < 9, body, (key, x))[1]


def branch(key: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.cond(x.sum() > 0, lambda: noise(key), lambda: x)


def straight(key: jax.Array, x: jax.Array) -> jax.Array:
    return x + noise(key)


USES = [straight, branch, captured, carried, per_step, until]


def is_noted(function: Callable[..., Any], *arguments: Any) -> bool:
    program = hlo2onnx.translate(jax.jit(function).lower(*arguments))
    return FIXED_KEY in program.report.notes


@pytest.mark.costly
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_a_constant_key_is_noted_and_a_given_one_is_not(
    use: Callable[[jax.Array, jax.Array], Any], impl: str
) -> None:
    key = jax.random.key(5, impl=impl)
    assert is_noted(lambda x: use(key, x), X)
    assert is_noted(lambda x: use(jax.random.key(5, impl=impl), x), X)
    assert not is_noted(use, key, X)
    assert not is_noted(lambda seed, x: use(jax.random.key(seed, impl=impl), x), 5, X)


def test_one_constant_key_beside_a_given_one_is_noted() -> None:
    key = jax.random.key(0)
    assert is_noted(lambda given, x: straight(given, x) + noise(key), key, X)
    assert not is_noted(lambda given, x: straight(given, x) + noise(given), key, X)


def test_a_program_without_randomness_has_no_note() -> None:
    assert not is_noted(lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x + 1, x), X)


@pytest.mark.parametrize("is_given", [False, True])
def test_symbolic_shapes_hide_no_constant_key(is_given: bool) -> None:
    def noisy(key: jax.Array, x: jax.Array) -> jax.Array:
        return x + jax.random.normal(key if is_given else jax.random.key(5), x.shape)

    key = jax.random.PRNGKey(0)
    program = hlo2onnx.translate(noisy, key, np.ones((3, 4), np.float32), dynamic={1: "b, 4"})
    assert (FIXED_KEY in program.report.notes) != is_given


@pytest.mark.costly
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_what_is_folded_into_a_key(impl: str) -> None:
    """unsafe_rbg draws bits with the number that is folded in as their key."""
    key = jax.random.key(5, impl=impl)

    def folded(key: jax.Array, number: Any, x: jax.Array) -> jax.Array:
        return x + noise(jax.random.fold_in(key, number))

    assert is_noted(lambda x: folded(key, 3, x), X)
    assert not is_noted(lambda key, x: folded(key, 3, x), key, X)
    assert not is_noted(lambda number, x: folded(key, number, x), 3, X)
    assert not is_noted(folded, key, 3, X)


def test_fixed_bits_beside_what_is_folded_into_a_key() -> None:
    key = jax.random.key(5, impl="unsafe_rbg")

    def function(key: jax.Array, x: jax.Array) -> jax.Array:
        return straight(jax.random.fold_in(key, 3), x) + noise(jax.random.key(1, impl="rbg"))

    assert is_noted(function, key, X)


def test_the_key_as_an_extent() -> None:
    """What depends on shapes alone is the same for all inputs of these."""
    key = jax.random.key(5)
    program = hlo2onnx.translate(
        lambda x: x + jax.random.normal(jax.random.fold_in(key, x.shape[0]), x.shape), "b"
    )
    assert FIXED_KEY in program.report.notes

"""Calls that only have an effect are left out; calls whose results are read are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from hlo2onnx import TranslationError, translate

LEFT_OUT = "calls of Python, such as jax.debug.print, are left out: nothing reads their results"
X = np.arange(3, dtype=np.float32)


def printing(x: jax.Array) -> jax.Array:
    jax.debug.print("x = {x}", x=x)
    return x + 1


def printing_in_order(x: jax.Array) -> jax.Array:
    jax.debug.print("x = {x}", x=x, ordered=True)
    jax.debug.print("again {x}", x=x, ordered=True)
    return x + 1


def calling_back(x: jax.Array) -> jax.Array:
    jax.debug.callback(lambda a: None, x)
    return x * 2


def storing(x: jax.Array) -> jax.Array:
    io_callback(lambda a: None, None, x, ordered=True)
    return x - 1


def counting(x: jax.Array) -> jax.Array:
    def body(i: int, c: jax.Array) -> jax.Array:
        jax.debug.print("{i}", i=i, ordered=True)
        return c + i

    return jax.lax.fori_loop(0, 3, body, x)


def branching(x: jax.Array) -> jax.Array:
    def loud(x: jax.Array) -> jax.Array:
        jax.debug.print("hi")
        return x

    return jax.lax.cond(x[0] > 0, loud, jnp.negative, x)


def reading_nothing(x: jax.Array) -> jax.Array:
    io_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return x


def printing_what_is_called(x: jax.Array) -> jax.Array:
    jax.debug.print("{y}", y=pure(x))
    return x


@pytest.mark.costly
@pytest.mark.parametrize(
    "function",
    [
        printing,
        printing_in_order,
        calling_back,
        storing,
        counting,
        branching,
        reading_nothing,
        printing_what_is_called,
    ],
)
def test_callbacks_are_left_out_with_a_note(function: Callable[..., Any]) -> None:
    """Verification leaves them out, too: XLA would crash on callbacks it was not given."""
    program = translate(jax.jit(function).lower(X))
    assert program.report.notes == [LEFT_OUT]
    assert program.verify(X)
    np.testing.assert_array_equal(program(X), jax.jit(function)(X))


def test_a_callback_alone() -> None:
    """jax.effects and tokens leave nothing behind but the program."""
    program = translate(jax.jit(printing_in_order).lower(X))
    assert dict(program.report.nodes) == {"Add": 1}


def pure(x: jax.Array) -> jax.Array:
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def ordered(x: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return io_callback(lambda a: a, shape, x, ordered=True) + 1


@pytest.mark.parametrize("function", [pure, ordered])
def test_callbacks_with_results_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(TranslationError) as caught:
        translate(jax.jit(function).lower(X))
    message = str(caught.value)
    assert "it calls a Python function of the process that lowered the program" in message
    assert "write the function in JAX instead of jax.pure_callback" in message
    assert "test_effects.py" in message


@pytest.mark.parametrize("results", [1, 2])
def test_other_calls_without_results(results: int) -> None:
    tokens = ", ".join(["!stablehlo.token"] * results)
    text = f"""
    module {{ func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
      %t:{results} = stablehlo.custom_call @my.assert(%x) {{has_side_effect = true}}
        : (tensor<3xf32>) -> ({tokens})
      %u = stablehlo.after_all %t#0 : !stablehlo.token
      stablehlo.custom_call @my.log(%u, %x) {{has_side_effect = true}}
        : (!stablehlo.token, tensor<3xf32>) -> ()
      return %x : tensor<3xf32>
    }} }}
    """
    program = translate(text)
    assert [note.split()[2] for note in program.report.notes] == ["@my.assert", "@my.log"]
    assert program.verify(X)

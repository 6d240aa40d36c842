"""Branches that hold Python callbacks count as not taken on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callbacks import X, next_of, notes_of
from jax.experimental import io_callback

from hlo2onnx import TranslationError, translate

HERE = "tests/frontend/test_callback_branches.py"


def called_back(x: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def called_in_order(x: jax.Array) -> jax.Array:
    return io_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)


def one_branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0] > 100, called_back, jnp.negative, x)


def other_branch(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0] < 100, jnp.negative, called_back, x)


def in_order(x: jax.Array) -> jax.Array:
    jax.debug.print("{}", x, ordered=True)
    y = jax.lax.cond(x[0] > 100, called_in_order, jnp.negative, x)
    return y + 1


def through_functions(x: jax.Array) -> jax.Array:
    inner = jax.jit(lambda x: jax.jit(called_back)(x) + 1)
    return jax.lax.cond(x[0] > 100, inner, jnp.negative, x)


def innermost(x: jax.Array) -> jax.Array:
    def branch(x: jax.Array) -> jax.Array:
        return jax.lax.cond(x[1] > 100, called_back, jnp.cos, x)

    return jax.lax.cond(x[0] > 1, branch, jnp.negative, x)


def loop_in_a_branch(x: jax.Array) -> jax.Array:
    def branch(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda _, c: called_back(c), x)

    return jax.lax.cond(x[0] > 100, branch, jnp.negative, x)


def branch_in_a_loop(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, c: one_branch(c), x)


def one_of_four(x: jax.Array) -> jax.Array:
    branches = [jnp.negative, called_back, jnp.cos, called_back, jnp.sin]
    return jax.lax.switch(jnp.int32(x[0]), branches, x)


REACHABLE_ONLY_BY_BRANCH = [
    one_branch,
    other_branch,
    in_order,
    through_functions,
    innermost,
    loop_in_a_branch,
    branch_in_a_loop,
]


@pytest.mark.costly
@pytest.mark.parametrize("function", REACHABLE_ONLY_BY_BRANCH)
def test_branches_with_callbacks_count_as_not_taken_on_request(
    function: Callable[..., Any],
) -> None:
    lowered = jax.jit(function).lower(X)
    assert 'callbacks="unreachable"' in next_of(lowered)
    program = translate(lowered, callbacks="unreachable")
    assert len([note for note in notes_of(program) if note.startswith("a branch")]) == 1
    assert program.verify(X)
    np.testing.assert_allclose(program(X), jax.jit(function)(X), rtol=1e-6)


def test_the_note_of_a_branch() -> None:
    program = translate(one_branch, X, callbacks="unreachable")
    call = called_back.__code__.co_firstlineno + 1
    assert notes_of(program) == [
        f"a branch with a Python callback at {HERE}:{call} is left out, as if it were never taken"
    ]


@pytest.mark.parametrize("index", [-5, 0, 2, 4, 5, 99])
def test_the_other_branches_keep_their_indices(index: int) -> None:
    x = np.array([index, 2, 3], np.float32)
    program = translate(one_of_four, X, callbacks="unreachable")
    assert notes_of(program)
    assert program.verify(x)
    np.testing.assert_allclose(program(x), jax.jit(one_of_four)(x), rtol=1e-6)


def both_branches(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0] > 100, called_back, lambda x: called_back(x) + 1, x)


def also_outside(x: jax.Array) -> jax.Array:
    shared = jax.jit(called_back)
    return jax.lax.cond(x[0] > 100, shared, jnp.negative, x) + shared(x)


def in_every_trip(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, c: called_back(c), x)


@pytest.mark.parametrize("function", [both_branches, also_outside, in_every_trip, called_back])
def test_callbacks_that_are_always_called_are_refused(function: Callable[..., Any]) -> None:
    """The option, which would not help, is not named."""
    for policy in ("drop-checks", "unreachable"):
        advice = next_of(function, X, callbacks=policy)
        assert "write the function in JAX" in advice
        assert "callbacks=" not in advice


def test_prints_do_not_make_a_branch_unreachable() -> None:
    def loud(x: jax.Array) -> jax.Array:
        jax.debug.print("hi")
        return x * 2

    def function(x: jax.Array) -> jax.Array:
        return jax.lax.cond(x[0] > 0, loud, jnp.negative, x)

    program = translate(function, X, callbacks="unreachable")
    np.testing.assert_array_equal(program(X), X * 2)


# -- programs by hand ---------------------------------------------------------------------------

CALL = "stablehlo.custom_call @xla_ffi_python_cpu_callback"


def if_program(then: str, otherwise: str, functions: str = "") -> str:
    return f"""
    module {{
      func.func public @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {{
        %0 = "stablehlo.if"(%p) ({{ {then} }}, {{ {otherwise} }}) : (tensor<i1>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }}
      {functions}
    }}
    """


RAISES = f"%c = {CALL}(%x) : (tensor<3xf32>) -> tensor<3xf32> stablehlo.return %c : tensor<3xf32>"
NEGATES = "%n = stablehlo.negate %x : tensor<3xf32> stablehlo.return %n : tensor<3xf32>"


@pytest.mark.parametrize("branches", [(RAISES, NEGATES), (NEGATES, RAISES)])
def test_either_branch_of_an_if(branches: tuple[str, str]) -> None:
    text = if_program(*branches)
    program = translate(text, callbacks="unreachable")
    assert dict(program.report.nodes) == {"Neg": 1}
    for predicate in (True, False):
        assert program.verify(X, np.array(predicate))
    assert len(notes_of(program)) == 1


@pytest.mark.costly
@pytest.mark.parametrize(
    ("symbol", "location", "is_known"),
    [
        ("branched_error_if_impl_3", '"solve.py":7:3', True),
        ("branched_error_if_impl", '"cond/pure_callback"', True),
        ("branched_error_if_impl", '"-":7:3', False),
        ("branched_error_if_impl", "unknown", False),
        ("branched_error_if", '"solve.py":7:3', False),
    ],
)
def test_the_name_of_equinoxs_function(symbol: str, location: str, is_known: bool) -> None:
    """It is what JAX leaves of a check where a custom derivative is differentiated."""
    call = f"func.call @{symbol}(%x, %p) : (tensor<3xf32>, tensor<i1>) -> tensor<3xf32>"
    text = f"""
    #line = loc({location})
    module {{
      func.func @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {{
        %0 = {call} loc(#line)
        return %0 : tensor<3xf32>
      }}
      func.func private @{symbol}(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {{
        %0 = "stablehlo.if"(%p) ({{
          %c = {CALL}(%x) : (tensor<3xf32>) -> tensor<3xf32> loc(#line)
          stablehlo.return %c : tensor<3xf32>
        }}, {{ {NEGATES} }}) : (tensor<i1>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }}
    }}
    """
    if is_known:
        program = translate(text)
        assert program.verify(X, np.array(True))
        (note,) = notes_of(program)
        where = " at solve.py:7" if "solve.py" in location else ""
        assert note.startswith(f"a check of equinox{where} is left out: if it fails")
    else:
        assert 'callbacks="unreachable"' in next_of(text)


def test_a_recursive_function_ends() -> None:
    recursive = """
      func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {
        %0 = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }"""
    then = f"%f = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32> {NEGATES}"
    program = translate(if_program(RAISES, NEGATES, recursive), callbacks="unreachable")
    assert program.verify(X, np.array(False))
    with pytest.raises(TranslationError, match="calls itself"):
        translate(if_program(then, RAISES, recursive), callbacks="unreachable")

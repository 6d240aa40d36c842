"""Branches that hold Python callbacks count as not taken: equinox's checks, or all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from hlo2onnx import LoadError, OnnxProgram, TranslationError, UsageError, translate

X = np.arange(1, 4, dtype=np.float32)
HERE = "tests/mlir/test_callback_branches.py"


def notes_of(program: OnnxProgram) -> list[str]:
    return [note for note in program.report.notes if "left out" in note]


def next_of(source: Any, *args: Any, **options: Any) -> str:
    """What the error of a refused program tells the user to do."""
    with pytest.raises(TranslationError) as caught:
        translate(source, *args, **options)
    assert "it calls a Python function of the process" in str(caught.value)
    return caught.value.refusals[0].next


# -- equinox's checks -------------------------------------------------------------------------


def rooted(x: jax.Array) -> jax.Array:
    x = eqx.error_if(x, jnp.any(x < 0), "x must not be negative")
    return jnp.sqrt(x)


def of_two_arrays(x: jax.Array) -> jax.Array:
    y, z = eqx.error_if((x, 2 * x), x.sum() > 100, "too much")
    return y - z


def with_one_of_messages(x: jax.Array) -> jax.Array:
    return eqx.branched_error_if(x * 2, x.sum() > 100, jnp.int32(x[0]), ["a", "b"])


def in_a_loop(x: jax.Array) -> jax.Array:
    def body(_: int, c: jax.Array) -> jax.Array:
        return eqx.error_if(c * 2, c[0] > 1e9, "big")

    return jax.lax.fori_loop(0, 3, body, x)


def in_a_while_condition(x: jax.Array) -> jax.Array:
    def condition(c: jax.Array) -> jax.Array:
        return eqx.error_if(jnp.abs(c[0]), jnp.isnan(c[0]), "nan") < 10

    return jax.lax.while_loop(condition, lambda c: c * 2, x)


def in_a_scan(x: jax.Array) -> jax.Array:
    def step(c: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        c = eqx.error_if(c + a, ~jnp.isfinite(a), "not finite")
        return c, c * a

    return jax.lax.scan(step, jnp.float32(0), x)[1]


def in_a_branch(x: jax.Array) -> jax.Array:
    def checked(x: jax.Array) -> jax.Array:
        return eqx.error_if(x, x[0] > 100, "big") * 2

    return jax.lax.cond(x[0] > 1, checked, jnp.negative, x)


def in_another_jit(x: jax.Array) -> jax.Array:
    return jax.jit(rooted)(x) + eqx.filter_jit(rooted)(x + 1)


def within_a_check(x: jax.Array) -> jax.Array:
    inner = eqx.error_if(x.sum(), x[1] < 0, "inner")
    return eqx.error_if(x, inner < 0, "outer") + 1


def differentiated(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: (rooted(x) ** 3).sum())(x)


def checkpointed(x: jax.Array) -> jax.Array:
    def body(c: jax.Array, a: jax.Array) -> tuple[jax.Array, None]:
        return c * jnp.sin(rooted(a + c)), None

    return jax.grad(lambda x: jax.lax.scan(jax.checkpoint(body), jnp.float32(2), x)[0])(x + 9)


def with_forward_derivative(x: jax.Array) -> jax.Array:
    return jax.jacfwd(rooted)(x) + jax.hessian(lambda x: (rooted(x) ** 3).sum())(x)


@jax.custom_jvp
def with_own_derivative(x: jax.Array) -> jax.Array:
    return rooted(x)


@with_own_derivative.defjvp
def _derivative(primals: Any, tangents: Any) -> Any:
    return with_own_derivative(*primals), tangents[0] * 2


def without_lines_of_equinox(x: jax.Array) -> jax.Array:
    """JAX 0.10 leaves no source lines of what is in a custom derivative."""
    return jax.jvp(jax.jit(with_own_derivative), (x,), (x,))[0]


def linearized(x: jax.Array) -> jax.Array:
    y, along = jax.linearize(jax.vmap(rooted), x)
    return y + along(x)


def batched_branch(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda a: jax.lax.cond(a > 1, rooted, jnp.negative, a))(x)


CHECKED = [
    rooted,
    of_two_arrays,
    with_one_of_messages,
    in_a_loop,
    in_a_while_condition,
    in_a_scan,
    in_a_branch,
    in_another_jit,
    within_a_check,
    differentiated,
    checkpointed,
    with_forward_derivative,
    without_lines_of_equinox,
    linearized,
    batched_branch,
]


@pytest.mark.parametrize("function", CHECKED)
def test_checks_of_equinox_are_left_out_with_a_note(function: Callable[..., Any]) -> None:
    program = translate(function, X)
    assert notes_of(program)
    assert program.verify(X)
    assert program.verify(-X), "where the check fails, the model goes on"
    np.testing.assert_allclose(program(X), jax.jit(function)(X), rtol=1e-6)


def test_batched_checks() -> None:
    program = translate(jax.vmap(rooted), np.ones((2, 3), np.float32))
    assert dict(program.report.nodes) == {"Sqrt": 1}
    assert program.verify()


def test_the_note_says_which_check_and_its_condition() -> None:
    program = translate(rooted, X)
    line = rooted.__code__.co_firstlineno + 1
    where = f"{HERE}:{line}"
    assert notes_of(program) == [
        f"a check of equinox at {where} is left out: where it would raise, the model goes on;"
        f" its condition: stablehlo.compare LT at {where}"
    ]


def test_each_call_of_a_check_has_a_note() -> None:
    def twice(x: jax.Array) -> jax.Array:
        x = eqx.error_if(x, jnp.any(x < 0), "negative")
        return eqx.error_if(x + 1, jnp.any(~jnp.isfinite(x)), "infinite")

    first, second = notes_of(translate(twice, X))
    line = twice.__code__.co_firstlineno
    assert f"{HERE}:{line + 1} is left out" in first
    assert f"{HERE}:{line + 2} is left out" in second
    assert "its condition: not stablehlo.is_finite at " in second


def test_the_users_line_where_a_library_checks(tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "checking_library.py").write_text(
        "import equinox as eqx\n\ndef positive(x):\n    return eqx.error_if(x, x < 0, 'no')\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    import checking_library

    def user(x: jax.Array) -> jax.Array:
        return checking_library.positive(x)

    (note,) = notes_of(translate(user, X))
    line = user.__code__.co_firstlineno + 1
    assert f"a check of equinox at checking_library.py:4 (from {HERE}:{line}) is left out" in note


def test_refused_on_request() -> None:
    advice = next_of(rooted, X, callbacks="refuse")
    assert 'callbacks="drop-checks"' in advice


def test_symbolic_shapes() -> None:
    """JAX itself does not lower the callback."""
    with pytest.raises(LoadError, match="the environment variable EQX_ON_ERROR"):
        translate(rooted, "b, 3")


def test_a_file_with_locations(tmp_path: Any) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(jax.jit(rooted).lower(X).as_text(debug_info=True))
    program = translate(path)
    assert notes_of(program)
    assert program.verify()


def test_a_file_without_locations() -> None:
    text = jax.jit(rooted).lower(X).as_text()
    advice = next_of(text)
    assert 'callbacks="unreachable"' in advice
    assert "the program has no source locations, by which checks of equinox are known" in advice
    program = translate(text, callbacks="unreachable")
    (note,) = notes_of(program)
    assert note.startswith("a branch with a Python callback at input:")
    assert "its condition: stablehlo.compare LT at input:" in note
    assert program.verify()


def test_the_users_module_stays_as_it_is() -> None:
    lowered = jax.jit(rooted).lower(X)
    before = lowered.as_text(debug_info=True)
    translate(lowered)
    assert lowered.as_text(debug_info=True) == before


# -- other callbacks --------------------------------------------------------------------------


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
    line = one_branch.__code__.co_firstlineno + 1
    assert notes_of(program) == [
        f"a branch with a Python callback at {HERE}:{call} is left out, as if it were never taken;"
        f" its condition: stablehlo.compare GT at {HERE}:{line}"
    ]


@pytest.mark.parametrize("index", [-5, 0, 2, 4, 5, 99])
def test_the_other_branches_keep_their_indices(index: int) -> None:
    x = np.array([index, 2, 3], np.float32)
    program = translate(one_of_four, X, callbacks="unreachable")
    assert len(notes_of(program)) == 2
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
    (note,) = notes_of(program)
    assert note.endswith("its condition: an argument of @main at input:3")


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
        assert note.startswith(f"a check of equinox{where} is left out: where it would raise")
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


def test_the_option_is_checked() -> None:
    with pytest.raises(UsageError, match="callbacks='drop' is not one of drop-checks"):
        translate(rooted, X, callbacks="drop")

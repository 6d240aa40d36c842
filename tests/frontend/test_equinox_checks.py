"""Checks of equinox are left out: if one fails, the model continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from callbacks import X, next_of, notes_of

from hlo2onnx import LoadError, UsageError, translate

HERE = "tests/frontend/test_equinox_checks.py"


def rooted(x: jax.Array) -> jax.Array:
    x = eqx.error_if(x, jnp.any(x < 0), "x must not be negative")
    return jnp.sqrt(x)


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


@jax.custom_jvp
def with_own_derivative(x: jax.Array) -> jax.Array:
    return rooted(x)


@with_own_derivative.defjvp
def _derivative(primals: Any, tangents: Any) -> Any:
    return with_own_derivative(*primals), tangents[0] * 2


def without_lines_of_equinox(x: jax.Array) -> jax.Array:
    """JAX 0.10 leaves no source lines of what is in a custom derivative."""
    return jax.jvp(jax.jit(with_own_derivative), (x,), (x,))[0]


def batched_branch(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda a: jax.lax.cond(a > 1, rooted, jnp.negative, a))(x)


CHECKED = [
    rooted,
    in_a_loop,
    in_a_while_condition,
    in_a_scan,
    in_a_branch,
    in_another_jit,
    within_a_check,
    differentiated,
    without_lines_of_equinox,
    batched_branch,
]


@pytest.mark.costly
@pytest.mark.parametrize("function", CHECKED)
def test_checks_of_equinox_are_left_out_with_a_note(function: Callable[..., Any]) -> None:
    program = translate(function, X)
    assert notes_of(program)
    assert program.verify(X)
    assert program.verify(-X), "if the check fails, the model continues"
    np.testing.assert_allclose(program(X), jax.jit(function)(X), rtol=1e-6)


def test_the_note_says_which_check() -> None:
    program = translate(rooted, X)
    line = rooted.__code__.co_firstlineno + 1
    where = f"{HERE}:{line}"
    assert notes_of(program) == [
        f"a check of equinox at {where} is left out: if it fails, the model continues"
    ]


def test_each_call_of_a_check_has_a_note() -> None:
    def twice(x: jax.Array) -> jax.Array:
        x = eqx.error_if(x, jnp.any(x < 0), "negative")
        return eqx.error_if(x + 1, jnp.any(~jnp.isfinite(x)), "infinite")

    first, second = notes_of(translate(twice, X))
    line = twice.__code__.co_firstlineno
    assert f"{HERE}:{line + 1} is left out" in first
    assert f"{HERE}:{line + 2} is left out" in second


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
    assert program.verify()


def test_the_users_module_stays_as_it_is() -> None:
    lowered = jax.jit(rooted).lower(X)
    before = lowered.as_text(debug_info=True)
    translate(lowered)
    assert lowered.as_text(debug_info=True) == before


def test_the_option_is_checked() -> None:
    with pytest.raises(UsageError, match="callbacks='drop' is not one of drop-checks"):
        translate(rooted, X, callbacks="drop")

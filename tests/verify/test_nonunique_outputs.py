"""Verification of results that are not unique, such as vectors, and of outputs that use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import onnx_ir as oir
import pytest
from jax.lax import linalg
from mostly_wide import mostly_wide

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.nonunique_outputs import Choices
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Candidate
from hlo2onnx.verify.settings import Settings

Function = Callable[..., Any]

N = 4
RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(N, N)).astype(np.float32)
HERMITIAN = SQUARE + SQUARE.T
COMPLEX = (SQUARE + 1j * SQUARE[::-1]).astype(np.complex64)
REPEATED = np.kron(np.eye(2), [[2, 1], [1, 2]]).astype(np.float32)


@jax.jit
def vectors(a: jax.Array) -> jax.Array:
    return jnp.linalg.eigh(a)[1]


def loop(a: jax.Array) -> jax.Array:
    def step(_: Any, x: jax.Array) -> jax.Array:
        return jnp.diag(jnp.arange(1.0, N + 1, dtype=x.dtype)) + 0.1 * vectors(x)

    return jax.lax.fori_loop(0, 2, step, a)


QUICK = ("eigh, repeated", "svd, tall")


def of_programs(*without: str) -> list[Any]:
    """Names of programs; most are tested in the wide suite alone."""
    return mostly_wide((name for name in PROGRAMS if name not in without), QUICK)


PROGRAMS: dict[str, tuple[Function, np.ndarray]] = {
    "eigh": (jnp.linalg.eigh, HERMITIAN),
    "eigh, upper": (lambda a: linalg.eigh(a, lower=False, symmetrize_input=False), HERMITIAN),
    "eigh, complex": (jnp.linalg.eigh, COMPLEX + COMPLEX.conj().T),
    "eigh, repeated": (jnp.linalg.eigh, REPEATED),
    "eigh, identity": (vectors, np.eye(N, dtype=np.float32)),
    "eigh, batch": (vectors, np.stack([HERMITIAN, REPEATED])),
    "rows, scaled": (lambda a: -2 * vectors(a).T.astype(jnp.float32)[::-1], HERMITIAN),
    "two vectors": (lambda a: vectors(a)[:, -2:], HERMITIAN),
    "svd": (jnp.linalg.svd, SQUARE),
    "svd, tall": (jnp.linalg.svd, SQUARE[:, :2]),
    "svd, rank one": (jnp.linalg.svd, np.ones((N, 3), np.float32)),
    "left alone": (lambda a: jnp.linalg.svd(a, full_matrices=False)[0], SQUARE[:, :3]),
    "right alone": (lambda a: jnp.linalg.svd(a, full_matrices=False)[2], SQUARE[:, :3]),
    "eig": (jnp.linalg.eig, SQUARE),
    "eig, complex": (linalg.eig, COMPLEX),
    "schur": (jsl.schur, SQUARE),
    "schur, complex": (jsl.schur, COMPLEX),
}
VECTORS = {"eigh": 1, "eigh, upper": 0, "eigh, complex": 1, "eigh, repeated": 1, "eig": 1}
VECTORS |= {"eig, complex": 2, "schur": 1, "schur, complex": 1}
"""The output that holds vectors, if not the first."""
ROWS = {"rows, scaled", "right alone"}


class _Program:
    """A program in XLA, and its judge."""

    def __init__(self, function: Function, a: np.ndarray) -> None:
        source = load(jax.jit(function).lower(a), (), {}, None)
        self.outputs = source.signature.outputs
        reference = Reference(source)
        self.expected = reference([a])
        self.choices = Choices(reference.at([a]), [a], self.outputs, self.expected)

    def judged(self, actual: list[np.ndarray]) -> list[Comparison]:
        """What is said of outputs."""
        triples = zip(self.outputs, actual, self.expected, strict=True)
        found = [compare(port.name, got, want) for port, got, want in triples]
        return self.choices.judged(found, actual)


@cache
def _program(name: str) -> _Program:
    return _Program(*PROGRAMS[name])


def _changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> list[Comparison]:
    """What is said where the vectors, as columns, are changed."""
    program, place = _program(name), VECTORS.get(name, 0)
    actual = list(program.expected)
    columns = actual[place].T if name in ROWS else actual[place]
    columns = change(columns.copy())
    actual[place] = columns.T if name in ROWS else columns
    return program.judged(actual)


def other_sign(v: np.ndarray) -> np.ndarray:
    v[..., -1] *= -1
    return v


def wrong_element(v: np.ndarray) -> np.ndarray:
    v[..., 1, -1] += 1e-3
    return v


def swapped(v: np.ndarray) -> np.ndarray:
    return v[..., [-1, *range(1, v.shape[-1] - 1), 0]]


def too_long(v: np.ndarray) -> np.ndarray:
    v[..., -1] *= 1.001
    return v


def not_a_number(v: np.ndarray) -> np.ndarray:
    v[..., -1] = np.nan
    return v


SIGN_IS_SHARED = {"svd", "svd, rank one", "schur", "schur, complex", "eig", "eig, complex"}
"""With other outputs, or between the two of a pair."""


@pytest.mark.parametrize("name", of_programs(*SIGN_IS_SHARED))
def test_another_sign_passes(name: str) -> None:
    assert all(item.ok for item in _changed(name, other_sign))


@pytest.mark.wide
@pytest.mark.parametrize("change", [wrong_element, swapped, too_long, not_a_number])
@pytest.mark.parametrize("name", of_programs())
def test_wrong_vectors_differ(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    if change is swapped and name == "eigh, identity":
        pytest.skip("any order is right")
    bad = [item for item in _changed(name, change) if not item.ok]
    assert bad
    assert not any(item.unjudged for item in bad)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["eigh, complex", "eig, complex"])
def test_another_phase_passes(name: str) -> None:
    def turned(v: np.ndarray) -> np.ndarray:
        v[..., 0] *= np.complex64(np.exp(1j))
        return v

    assert all(item.ok for item in _changed(name, turned))


def test_another_basis_of_a_space_of_equal_eigenvalues_passes() -> None:
    def turned(v: np.ndarray) -> np.ndarray:
        cosine, sine = np.cos(1), np.sin(1)
        turn = np.array([[cosine, sine], [-sine, cosine]], np.float32)
        v[:, :2], v[:, 2:] = v[:, :2] @ turn, v[:, 2:] @ turn.T
        return v

    assert all(item.ok for item in _changed("eigh, repeated", turned))

    def turned_too_far(v: np.ndarray) -> np.ndarray:
        return v @ np.kron(np.eye(2), turned(np.eye(4, dtype=np.float32))[:2, :2])[[0, 2, 1, 3]]

    assert not all(item.ok for item in _changed("eigh, repeated", turned_too_far))


@pytest.mark.wide
def test_left_and_right_vectors_share_their_signs() -> None:
    program = _program("svd")
    u, s, vh = (x.copy() for x in program.expected)
    u[:, 1] *= -1
    assert not all(item.ok for item in program.judged([u, s, vh]))
    vh[1] *= -1
    assert all(item.ok for item in program.judged([u, s, vh]))


@pytest.mark.wide
def test_schur_vectors_share_their_signs_with_the_form() -> None:
    program = _program("schur")
    t, z = (x.copy() for x in program.expected)
    t[0, 1:] *= -1
    t[1:, 0] *= -1
    assert not all(item.ok for item in program.judged([t, z]))
    z[:, 0] *= -1
    assert all(item.ok for item in program.judged([t, z]))


@pytest.mark.wide
def test_eigenvalues_may_come_in_another_order() -> None:
    program = _program("eig, complex")
    w, left, right = program.expected
    order = [2, 0, 3, 1]
    other = [w[order], left[:, order], right[:, order]]
    assert all(item.ok for item in program.judged(other))
    assert not all(item.ok for item in program.judged([w[order], left, right]))
    assert not all(item.ok for item in program.judged([w[order], left[:, order], right]))


# -- computed from vectors ------------------------------------------------------------------------


def projected(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    v = vectors(a)
    return v, a @ v


@pytest.mark.wide
def test_what_is_computed_follows_the_vectors_that_are_outputs() -> None:
    program = _Program(projected, HERMITIAN)
    v, product = (x.copy() for x in program.expected)
    v[:, 2] *= -1
    bad = program.judged([v, product])
    assert [item.ok for item in bad] == [True, False]
    product[:, 2] *= -1
    assert all(item.ok for item in program.judged([v, product]))


@pytest.mark.wide
def test_what_depends_on_signs_cannot_be_judged() -> None:
    program = _Program(lambda a: a @ vectors(a), HERMITIAN)
    other = -program.expected[0]
    signs = [np.float32([1, -1, 1, 1]), np.float32([-1, 1, 1, 1])]
    found = [program.judged([other * sign])[0] for sign in signs]
    assert not all(item.ok for item in found)
    assert all(item.ok or "signs" in item.unjudged for item in found)
    assert not program.judged([other * 10])[0].unjudged


@pytest.mark.wide
def test_samples_that_cannot_be_judged_are_no_evidence() -> None:
    """After two samples that differ, the others are only compared with XLA's choice."""

    def function(a: jax.Array, signs: np.ndarray) -> jax.Array:
        return a @ (vectors(a + a.T) * signs)

    signs = np.float32([1, -1, 1, 1])
    program, other = (
        hlo2onnx.translate(jax.jit(partial(function, signs=each)).lower(SQUARE))
        for each in (np.ones_like(signs), signs)
    )
    judge = Judge(program._source, None, Settings(samples=3))
    found = judge(Candidate(other.model_proto.SerializeToString(), other.input_names))
    assert not found.ok
    assert not found.differing


@pytest.mark.wide
def test_eigenvalues_do_not_tell_the_signs_of_vectors() -> None:
    def function(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        w, v = jnp.linalg.eig(a)
        return w, (a @ v).real

    program = _Program(function, SQUARE)
    w, product = program.expected
    found = program.judged([w, product * np.float32([1, -1, 1, -1])])
    assert not all(item.ok for item in found)
    assert all(item.ok or item.unjudged for item in found)


@pytest.mark.wide
def test_what_does_not_depend_on_signs_is_judged() -> None:
    def function(a: jax.Array) -> jax.Array:
        w, v = jnp.linalg.eigh(a)
        return (v * jnp.exp(w)) @ v.T

    program = _Program(function, HERMITIAN)
    wrong = program.expected[0].copy()
    wrong[1, 2] += 1e-2
    [found] = program.judged([wrong])
    assert not found.ok
    assert not found.unjudged


# -- whole programs -------------------------------------------------------------------------------


@pytest.mark.wide
def test_a_model_with_other_signs_or_wrong_vectors() -> None:
    def appended(op_type: str, constant: np.ndarray) -> hlo2onnx.Verification:
        program = hlo2onnx.translate(jax.jit(vectors).lower(HERMITIAN))
        graph = program.model.graph
        [old] = graph.outputs
        tensor = oir.tensor(constant, name="constant")
        initializer = oir.Value(name="constant", const_value=tensor, shape=oir.Shape(tensor.shape))
        initializer.dtype = tensor.dtype
        graph.register_initializer(initializer)
        inputs = [old, initializer]
        attributes = [oir.AttrInt64("axis", 1)] if op_type == "Gather" else []
        node = oir.Node("", op_type, inputs, attributes, num_outputs=1)
        node.outputs[0].name, old.name = old.name, "inner"
        node.outputs[0].shape, node.outputs[0].type = old.shape, old.type
        graph.append(node)
        graph.outputs[0] = node.outputs[0]
        return program.verify(HERMITIAN)

    assert appended("Mul", np.float32([1, -1, 1, -1])).ok
    swap = appended("Gather", np.int64([1, 0, 2, 3]))
    assert not swap.ok
    assert "DIFFERS" in str(swap)


@pytest.mark.wide
@pytest.mark.parametrize("function", [loop, lambda a: vectors(vectors(a) @ a @ a.T)])
def test_the_choice_in_a_loop_and_of_another_choice(function: Function) -> None:
    found = hlo2onnx.translate(jax.jit(function).lower(HERMITIAN)).verify(HERMITIAN)
    assert found.ok, found

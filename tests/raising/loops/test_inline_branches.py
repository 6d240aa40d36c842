"""Branches with known conditions, and loops with known trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules import RULES
from hlo2onnx.raising.rules.loops.inline_branches import InlineBranch
from hlo2onnx.runtime.adapters.installed import Name
from hlo2onnx.targets import load_target
from tools.fuzzing.structure import known_conditions
from tools.probe.environments import start
from tools.probe.flag_trials import has_flag

RNG = np.random.default_rng(0)
X = np.arange(-1, 3, dtype=np.float32)
W = RNG.normal(size=(8, 8)).astype(np.float32)
TRUE, FALSE = np.array(True), np.array(False)
FLOAT = oir.DataType.FLOAT


# -- single graphs -----------------------------------------------------------------------------


def either(b: GraphBuilder, condition: oir.Value, *branches: Callable[[], oir.Value]) -> oir.Value:
    """If of two branches."""
    graphs = []
    for make in branches:
        with b.subgraph([], "branch") as graph:
            graph.outputs.append(make())
        graphs.append(graph)
    return b.op("If", condition, then_branch=graphs[0], else_branch=graphs[1])


CONDITIONS: dict[str, Callable[[GraphBuilder, oir.Value], tuple[oir.Value, bool]]] = {
    "constant": lambda b, n: (b.const(FALSE), False),
    "copy": lambda b, n: (b.Identity(b.const(TRUE)), True),
    "not": lambda b, n: (b.Not(b.const(TRUE)), False),
    "comparison": lambda b, n: (b.Less(b.i64(3), b.i64(2)), False),
    "range": lambda b, n: (b.Less(b.Min(n, b.i64(4)), b.i64(5)), True),
    "and": lambda b, n: (b.And(b.Less(n, b.i64(5)), b.Less(b.Max(n, b.i64(9)), b.i64(9))), False),
    "or": lambda b, n: (b.Or(b.Less(n, b.i64(5)), b.Less(b.Min(n, b.i64(4)), b.i64(5))), True),
    "cast": lambda b, n: (b.cast(b.Max(n, b.i64(1)), oir.DataType.BOOL), True),
    "of-floats": lambda b, n: (
        b.Greater(b.Exp(b.const(np.float32(1))), b.const(np.float32(3))),
        False,
    ),
    "sum": lambda b, n: (
        b.Greater(b.ReduceSum(b.Mul(b.const(W), b.const(W)), keepdims=0), b.const(np.float32(1))),
        True,
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_one_branch_is_left(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, n: oir.Value) -> oir.Value:
        condition, taken = CONDITIONS[name](b, n)
        branches = (lambda: b.Neg(b.Abs(x)), lambda: b.Exp(x))
        return either(b, condition, *(branches if taken else branches[::-1]))

    run = Rewrite(build, {"x": X, "n": np.array(7)}, InlineBranch())
    assert run.fired and run.nodes["Neg"] == run.nodes["Abs"] == 1 and not run.nodes["If"]
    assert not run.nodes["Exp"]


UNKNOWN: dict[str, Callable[[GraphBuilder, oir.Value], oir.Value]] = {
    "input": lambda b, n: b.Less(n, b.i64(5)),
    "range-overlaps": lambda b, n: b.Less(b.Min(n, b.i64(4)), b.i64(4)),
    "and": lambda b, n: b.And(b.Less(n, b.i64(5)), b.const(TRUE)),
    "or": lambda b, n: b.Or(b.Less(n, b.i64(5)), b.const(FALSE)),
    "cast": lambda b, n: b.cast(b.Max(n, b.i64(0)), oir.DataType.BOOL),
    "random": lambda b, n: b.Less(
        b.op("RandomUniform", shape=[], dtype=1, types=[(FLOAT, ())]), b.const(np.float32(2))
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_both_branches_stay(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, n: oir.Value) -> oir.Value:
        return either(b, UNKNOWN[name](b, n), lambda: b.Neg(x), lambda: b.Exp(x))

    Rewrite(build, {"x": X, "n": np.array(7)}, InlineBranch(), opset=21).nothing()


def test_names_and_sources_of_a_branch_stay() -> None:
    """An output keeps its name, the nodes keep theirs, and nothing of the other branch is left."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        def then() -> oir.Value:
            b.scope, b.metadata = "branch/neg", {"jax.source": "model.py:3"}
            return b.Neg(x)

        made = either(b, b.const(TRUE), then, lambda: b.Add(x, b.const(np.float32(8))))
        made.name = "result"
        return made

    run = Rewrite(build, {"x": X}, InlineBranch())
    (node,) = run.model.graph
    assert (node.name, node.metadata_props["jax.source"]) == ("branch/neg", "model.py:3")
    assert run.model.graph.outputs[0].name == node.outputs[0].name == "result"
    assert not run.model.graph.initializers


@pytest.mark.parametrize("known", ["branch", "result"])
def test_the_shape_that_is_known(known: str) -> None:
    """Of the branch, or of what the whole If gives."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        given = x if known == "branch" else free(b, x, "k")
        made = either(b, b.const(TRUE), lambda: b.Neg(given), lambda: b.Abs(given))
        made.shape = oir.Shape([oir.SymbolicDim("k") if known == "branch" else 4])
        return made

    run = Rewrite(build, {"x": X}, InlineBranch())
    assert run.nodes["Neg"] == 1
    assert run.model.graph.outputs[0].shape == (4,)


# -- whole programs ----------------------------------------------------------------------------

FLIPS = [lambda c, i=i: lax.cond(c[0] > i, lambda c: c + i, lambda c: c - i, c) for i in range(7)]


@jax.jit
def nested(x: jax.Array, k: Any) -> jax.Array:
    """Three branches in each other, two of which follow from k."""
    inner = lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)  # noqa: E731
    middle = lambda x: lax.cond(k > 1, inner, jnp.tan, x)  # noqa: E731
    return lax.cond(k > 2, middle, jnp.exp, x)


def beside(f: Callable[[jax.Array], Any]) -> Callable[[jax.Array, jax.Array], Any]:
    """f in one of two branches."""
    return lambda x, a: lax.cond(a > 1, jnp.negative, f, x)


PROGRAMS: dict[str, Callable[[jax.Array, jax.Array], Any]] = {
    "clipped-switch": lambda x, a: lax.switch(jnp.clip(a, 1, 3), FLIPS, x),
    "clipped-below": lambda x, a: lax.switch(jnp.maximum(a, 5), FLIPS, x),
    "clipped-above": lambda x, a: lax.switch(jnp.minimum(a, -2), FLIPS, x),
    "remainder": lambda x, a: lax.switch(jnp.abs(a) % 3, FLIPS, x),
    "masked": lambda x, a: lax.switch(a & 1, FLIPS, x),
    "number": lambda x, a: lax.switch(5, FLIPS, x) * a,
    "constant": lambda x, a: beside(lambda x: nested(x, 3))(x, a),
    "of-a-product": lambda x, a: beside(lambda x: nested(x, jnp.dot(W, W)[0, 0] + 1e3))(x, a),
    "of-an-index": lambda x, a: beside(lambda x: nested(x, jnp.argmax(W[1]) + 10))(x, a),
    "of-a-sum": lambda x, a: beside(lambda x: nested(x, jnp.sum(jnp.asarray(W) ** 2)))(x, a),
    "of-a-norm": lambda x, a: beside(lambda x: nested(x, jnp.linalg.norm(W)))(x, a),
    "in-a-scan": lambda x, a: lax.scan(
        lambda c, i: (lax.switch(jnp.clip(i, 2, 4), FLIPS, c), c), x, a + jnp.arange(3)
    ),
    "in-a-while": lambda x, a: lax.while_loop(
        lambda s: s[0] < 4, lambda s: (s[0] + 1, lax.switch(s[0] % 2, FLIPS, s[1])), (a, x)
    ),
    "by-the-trip": lambda x, a: lax.fori_loop(
        0, 3, lambda i, c: lax.cond(i < 5, FLIPS[2], FLIPS[3], c), x * a
    ),
    "of-trips": lambda x, a: lax.switch(
        jnp.clip(a, 0, 2),
        [lambda x, k=k: lax.fori_loop(0, k, lambda i, c: c * 2 + i, x) for k in range(4)],
        x,
    ),
    "switch-of-switches": lambda x, a: lax.switch(
        jnp.clip(a, 1, 2),
        [lambda x, k=k: lax.switch(jnp.clip(a + 1, k, 3), FLIPS, x) for k in range(4)],
        x,
    ),
}


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no-inlining": {"without": frozenset({"inline-branch"})},
    "no-rule": {"without": frozenset(rule.name for rule in RULES)},
    "functions": {"functions": "keep"},
    "functions-no-rule": {
        "without": frozenset(rule.name for rule in RULES),
        "functions": "keep",
    },
}
FEW = ("clipped-switch", "constant", "of-a-product", "of-an-index")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "options"),
    [(name, "plain") for name in PROGRAMS] + [(name, k) for name in FEW for k in list(OPTIONS)[1:]],
)
def test_no_condition_is_known(name: str, options: str) -> None:
    """ONNX Runtime would know it when it loads the model, and its process would end."""
    function = jax.jit(PROGRAMS[name])
    program = hlo2onnx.translate(function.lower(X, np.int32(0)), **OPTIONS[options])
    assert not known_conditions(program.model_proto)
    for a in (-3, 0, 1, 2, 6):
        got, want = program(X, np.int32(a)), function(X, np.int32(a))
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "loops"), [("of-a-sum", 0), ("of-a-product", 2)])
@pytest.mark.parametrize("options", ["plain", "no-inlining"])
def test_only_conditions_that_are_not_computed_are_concealed(
    name: str, loops: int, options: str
) -> None:
    lowered = jax.jit(PROGRAMS[name]).lower(X, np.int32(0))
    nodes = hlo2onnx.translate(lowered, **OPTIONS[options]).report.nodes
    assert nodes["Loop"] == loops and nodes["If"] == 2 + loops


def test_dead_branches_are_left_out() -> None:
    """Only three of seven branches are in the model."""
    program = hlo2onnx.translate(jax.jit(PROGRAMS["clipped-switch"]).lower(X, np.int32(0)))
    assert program.report.nodes["If"] == 2 + 3
    program = hlo2onnx.translate(jax.jit(PROGRAMS["clipped-below"]).lower(X, np.int32(0)))
    assert program.report.nodes["If"] == 1 + 2


def test_the_target_knows_what_the_runtime_does() -> None:
    with start(Name("ort-cpu")) as runtime:
        found = has_flag(runtime, "inlines_branches")
    assert found == load_target("ort-cpu").flags.inlines_branches

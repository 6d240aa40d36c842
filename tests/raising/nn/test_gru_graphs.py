"""Single GRU cells, spelled in many ways, and loops that differ from them in one node."""

from __future__ import annotations

from typing import Any

import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, number
from recurrent_graphs import BIAS, WIDTH, R, W, cut, run

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.rnn import Gru

Value = oir.Value


def less(b: GraphBuilder, x: Value, of: float = 1) -> Value:
    made: Value = b.Sub(number(b, of), x)
    return made


MIXED: dict[str, tuple[Any, bool]] = {
    "plain": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, h)), True),
    "turned": (lambda b, z, n, h: b.Add(b.Mul(h, z), b.Mul(n, less(b, z))), True),
    "opposite": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), h), b.Mul(z, n)), True),
    "opposite-turned": (lambda b, z, n, h: b.Add(b.Mul(n, z), b.Mul(h, less(b, z))), True),
    "step": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(h, n))), True),
    "step-turned": (lambda b, z, n, h: b.Add(b.Mul(b.Sub(h, n), z), n), True),
    "step-from-the-state": (lambda b, z, n, h: b.Add(h, b.Mul(z, b.Sub(n, h))), True),
    "of-two": (lambda b, z, n, h: b.Add(b.Mul(less(b, z, 2), n), b.Mul(z, h)), False),
    "another-gate": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, b.Relu(z)), n), b.Mul(b.Abs(z), h)), False
    ),
    "opposite-of-another": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, b.Abs(z)), h), b.Mul(b.Relu(z), n)), False
    ),
    "no-state": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, b.Neg(h))), False),
    "opposite-no-state": (
        lambda b, z, n, h: b.Add(b.Mul(less(b, z), b.Neg(h)), b.Mul(z, n)), False
    ),
    "step-of-another": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(h, b.Abs(n)))), False),
    "step-no-state": (lambda b, z, n, h: b.Add(n, b.Mul(z, b.Sub(b.Abs(h), n))), False),
    "step-back": (lambda b, z, n, h: b.Add(h, b.Mul(z, b.Sub(h, n))), False),
    "step-from-neither": (lambda b, z, n, h: b.Add(b.Abs(h), b.Mul(z, b.Sub(n, h))), False),
    "difference": (lambda b, z, n, h: b.Sub(b.Mul(less(b, z), n), b.Mul(z, h)), False),
    "of-the-candidate-alone": (lambda b, z, n, h: b.Add(b.Mul(less(b, z), n), b.Mul(z, n)), False),
}  # fmt: skip

CANDIDATES: dict[str, tuple[Any, bool]] = {
    "after": (lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.MatMul(h, m))), True),
    "after-turned": (lambda b, x, r, h, m: b.Add(b.Mul(b.MatMul(h, m), r), x), True),
    "after-with-a-bias": (
        lambda b, x, r, h, m: b.Add(
            x, b.Mul(r, b.Add(b.MatMul(h, m), b.const(BIAS[:WIDTH].copy())))
        ),
        True,
    ),
    "before": (lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(r, h), m)), True),
    "before-turned": (lambda b, x, r, h, m: b.Add(b.MatMul(b.Mul(h, r), m), x), True),
    "subtracted": (lambda b, x, r, h, m: b.Sub(x, b.Mul(r, b.MatMul(h, m))), False),
    "subtracted-before": (lambda b, x, r, h, m: b.Sub(x, b.MatMul(b.Mul(r, h), m)), True),
    "no-gate": (lambda b, x, r, h, m: b.Add(x, b.MatMul(h, m)), False),
    "another-gate": (lambda b, x, r, h, m: b.Add(x, b.Mul(b.Abs(r), b.MatMul(h, m))), False),
    "another-gate-before": (
        lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(b.Abs(r), h), m)), False
    ),
    "of-another-state": (lambda b, x, r, h, m: b.Add(x, b.MatMul(b.Mul(r, b.Abs(h)), m)), False),
    "inputs-scaled": (
        lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.Add(b.MatMul(h, m), x))), False
    ),
    "two-products": (
        lambda b, x, r, h, m: b.Add(x, b.Mul(r, b.Add(b.MatMul(h, m), b.MatMul(h, m)))), False
    ),
}  # fmt: skip


def gru(mix: Any, candidate: Any, tanh: str = "Tanh", sigmoid: Any = None) -> LoopRewrite:
    def step(b: GraphBuilder, x: Value, h: Value) -> Any:
        w, r = (b.const(m[:, : 2 * WIDTH].copy()) for m in (W, R))
        act = sigmoid or (lambda b, x: b.Sigmoid(x))
        both = act(b, b.Add(b.MatMul(x, w), b.MatMul(h, r)))
        given = b.MatMul(x, b.const(W[:, -WIDTH:].copy()))
        new = candidate(b, given, cut(b, both, 1), h, b.const(R[:, -WIDTH:].copy()))
        after = mix(b, cut(b, both, 0), b.op(tanh, new), h)
        return [after], [after]

    return run(lambda b, x, h: step(b, x, h), Gru(), 1)


@pytest.mark.parametrize("name", MIXED)
def test_mixtures(name: str) -> None:
    mix, fires = MIXED[name]
    assert gru(mix, CANDIDATES["after"][0]).nodes["GRU"] == fires


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates(name: str) -> None:
    candidate, fires = CANDIDATES[name]
    found = gru(MIXED["plain"][0], candidate)
    assert found.nodes["GRU"] == fires
    for node in found.model.graph:
        if node.op_type == "GRU":
            after = node.attributes.get_int("linear_before_reset", 0)
            assert after == (not name.startswith(("before", "subtracted-before")))


def test_other_activations_are_no_gru() -> None:
    assert not gru(MIXED["plain"][0], CANDIDATES["after"][0], tanh="Relu").fired
    hard = lambda b, x: b.HardSigmoid(x)  # noqa: E731
    assert not gru(MIXED["plain"][0], CANDIDATES["after"][0], sigmoid=hard).fired

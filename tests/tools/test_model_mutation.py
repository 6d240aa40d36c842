"""tools.model_mutation: the changes of models, and the verdicts on them."""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import hlo2onnx
from tools.model_mutation.graphs import graph_at, scopes_of
from tools.model_mutation.inputs import FLOATS, INTEGERS, WHOLE_RANGE, draws_of
from tools.model_mutation.mutant import Mutant, ordered
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.results import Result, described, page, share, table
from tools.model_mutation.trial import Trials

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def details(text: str, operator: str) -> set[str]:
    return {mutant.detail for mutant in mutants_of(model_of(text)) if mutant.operator == operator}


CLIP = """
m (float[3] x, float[3] y) => (float[3] z)
  <float low = {-1.0}, float high = {6.0}> {
  a = Clip(x, low, high)
  b = Sub(a, y)
  z = Abs(b)
}
"""

LOOP = """
m (float[2] x, float[2] y, bool go) => (float[2] u, float[2] v)
  <int64 trips = {4}> {
  u, v = Loop(trips, go, x, y) <body = body (int64 i, bool c, float[2] s, float[2] t)
    => (bool d, float[2] p, float[2] q) {
      d = Identity(c)
      p = Sub(s, t)
      q = Relu(t)
  }>
}
"""

BRANCH = """
m (float[2] x, bool c) => (float[2] z) {
  z = If(c) <then_branch = t () => (float[2] p) { p = Sin(x) },
             else_branch = e () => (float[2] q) { q = Neg(x) }>
}
"""


@pytest.mark.parametrize(
    ("text", "operator", "expected"),
    [
        (CLIP, "operands swapped", {"operands 1 and 2 swapped", "operands 0 and 1 swapped"}),
        (
            CLIP,
            "guard bypassed",
            {
                "Clip -> operand 0",
                "Abs -> operand 0",
                "limit 1 of Clip dropped",
                "limit 2 of Clip dropped",
            },
        ),
        (CLIP, "constant, all: sign", {"all of float32[]: sign"}),
        (LOOP, "trip count", {"+1 trip", "-1 trip"}),
        (LOOP, "initial state", {"state 0: zeros", "state 1: zeros", "states 0 and 1 swapped"}),
        (LOOP, "state not updated", {"state 0 is not updated", "state 1 is not updated"}),
        (LOOP, "guard bypassed", {"Relu -> operand 0"}),
        (
            BRANCH,
            "branch changed",
            {"branches swapped", "always then_branch", "always else_branch"},
        ),
        (BRANCH, "operator changed", {"Sin -> Cos"}),
    ],
)
def test_changes(text: str, operator: str, expected: set[str]) -> None:
    assert details(text, operator) == expected


@pytest.mark.parametrize(
    ("node", "detail"),
    [
        ("z = ArgMax <axis = 0, keepdims = 0> (x)", "axis: 0 -> 1"),
        ("z = ArgMax <axis = 0, keepdims = 0> (x)", "keepdims: 0 -> 1"),
        ("z = ArgMax <axis = 0> (x)", "select_last_index: 0 -> 1"),
        ("z = Transpose <perm = [1, 0]> (x)", "perm: [1, 0] -> [0, 1]"),
        ("z = Gemm <transA = 1> (x, x)", "transA: 1 -> 0"),
        ("z = Gemm (x, x)", "transB: 0 -> 1"),
        ("z = CumSum <exclusive = 1> (x, x)", "reverse: 0 -> 1"),
        ("z = Pad (x, x)", "mode: constant -> edge"),
        ("z = LayerNormalization <epsilon = 0.5> (x, x)", "epsilon: 0.5 -> 5.0"),
        ("z = Cast <to = 6> (x)", "through UINT8"),
        ("z = Less (x, x)", "Less -> LessOrEqual"),
    ],
)
def test_changes_of_a_node(node: str, detail: str) -> None:
    model = model_of(f"m (float[2, 2] x) => (float[2, 2] z) {{ {node} }}")
    assert detail in {mutant.detail for mutant in mutants_of(model)}


def test_operands_are_rewired_to_values_of_the_same_type() -> None:
    text = """m (float[2] x, float[2] y, float[3] w, int64[2] i) => (float[2] z) {
      z = Neg(x)
      a = Sin(x)
    }"""
    assert details(text, "operand rewired") <= {"operand 0: x -> y", "operand 0: x -> z"}
    assert "operand 0: x -> y" in details(text, "operand rewired")


def test_changes_of_constants() -> None:
    text = "m (float[2] x) => (float[2] z) <float[2] w = {1.0, 0.0}> { z = Mul(x, w) }"
    model = model_of(text)
    (mutant,) = [m for m in mutants_of(model) if m.operator == "constant, all: sign"]
    changed = numpy_helper.to_array(mutant.apply(model).graph.initializer[0])
    assert changed.tolist() == [-1.0, 0.0]
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [1.0, 0.0]


def test_one_change_at_a_time() -> None:
    """Each mutant differs from its model, and the model stays."""
    model = model_of(LOOP)
    before = model.SerializeToString()
    for mutant in mutants_of(model):
        changed = mutant.apply(model)
        changed_graph, graph = (graph_at(m, mutant.path) for m in (changed, model))
        assert changed_graph.SerializeToString() != graph.SerializeToString(), mutant
    assert model.SerializeToString() == before


def test_bodies_see_outer_values() -> None:
    _, body = scopes_of(model_of(LOOP))
    assert body.path == ((0, "body"),)
    assert {"x", "y", "s", "t", "p"} <= set(body.visible(2))


def test_samples_take_operators_in_turn() -> None:
    mutants = mutants_of(model_of(CLIP))
    sample = ordered(mutants, seed=3)
    kinds = len({mutant.operator for mutant in mutants})
    assert len({mutant.operator for mutant in sample[:kinds]}) == kinds
    assert sorted(map(_text, sample)) == sorted(map(_text, mutants))
    assert list(map(_text, sample)) == list(map(_text, ordered(mutants, seed=3)))


def _text(mutant: Mutant) -> str:
    return f"{mutant.operator} {mutant.node} {mutant.detail}"


def test_draws_have_all_kinds_and_are_the_same_again() -> None:
    ports = [((3,), np.dtype(np.float32)), ((2, 2), np.dtype(np.int8)), ((), np.dtype(bool))]
    values = np.array([0.0, 7.5])
    found, again = (draws_of(ports, values, 60, seed=1) for _ in range(2))
    assert {draw.kinds[0] for draw in found} == set(FLOATS)
    assert {draw.kinds[1] for draw in found} == {*INTEGERS, *WHOLE_RANGE}
    for one, other in zip(found, again, strict=True):
        for (shape, dtype), x, y in zip(ports, one.arrays, other.arrays, strict=True):
            assert (x.shape, x.dtype) == (shape, dtype)
            assert x.tobytes() == y.tobytes()


def test_verdicts() -> None:
    """The mutants of a product that is cut off."""

    def function(x: jax.Array) -> jax.Array:
        return jnp.minimum(x * 2.0, 9.0)

    program = hlo2onnx.translate(jax.jit(function).lower(jax.ShapeDtypeStruct((4,), jnp.float32)))
    trials = Trials("function", program, seed=0, count=20)
    places = {(m.op, m.detail): place for place, m in enumerate(trials.mutants)}

    def status(op: str, detail: str) -> str:
        return trials.run(places[op, detail]).status

    assert status("constant of Mul", "all of float32[]: zero") == "caught"
    assert status("Min", "Min -> operand 0") in ("caught", "survived")
    assert status("Min", "Min -> Max") == "caught"


def result(status: str, operator: str = "guard bypassed") -> Result:
    return Result("kalman", operator, status, node="n", op="Clip", detail="d", inputs={"x": "7"})


def test_share_counts_distinguishable_mutants_only() -> None:
    found = [result("caught")] * 3 + [result("survived"), result("alike"), result("alike")]
    assert share(found) == 75.0
    assert "| all | 75.0 % | 3 | 1 | 2 | 0 |" in table(found, "model", "program")
    assert "x = 7" in described(found[3])


def test_page_names_survivors() -> None:
    given = argparse.Namespace(count=3, seed=0)
    text = page([result("caught"), result("survived")], given)
    assert "catches 50.0 % of 2 distinguishable mutants of 1 programs" in text
    assert "kalman: guard bypassed: Clip n" in text

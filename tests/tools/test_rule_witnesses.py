"""docs/rules.json: how often rules fire in the examples, and in which program each saves most."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import hlo2onnx
from hlo2onnx.ir.values import const_number
from hlo2onnx.raising.rules import RULES
from tools.rules import page
from tools.rules.measure import Measured, Saving, main, measure, node_runs
from tools.rules.record import Collection, Witness, examples, load, matters, measure_zoo
from tools.zoo.program import PROGRAMS, Program

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
QUICK = ("cnn", "gru", "knn", "lax_map_batched", "mlp", "segments", "switch")


@pytest.mark.parametrize("name", QUICK)
def test_rules_fire_as_often_as_the_record_says(name: str) -> None:
    """A change that makes a rule fire more or less often updates the record on purpose."""
    found = measure(examples()[name], ()).fired
    assert found == load()["examples"].fired[name], "python -m tools.rules --witnesses"


def test_the_record_is_about_these_examples_and_rules() -> None:
    known, names = load(), {rule.name for rule in RULES}
    assert known["examples"].fired.keys() == examples().keys()
    for item in known.values():
        assert {rule for fired in item.fired.values() for rule in fired} <= names
        for rule, witness in item.witnesses.items():
            assert item.fired[witness.program][rule] > 0


def test_every_rule_that_fires_in_an_example_was_switched_off_there() -> None:
    item = load()["examples"]
    assert {rule for fired in item.fired.values() for rule in fired} == item.witnesses.keys()


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_every_rule_has_a_witness(rule: str) -> None:
    """A rule that saves nothing in any real program is deleted, or such a program is added."""
    found = page.witness_of(rule, load())
    assert found is not None and matters(found[1])


def softmax(x: Array) -> Array:
    return jax.nn.softmax(x) * 3


def test_what_a_rule_saves() -> None:
    found = measure(jax.jit(softmax).lower(X), ["softmax", "relu"])
    assert (found.nodes, found.fired["softmax"]) == (2, 1)
    assert found.saved == {"softmax": Saving(8, 8)}  # also the guard of its maximum against NaN


@pytest.mark.parametrize("without", ["", "loop-to-scan"], ids=["Scan", "Loop"])
def test_node_runs_count_trips(without: str) -> None:
    def function(x: Array) -> Array:
        return lax.scan(lambda h, row: (jnp.sin(h) * row, h), x[0], jnp.tile(x, (8, 1)))[1]

    program = hlo2onnx.translate(function, X, without=[without] if without else [])
    graph = program.model.graph
    (loop,) = (node for node in graph if node.op_type == ("Loop" if without else "Scan"))
    body = loop.attributes["body"].as_graph()
    assert len(body) > 1 and node_runs(program) == len(graph) + 24 * len(body)


@pytest.mark.parametrize("limit", [1000, None])
def test_node_runs_count_the_trips_until_a_condition_fails(limit: int | None) -> None:
    def function(x: Array, eps: Array) -> Array:
        def is_large(state: tuple[Array, Array]) -> Array:
            far = jnp.max(jnp.abs(state[1])) > eps
            return far if limit is None else far & (state[0] < limit)

        return lax.while_loop(is_large, lambda state: (state[0] + 1, state[1] / 2), (0, x))[1]

    program = hlo2onnx.translate(function, X, np.float32(0.1))
    graph = program.model.graph
    (loop,) = (node for node in graph if node.op_type == "Loop")
    assert const_number(loop.inputs[0]) == limit
    body = loop.attributes["body"].as_graph()
    assert len(body) > 1
    for eps, trips in ((0.9, 1), (0.1, 4), (2.0, 0)):  # of 1, 1/2, 1/4, 1/8, 1/16
        args = (X, np.float32(eps))
        assert node_runs(program, args) == len(graph) + trips * len(body)


def test_the_witness_is_where_a_rule_saves_most() -> None:
    found = Collection()
    found.add("a", Measured(9, {"relu": 1}, {"relu": Saving(1, 9)}))
    found.add("b", Measured(9, {"relu": 2}, {"relu": Saving(2, 2)}))
    found.add("c", Measured(9, {"relu": 3}, {"relu": Saving(2, 1)}))
    assert found.witnesses == {"relu": Witness(2, 2, program="b")}
    found.add("b", Measured(9, {"selu": 1}, {"selu": Saving(-1, -1)}))
    assert found.fired["b"] == {"selu": 1} and "relu" not in found.witnesses
    assert not matters(found.witnesses["selu"]) and not matters(None)
    found.add("c", Measured(9, {"selu": 3}, {"selu": Saving(-7, 1)}))
    assert found.witnesses["selu"] == Witness(-7, 1, program="c") and matters(
        found.witnesses["selu"]
    )


def test_the_page_names_an_example_before_the_zoo() -> None:
    relu, selu = Witness(1, 1, program="a"), Witness(5, 5, program="z")
    known = {"examples": Collection("", {}, {"relu": relu}), "zoo": Collection("", {}, {})}
    assert page.witness_of("relu", known) == ("examples", relu)
    known["zoo"].witnesses.update(relu=selu, selu=selu)
    assert page.witness_of("relu", known) == ("examples", relu)
    assert page.witness_of("selu", known) == ("zoo", selu)
    assert page.witness_of("softmax", known) is None
    known["examples"].witnesses["relu"] = Witness(0, -1, program="a")
    assert page.witness_of("relu", known) == ("zoo", selu)


def test_programs_of_the_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that runs in the environment of the packages."""
    monkeypatch.setitem(PROGRAMS, "mine", Program("mine", "jax", lambda: (softmax, (X,))))
    path = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["", "mine", str(path), "softmax"])
    main()
    found: dict[str, Any] = json.loads(path.read_text())
    assert (found["fired"]["softmax"], found["saved"]) == (1, {"softmax": asdict(Saving(8, 8))})
    with pytest.raises(KeyError):
        next(measure_zoo(Collection(), Path(sys.executable), Collection(), ["nothing of the kind"]))

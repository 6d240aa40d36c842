"""Rules visit the nodes near a change again, and all nodes at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.replace import replace
from hlo2onnx.raising import changes as changes_module
from hlo2onnx.raising import raise_model
from hlo2onnx.raising.changes import HOPS, Changes
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target

X = {"x": np.ones(4, np.float32)}
LENGTH = 12


def chain(b: Any, x: oir.Value) -> oir.Value:
    for _ in range(LENGTH):
        x = b.Sin(x)
    return x


def replaced(model: oir.Model, node: oir.Node, op_type: str) -> None:
    b = Rewriter(model, load_target("ort-cpu"))
    with b.before(node):
        replace(node, [b.op(op_type, *node.inputs)])


def test_all_nodes_are_new_at_first() -> None:
    model = model_of(chain, X)
    assert Changes(model.graph).near(0) == list(model.graph)


def test_no_node_changed() -> None:
    model = model_of(chain, X)
    changes = Changes(model.graph)
    changes.update()
    assert changes.near(1) == []


def test_nodes_near_a_change_in_the_order_of_the_graph() -> None:
    model = model_of(chain, X)
    changes = Changes(model.graph)
    replaced(model, model.graph[6], "Cos")
    changes.update()
    # The new node and its reader have changed.
    assert changes.near(1) == list(model.graph)[6 - HOPS : 8 + HOPS]


def test_a_reader_less_is_a_change() -> None:
    def read_twice(b: Any, x: oir.Value) -> oir.Value:
        last = chain(b, x)
        b.Neg(last)
        return b.Cos(last)

    model = model_of(read_twice, X)
    changes = Changes(model.graph)
    model.graph.remove(next(x for x in model.graph if x.op_type == "Neg"), safe=True)
    changes.update()
    assert model.graph[LENGTH - 1] in changes.near(1)
    assert model.graph[0] not in changes.near(1)


def test_a_change_in_a_body_is_near_its_loop() -> None:
    def build(b: Any, x: oir.Value) -> oir.Value:
        trip = b.value("trip", oir.DataType.INT64, ())
        going = b.value("going", oir.DataType.BOOL, ())
        state = b.value("state", oir.DataType.FLOAT, (4,))
        with b.subgraph([trip, going, state], "body") as body:
            body.outputs.extend([b.Identity(going), b.Sin(state)])
        return b.Loop(b.i64(3), None, chain(b, x), body=body, types=[(oir.DataType.FLOAT, (4,))])

    model = model_of(build, X)
    loop = next(node for node in model.graph if node.op_type == "Loop")
    changes = Changes(model.graph)
    body = loop.attributes["body"].as_graph()
    replaced(model, body[-1], "Cos")
    changes.update()
    near = changes.near(1)
    assert loop in near
    assert model.graph[LENGTH - 1] in near
    assert model.graph[0] not in near


class CosinesFromTheInput(Rule):
    """Sin(Cos(x)) -> Cos(Cos(x))"""

    name = "cosines-from-the-input"
    anchors = frozenset({"Sin"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        value = node.inputs[0]
        need(value is not None, "it has no operand")
        assert value is not None
        maker = value.producer()
        need(maker is not None and maker.op_type == "Cos", "not of a Cos", node)
        return b.Cos(value)


def test_a_change_may_lead_to_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the limit allows for the few nodes near it."""
    rules = [CosinesFromTheInput(), FirstSineToCosine()]
    monkeypatch.setattr("hlo2onnx.raising.RULES", rules)

    def long_chain(b: Any, x: oir.Value) -> oir.Value:
        for _ in range(600):
            x = b.Sin(x)
        return x

    model, report = model_of(long_chain, X), Report()
    raise_model(model, load_target("ort-cpu"), frozenset(), report)
    assert report.rules == {"cosines-from-the-input": 599, "sine-to-cosine": 1}


class FarCosine(Rule):
    """Neg(x) -> Abs(x), once a Cos is far behind it."""

    name = "far-cosine"
    anchors = frozenset({"Neg"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        value = node.inputs[0]
        while value is not None and (maker := value.producer()) is not None:
            if maker.op_type == "Cos":
                return b.Abs(node.inputs[0])
            value = maker.inputs[0]
        need(False, "no Cos")
        raise AssertionError


class FirstSineToCosine(Rule):
    """Sin(input) -> Cos(input), in a later phase."""

    name = "sine-to-cosine"
    anchors = frozenset({"Sin"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        value = node.inputs[0]
        need(value is not None and value.is_graph_input(), "not of an input")
        return b.Cos(value)


def test_a_pattern_that_reaches_far_is_found_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo2onnx.raising.RULES", [FarCosine(), FirstSineToCosine()])
    model = model_of(lambda b, x: b.Neg(chain(b, x)), X)
    report = Report()
    raise_model(model, load_target("ort-cpu"), frozenset(), report)
    assert report.rules == {"far-cosine": 1, "sine-to-cosine": 1}


class Witness(Rule):
    """Records the facts that it may ask, and takes no node."""

    anchors = frozenset({"Sin"})

    def __init__(self, phase: int) -> None:
        self.name = f"witness-{phase}"  # type: ignore[misc]
        self.phase = phase  # type: ignore[misc]
        self.facts: list[Facts] = []

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if not self.facts or self.facts[-1] is not b.facts:
            self.facts.append(b.facts)
        raise Refusal("never", node)


def test_facts_stay_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    witnesses = [Witness(0), Witness(1)]
    monkeypatch.setattr("hlo2onnx.raising.RULES", witnesses)
    raise_model(model_of(chain, X), load_target("ort-cpu"), frozenset(), Report())
    assert len(witnesses[0].facts) == 1
    assert witnesses[0].facts == witnesses[1].facts


def test_facts_are_proven_anew_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Witness(0)
    monkeypatch.setattr("hlo2onnx.raising.RULES", [witness, FirstSineToCosine()])
    raise_model(model_of(chain, X), load_target("ort-cpu"), frozenset(), Report())
    assert len(witness.facts) == 2


def searches(monkeypatch: pytest.MonkeyPatch, name: str) -> list[oir.Graph]:
    """The graphs that a function of `changes` has searched from now on."""
    searched, function = list[oir.Graph](), getattr(changes_module, name)

    def counted(graph: oir.Graph) -> int:
        searched.append(graph)
        count: int = function(graph)
        return count

    monkeypatch.setattr(changes_module, name, counted)
    return searched


def test_nodes_that_become_equal_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(b: Any, x: oir.Value) -> oir.Value:
        return b.Add(chain(b, b.Cos(x)), chain(b, b.Sin(x)))

    monkeypatch.setattr("hlo2onnx.raising.RULES", [FirstSineToCosine()])
    model = model_of(build, X)
    raise_model(model, load_target("ort-cpu"), frozenset(), Report())
    assert len(model.graph) == LENGTH + 2


def test_only_what_is_left_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(lambda b, x: chain(b, b.Mul(chain(b, x), b.const(np.float32(3)))), X)
    product = model.graph[LENGTH]
    changes = Changes(model.graph)
    searched = searches(monkeypatch, "remove_unused")
    replaced(model, model.graph[2], "Cos")
    changes.tidy()
    assert not searched
    b = Rewriter(model, load_target("ort-cpu"))
    with b.before(product):
        replace(product, [b.Neg(product.inputs[0])])
    changes.tidy()
    assert not searched
    assert not model.graph.initializers
    last = model.graph[-1]
    with b.before(last):
        b.Sqrt(last.inputs[0])
    changes.tidy()
    assert searched == [model.graph]
    assert "Sqrt" not in {node.op_type for node in model.graph}
    assert changes.near(3) == []


def counting_loop(b: Any, x: oir.Value) -> oir.Value:
    """The second state is what the first one becomes."""
    states = [b.value(name, oir.DataType.FLOAT, (4,)) for name in ("one", "other")]
    trip, going = b.value("trip", oir.DataType.INT64, ()), b.value("going", oir.DataType.BOOL, ())
    with b.subgraph([trip, going, *states], "body") as body:
        body.outputs.extend([b.Identity(going), b.Sin(states[1]), b.Cos(states[1])])
    types = [(oir.DataType.FLOAT, (4,))] * 2
    return b.outputs("Loop", b.i64(3), None, x, x, body=body, types=types, n_outputs=2)[0]


def test_a_state_that_nobody_reads_any_more_is_removed() -> None:
    model = model_of(lambda b, x: chain(b, counting_loop(b, chain(b, x))), X)
    changes = Changes(model.graph)
    body = next(x for x in model.graph if x.op_type == "Loop").attributes["body"].as_graph()
    (sine,) = (node for node in body if node.op_type == "Sin")
    sine.replace_input_with(0, body.inputs[2])
    changes.tidy()
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    assert len(loop.outputs) == 1


def test_a_node_that_no_longer_reads_a_state_leaves_the_loop() -> None:
    def build(b: Any, x: oir.Value) -> oir.Value:
        x = chain(b, x)
        trip = b.value("trip", oir.DataType.INT64, ())
        going = b.value("going", oir.DataType.BOOL, ())
        state = b.value("state", oir.DataType.FLOAT, (4,))
        with b.subgraph([trip, going, state], "body") as body:
            body.outputs.extend([b.Identity(going), b.Add(state, b.Sin(b.Neg(state)))])
        types = [(oir.DataType.FLOAT, (4,))]
        return chain(b, b.op("Loop", b.i64(3), None, x, body=body, types=types))

    model = model_of(build, X)
    changes = Changes(model.graph)
    assert not changes.share()
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    body = loop.attributes["body"].as_graph()
    replaced(model, model.graph[2], "Cos")
    changes.update()
    assert not changes.share()
    (negation,) = (node for node in body if node.op_type == "Neg")
    negation.replace_input_with(0, loop.inputs[2])
    changes.update()
    assert changes.share()
    assert [node.op_type for node in body] == ["Identity", "Add"]


def test_a_node_that_leaves_a_branch_is_merged() -> None:
    """It has the same operands and readers as before."""

    def build(b: Any, x: oir.Value) -> oir.Value:
        branches = []
        for op_type in ("Sin", "Cos"):
            with b.subgraph([], "branch") as branch:
                branch.outputs.append(b.op(op_type, b.Neg(x)))
            branches.append(branch)
        condition = b.Greater(b.ReduceSum(x, keepdims=0), b.const(np.float32(0)))
        types = [(oir.DataType.FLOAT, (4,))]
        chosen = b.op(
            "If", condition, then_branch=branches[0], else_branch=branches[1], types=types
        )
        return b.Add(chosen, chain(b, b.Neg(x)))

    model = model_of(build, X)
    changes = Changes(model.graph)
    assert not changes.share()
    (choice,) = (node for node in model.graph if node.op_type == "If")
    branch = choice.attributes["then_branch"].as_graph()
    negation = branch[0]
    branch.remove(negation)
    model.graph.insert_before(choice, negation)
    changes.update()
    assert changes.share()
    assert sum(node.op_type == "Neg" for node in model.graph) == 1

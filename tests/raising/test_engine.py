"""The engine with rules made for the purpose: which nodes it shows them, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, op_types

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.notes import rewrites_of
from hlo2onnx.raising.engine import (
    ARGUMENT,
    CONSTANT,
    MAX_FIRINGS_PER_NODE,
    Refusal,
    Rewriter,
    Rule,
    Watch,
    apply_rules,
    need,
)
from hlo2onnx.raising.equations import Equations
from hlo2onnx.raising.rules import RULES
from hlo2onnx.targets import load_target

Value = oir.Value
X = np.array([1, -2, 3], np.float32)
Made = Value | Sequence[Value]


def rule(
    *op_types: str, called: str = "made-for-this"
) -> Callable[[Callable[[oir.Node, Rewriter], Made]], Rule]:
    """Makes a rule of a function."""

    def of(function: Callable[[oir.Node, Rewriter], Made]) -> Rule:
        class Single(Rule):
            name: ClassVar[str] = called
            anchors: ClassVar[frozenset[str]] = frozenset(op_types)

            def rewrite(self, node: oir.Node, b: Rewriter) -> Made:
                return function(node, b)

        return Single()

    return of


def x_of(node: oir.Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    return x


@rule("Neg", called="neg-to-abs")
def neg_to_abs(node: oir.Node, b: Rewriter) -> Made:
    return b.Abs(x_of(node))


@rule("Identity", called="drop")
def drop(node: oir.Node, b: Rewriter) -> Made:
    return x_of(node)


def applied(build: Callable[..., Any], *rules: Rule) -> tuple[dict[str, int], oir.Graph]:
    model = model_of(build, {"x": X})
    return dict(apply_rules(model, rules, load_target("ort-cpu"))), model.graph


def test_how_often_rules_fire() -> None:
    fired, graph = applied(lambda b, x: b.Neg(b.Identity(b.Neg(x))), neg_to_abs, drop)
    assert fired == {"neg-to-abs": 2, "drop": 1}
    assert op_types(graph) == ["Abs", "Abs"]


def test_a_rule_that_says_nothing_else() -> None:
    """It keeps NaN, and is tried in the first phase."""
    assert applied(lambda b, x: b.Neg(x), neg_to_abs)[0] == {"neg-to-abs": 1}
    assert not neg_to_abs.drops_nan
    phases = {each.phase for each in RULES}
    assert neg_to_abs.phase == 0 == min(phases) < max(phases)


def test_the_first_rule_that_takes_a_node_wins() -> None:
    @rule("Neg")
    def refuses(node: oir.Node, b: Rewriter) -> Made:
        b.Exp(x_of(node))
        need(False, "never", node)
        raise AssertionError

    @rule("Neg")
    def late(node: oir.Node, b: Rewriter) -> Made:
        return b.Sin(x_of(node))

    fired, graph = applied(lambda b, x: b.Neg(x), refuses, neg_to_abs, late)
    assert fired == {"neg-to-abs": 1}
    assert op_types(graph) == ["Abs"]


def test_need() -> None:
    need(True, "holds")
    with pytest.raises(Refusal, match="does not hold"):
        need(False, "does not hold")


@pytest.mark.parametrize("extra", [0, 1])
def test_rules_that_do_not_terminate(extra: int) -> None:
    """For each node of the graph, and for one more, a number of rewrites is allowed."""
    limit = MAX_FIRINGS_PER_NODE * 2 + extra
    times = 0

    @rule("Neg", called="again")
    def again(node: oir.Node, b: Rewriter) -> Made:
        nonlocal times
        need(times < limit, "often enough", node)
        times += 1
        return b.Neg(x_of(node))

    if extra:
        with pytest.raises(InternalError, match="again"):
            applied(lambda b, x: b.Neg(x), again)
    else:
        assert applied(lambda b, x: b.Neg(x), again)[0] == {"again": limit}


# -- which nodes a rule is tried on ---------------------------------------------------


class Recorder(Rule):
    """Records the nodes that it is tried on, and takes none."""

    name = "recorder"
    anchors = frozenset({"Add", "Sqrt"})

    def __init__(self, *sources: str) -> None:
        self.sources = frozenset(sources)  # type: ignore[misc]
        self.tried: list[str] = []

    def rewrite(self, node: oir.Node, b: Rewriter) -> Made:
        self.tried.append(node.op_type)
        raise Refusal("never", node)


class Log(Watch):
    """Sees attempts and changes nothing."""

    def rewrite(self, rule: Rule, node: oir.Node, b: Rewriter) -> Made:
        return rule.rewrite(node, b)


def sums(b: Any, x: Value) -> Value:
    total: Value = b.Sqrt(b.Add(b.Neg(b.Add(x, x)), b.scalar_like(2, x)))
    return total


@pytest.mark.parametrize(
    ("sources", "tried"),
    [
        (["Neg"], ["Add"]),
        ([CONSTANT], ["Add"]),
        (["Add", "Neg"], ["Add", "Sqrt"]),
        (["Cos"], []),
    ],
)
def test_sources(sources: list[str], tried: list[str]) -> None:
    """A rule is tried where an operator of its sources makes an operand."""
    recorder = Recorder(*sources)
    applied(sums, recorder)
    assert recorder.tried == tried


TWICE, FIVE = "x * 2 -> x + x", "x * 5 -> x"


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(
    ("factor", "tried"),
    [
        (2, [TWICE]),
        ([2, 2, 2], [TWICE]),
        ([2, 2, 3], [FIVE]),  # the engine tells only some numbers apart
        (7, [FIVE]),
        (1, []),
        (None, []),
    ],
)
def test_numbers(factor: float | list[float] | None, tried: list[str], moved: bool) -> None:
    """An equation is tried where all elements of a constant may be its number."""
    seen: list[str] = []

    class Seen(Equations):
        def rewrite(self, node: oir.Node, b: Rewriter) -> Made:
            seen.extend(row.text for row in self.rows)
            raise Refusal("never", node)

    def build(b: Any, x: Value) -> Value:
        number = b.Neg(x) if factor is None else b.const(np.array(factor, np.float32))
        product: Value = b.Mul(x, b.Expand(number, b.i64([3])) if moved else number)
        return product

    applied(build, Seen("seen", TWICE, FIVE))
    assert seen == tried


def test_a_watch_sees_all_attempts() -> None:
    recorder = Recorder("Cos")
    apply_rules(model_of(sums, {"x": X}), [recorder], load_target("ort-cpu"), Log())
    assert recorder.tried == ["Add", "Add", "Sqrt"]


# -- which nodes are looked at again -------------------------------------------------


@rule("Exp", called="read-once")
def read_once(node: oir.Node, b: Rewriter) -> Made:
    need(len(x_of(node).uses()) == 1, "others read it", node)
    return b.Sin(x_of(node))


@rule("Sign", called="to-zeros")
def to_zeros(node: oir.Node, b: Rewriter) -> Made:
    return b.const(np.zeros_like(X))


@pytest.mark.parametrize("far", [False, True])
def test_a_node_whose_operand_lost_a_reader(far: bool) -> None:
    """Also where all goes that made the reader."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        y = b.Cos(x)
        return [b.Exp(y), b.Neg(b.Sign(b.Abs(y) if far else y))]

    fired, graph = applied(build, read_once, to_zeros)
    assert fired == {"to-zeros": 1, "read-once": 1}
    assert op_types(graph) == ["Cos", "Sin", "Neg"]


def test_readers_of_what_was_made() -> None:
    @rule("Neg", called="of-abs")
    def of_abs(node: oir.Node, b: Rewriter) -> Made:
        maker = x_of(node).producer()
        need(maker is not None and maker.op_type == "Abs", "not of Abs", node)
        return b.Cos(x_of(node))

    @rule("Exp", called="exp-to-abs")
    def exp_to_abs(node: oir.Node, b: Rewriter) -> Made:
        return b.Abs(x_of(node))

    def build(b: GraphBuilder, x: Value) -> Value:
        return b.Neg(b.Exp(x))

    fired, graph = applied(build, of_abs, exp_to_abs)
    assert fired == {"exp-to-abs": 1, "of-abs": 1}
    assert op_types(graph) == ["Abs", "Cos"]


def test_what_was_made_is_looked_at() -> None:
    @rule("Exp", called="exp-to-neg")
    def exp_to_neg(node: oir.Node, b: Rewriter) -> Made:
        return b.Neg(x_of(node))

    fired, _ = applied(lambda b, x: b.Exp(x), neg_to_abs, exp_to_neg)
    assert fired == {"exp-to-neg": 1, "neg-to-abs": 1}


# -- what is left --------------------------------------------------------------------


def test_what_a_rule_made_in_vain_goes() -> None:
    @rule("Neg", called="wasteful")
    def wasteful(node: oir.Node, b: Rewriter) -> Made:
        b.Cos(b.Sin(x_of(node)))
        return b.Abs(b.Exp(x_of(node)))

    fired, graph = applied(lambda b, x: b.Neg(x), wasteful)
    assert fired == {"wasteful": 1}
    assert op_types(graph) == ["Exp", "Abs"]


def test_what_cannot_be_an_output_goes() -> None:
    """The rule gives the program's argument; then the next rule has its turn."""

    @rule("Neg", called="argument")
    def argument(node: oir.Node, b: Rewriter) -> Made:
        b.Cos(x_of(node))
        return x_of(node)

    assert applied(lambda b, x: b.Neg(x), argument)[0] == {}
    fired, graph = applied(lambda b, x: b.Neg(x), argument, neg_to_abs)
    assert fired == {"neg-to-abs": 1}
    assert op_types(graph) == ["Abs"]
    assert applied(lambda b, x: b.Exp(b.Neg(x)), argument)[0] == {"argument": 1}


# -- names ---------------------------------------------------------------------------


def names(graph: oir.Graph) -> list[tuple[str | None, str | None]]:
    return [(node.name, node.outputs[0].name) for node in graph]


def test_a_new_node_takes_the_names_of_the_old_one() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        y = b.Neg(x)
        b.graph[0].name, y.name = "layer", "activation"
        return b.Exp(y)

    _, graph = applied(build, neg_to_abs)
    assert names(graph)[0] == ("layer", "activation")


def test_a_node_may_read_other_operands() -> None:
    """It keeps its names and its place, also as an output; what lost its reader goes, and the node
    and its readers are tried again."""
    tried: list[str] = []

    @rule("Exp", "Sin")
    def before_neg(node: oir.Node, b: Rewriter) -> Made:
        tried.append(node.op_type)
        maker = x_of(node).producer()
        need(maker is not None and maker.op_type == "Neg", "it does not follow Neg", node)
        assert maker is not None
        return b.reread(node, [x_of(maker)])

    fired, graph = applied(lambda b, x: b.Sin(b.Exp(b.Neg(b.Neg(x)))), before_neg)
    assert fired == {"made-for-this": 2} and tried == ["Exp", "Sin", "Exp", "Sin", "Exp"]
    assert op_types(graph) == ["Exp", "Sin"]
    assert [node.name for node in graph] == ["Exp", "Sin"]
    assert rewrites_of(graph[0]) == ("made-for-this",)
    assert applied(lambda b, x: b.Sin(b.Neg(x)), before_neg)[0] == {"made-for-this": 1}


def test_a_node_that_was_there_keeps_its_names() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        y = b.Sin(x)
        b.graph[0].name, y.name = "layer", "activation"
        return b.Exp(b.Identity(y))

    fired, graph = applied(build, drop)
    assert fired == {"drop": 1}
    assert names(graph)[0] == ("layer", "activation")


@pytest.mark.parametrize("place", [0, 1])
def test_an_output_keeps_its_name(place: int) -> None:
    """Also where the same value stands for another output of the node."""

    @rule("Split", called="twice")
    def twice(node: oir.Node, b: Rewriter) -> Made:
        made: Value = b.slice(x_of(node), [0], [1])
        return [made, made]

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        pieces = b.outputs("Split", b.slice(x, [0], [2]), b.i64([1, 1]), axis=0, n_outputs=2)
        pieces[place].name = "result"
        return [pieces[place], b.Exp(pieces[1 - place])]

    fired, graph = applied(build, twice)
    assert fired == {"twice": 1}
    assert graph.outputs[0].name == "result"


def test_fits_is_asked_once_for_each_combination() -> None:
    """A rule sees the operator, the sources of all operands and the element type of the result."""
    asked = []

    class Fitting(Recorder):
        def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
            asked.append((op_type, set(sources), dtype))
            return op_type == "Sqrt"

    recorder = Fitting()
    applied(lambda b, x: b.Sqrt(b.Sqrt(b.Sqrt(b.Add(sums(b, x), x)))), recorder)
    assert recorder.tried == ["Sqrt"] * 4
    single = oir.DataType.FLOAT
    assert asked == [
        ("Add", {ARGUMENT}, single),
        ("Add", {CONSTANT, "Neg"}, single),
        ("Sqrt", {"Add"}, single),
        ("Add", {ARGUMENT, "Sqrt"}, single),
        ("Sqrt", {"Sqrt"}, single),
    ]


def test_nodes_are_listed_until_a_rule_fires() -> None:
    listed: list[tuple[list[str], int]] = []

    @rule("Neg", "Abs", called="list")
    def look(node: oir.Node, b: Rewriter) -> Made:
        graph = node.graph
        assert isinstance(graph, oir.Graph)
        assert b.nodes_of(graph) is b.nodes_of(graph)
        listed.append(([each.op_type for each in b.nodes_of(graph)], len(b.nodes_of(graph, "Neg"))))
        need(node.op_type == "Neg", "it only looks")
        return b.Exp(x_of(node))

    applied(lambda b, x: b.Abs(b.Neg(b.Abs(x))), look)
    assert listed[0] == listed[1] == (["Abs", "Neg", "Abs"], 1)
    assert listed[2:] and all(each == (["Abs", "Exp", "Abs"], 0) for each in listed[2:])

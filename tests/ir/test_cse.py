"""Equal nodes become one, and so do equal stacks of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_xla
from loop_graphs import loop
from rewriting import model_of
from rule_names import LOOP_RULE_NAMES

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.code_motion import eliminate_common_subexpressions
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.values import dtype_of, shape_of

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def against_jax(function: Callable[..., Any], *arguments: Any) -> Run:
    text = jax.jit(function).lower(*arguments).as_text()
    return against_xla(text, *arguments, without=LOOP_RULE_NAMES).close()


def test_equal_nodes() -> None:
    run = against_jax(lambda x: jnp.sin(x) + jnp.cos(x) * jnp.sin(x), X)
    assert run.nodes["Sin"] == 1


# -- graphs built by hand --------------------------------------------------------

Value = oir.Value


def shared(build: Callable[..., Any]) -> tuple[int, list[str]]:
    """How many nodes or stacks went, and the operators that are left, Identities apart."""
    graph = model_of(build, {"x": X}).graph
    count = eliminate_common_subexpressions(graph)
    remove_unused(graph)
    return count, sorted(n.op_type for n in graph.all_nodes() if n.op_type != "Identity")


def as_it_is(b: GraphBuilder, op_type: str, x: Value, domain: str = "", **attributes: Any) -> Value:
    (made,) = b.node(op_type, [x], attributes, [(dtype_of(x), shape_of(x))], domain)
    return made


def filled(b: GraphBuilder, number: float) -> Value:
    tensor = np.array([number], np.float32)
    shape = b.i64([4, 3])
    (made,) = b.node("ConstantOfShape", [shape], {"value": tensor}, [(oir.DataType.FLOAT, (4, 3))])
    return made


def two_sizes(b: GraphBuilder, x: Value) -> list[Value]:
    """Nodes that differ in nothing but the number of their outputs."""
    types = [(oir.DataType.FLOAT, (1, 3))] * 4
    two = b.node("Split", [x], {"axis": 0}, types[:2])
    four = b.node("Split", [x], {"axis": 0}, types)
    return [b.Neg(two[0]), b.Neg(four[0])]


PAIRS: dict[str, tuple[Callable[[GraphBuilder, Value], list[Value]], int]] = {
    "equal": (lambda b, x: [b.Exp(x), b.Exp(x)], 1),
    "three": (lambda b, x: [b.Exp(x), b.Exp(x), b.Exp(x)], 2),
    "another operator": (lambda b, x: [b.Exp(x), b.Sin(x)], 0),
    "other operands": (lambda b, x: [b.Exp(x), b.Exp(b.Neg(x))], 0),
    "another order": (lambda b, x: [b.Sub(x, b.const(X)), b.Sub(b.const(X), x)], 0),
    "an attribute": (lambda b, x: [b.transpose(x, (1, 0)), b.transpose(x, (1, 0))], 1),
    "another attribute": (lambda b, x: [as_it_is(b, "Elu", x, alpha=1.0),
                                        as_it_is(b, "Elu", x, alpha=2.0)], 0),
    "one has an attribute": (lambda b, x: [as_it_is(b, "Elu", x), as_it_is(b, "Elu", x, alpha=2.0)],
                             0),
    "a tensor": (lambda b, x: [filled(b, 1), filled(b, 1)], 1),
    "another tensor": (lambda b, x: [filled(b, 1), filled(b, 2)], 0),
    "random": (lambda b, x: [as_it_is(b, "RandomNormalLike", x),
                             as_it_is(b, "RandomNormalLike", x)], 0),
    "another domain": (lambda b, x: [as_it_is(b, "Exp", x, "example"),
                                     as_it_is(b, "Exp", x, "example")], 0),
    "one of another domain": (lambda b, x: [b.Exp(x), as_it_is(b, "Exp", x, "example")], 0),
    "fewer outputs": (two_sizes, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    build, gone = PAIRS[name]
    graph = model_of(lambda b, x: [b.Neg(y) for y in build(b, x)], {"x": X}).graph
    before = len(graph)
    # Their readers stay: they are results of the program.
    assert eliminate_common_subexpressions(graph) == gone
    assert len(graph) == before - gone


def test_two_results_of_the_program_stay() -> None:
    assert shared(lambda b, x: [b.Exp(x), b.Exp(x)]) == (0, ["Exp", "Exp"])


def test_what_a_body_computes_again() -> None:
    """It reads what the graph around it computed; two bodies share nothing."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        outside = b.Exp(x)
        one = loop(b, 2, [x], lambda trip, h: ([b.Add(h, b.Exp(x))], []))
        other = loop(b, 2, [x], lambda trip, h: ([b.Add(h, b.Mul(b.Sin(x), b.Sin(x)))], []))
        last = loop(b, 2, [x], lambda trip, h: ([b.Sub(h, b.Sin(x))], []))
        return [outside, *one, *other, *last]

    assert shared(build) == (
        2,
        sorted(["Exp", "Add", "Sin", "Mul", "Add", "Sin", "Sub"] + ["Loop"] * 3),
    )


def test_branches() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        outside = b.Exp(x)
        with b.subgraph([], "then") as then:
            then.outputs.append(b.Neg(b.Exp(x)))
        with b.subgraph([], "else") as otherwise:
            otherwise.outputs.append(b.Sin(x))
        condition = b.const(np.array(True))
        attributes = {"then_branch": then, "else_branch": otherwise}
        return [outside, *b.node("If", [condition], attributes, [(dtype_of(x), shape_of(x))])]

    assert shared(build) == (1, ["Exp", "If", "Neg", "Sin"])


def adds(operator: str, times: int = 2) -> Callable[[GraphBuilder, Value], list[Value]]:
    """A loop that adds something to what it starts from."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        return loop(b, times, [x], lambda trip, h: ([b.Add(h, b.op(operator, h))], []))

    return build


@pytest.mark.parametrize(
    ("other", "gone"),
    [(adds("Sin"), 1), (adds("Cos"), 0), (adds("Sin", 3), 0)],
    ids=["the same", "another body", "other trips"],
)
def test_equal_loops(other: Callable[..., list[Value]], gone: int) -> None:
    """Loops with equal bodies and operands become one."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        return [b.Add(*adds("Sin")(b, x), *other(b, x))]

    assert shared(build)[0] == gone


@pytest.mark.parametrize(("swapped", "loops"), [(False, 1), (True, 2)])
def test_equal_bodies_in_another_order(swapped: bool, loops: int) -> None:
    """The order of nodes does not matter, and that of states does."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def body(trip: Value, h: Value, g: Value) -> tuple[list[Value], list[Value]]:
            return [b.Sin(h), b.Cos(g)], []

        def other(trip: Value, h: Value, g: Value) -> tuple[list[Value], list[Value]]:
            cosine, sine = b.Cos(g), b.Sin(h)
            return [cosine, sine] if swapped else [sine, cosine], []

        one, two = loop(b, 2, [x, x], body), loop(b, 2, [x, x], other)
        return [b.Concat(*one, *two, axis=0)]

    assert shared(build)[1].count("Loop") == loops


def test_bodies_that_read_other_values() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        near, far = b.Exp(x), b.Tanh(x)
        loops = [
            loop(b, 2, [x], lambda trip, h, y=y: ([b.Add(h, y)], [])) for y in (near, far, near)
        ]
        return [b.Add(b.Add(*loops[0], *loops[1]), *loops[2])]

    assert shared(build)[1].count("Loop") == 2

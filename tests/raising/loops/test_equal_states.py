"""States that stay equal, results that branches share, and counters that saturate."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, either, loop
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.match.value_numbering import Numbering
from hlo2onnx.raising.rules.loops.equal_states import EqualResults, EqualStates, _Classes

X = np.array([1, -2, 3], np.float32)
T = oir.DataType
Value = oir.Value
Pair = tuple[Value, Value]


def same(b: GraphBuilder, x: Value, s: Value, t: Value) -> Pair:
    new = b.Neg(x)
    return new, b.Identity(new)


def chosen(b: GraphBuilder, x: Value, s: Value, t: Value) -> Pair:
    new = b.Exp(x)
    first, second = either(b, x, (new, new), (s, t))
    return first, second


def selected(b: GraphBuilder, x: Value, s: Value, t: Value) -> Pair:
    condition = b.Less(x, b.scalar(0, T.FLOAT))
    return b.Where(condition, x, s), b.Where(condition, x, t)


def apart(b: GraphBuilder, x: Value, s: Value, t: Value) -> Pair:
    first, second = either(b, x, (x, x), (s, b.Neg(t)))
    return first, second


def crossed(b: GraphBuilder, x: Value, s: Value, t: Value) -> Pair:
    return b.Where(b.Less(x, s), x, s), b.Where(b.Less(t, x), x, t)


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize(
    ("step", "fires"),
    [(same, True), (chosen, True), (selected, True), (apart, False), (crossed, False)],
)
@pytest.mark.parametrize("start", [0.0, -0.0])
def test_states(step, fires: bool, stopped: bool, start: float) -> None:  # type: ignore[no-untyped-def]
    """A 0 of another sign is another start."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        zero = b.const(np.zeros(3, np.float32))
        other = b.const(np.full(3, start, np.float32))

        def trip(i: Value, y: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
            return [b.Add(y, s), *step(b, y, s, t)], [b.Sub(s, t)]

        y, s, t, rows = loop(b, 3, [x, zero, other], trip, stopped)
        return [b.Exp(y), b.Abs(s), b.Reciprocal(t), rows]

    rewrite = LoopRewrite(build, {"x": X}, EqualStates())
    assert bool(rewrite.fired) == (fires and not np.signbit(start))


@pytest.mark.parametrize("is_equal", [False, True])
def test_results_of_branches(is_equal: bool) -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        negative, root = b.Neg(x), b.Exp(x)
        other = (x, x) if is_equal else (x, root)
        first, second = either(b, x, (negative, negative), other)
        return [b.Abs(first), b.Exp(second)]

    rewrite = LoopRewrite(build, {"x": X}, EqualResults())
    assert bool(rewrite.fired) == is_equal


def test_counters_that_saturate() -> None:
    """Optax counts its steps up to the largest integer."""
    most = np.int32(2**31 - 1)

    def run(x: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            y, count = carry
            after = jnp.where(count < most, count + 1, most)
            return (y * 0.5 + 0.9 ** after.astype(jnp.float32), after), count % 3

        (y, _), rows = lax.scan(step, (x, jnp.int32(0)), None, 6)
        return y, rows

    program = verified(run, X)
    inside = {node.op_type for node in program.model.graph.all_nodes()}
    assert not inside & {"Less", "Pow", "Where"}


def test_many_choices() -> None:
    """Each of 60 choices is read by two others: there are more paths than a translation follows."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def chosen(y: Value, s: Value, conditions: list[Value]) -> Value:
            before = b.Where(conditions[0], s, y)
            for condition in conditions:
                before, s = s, b.Where(condition, s, before)
            return s

        def trip(i: Value, y: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
            conditions = [b.Less(y, b.scalar(k, T.FLOAT)) for k in range(60)]
            after = [chosen(y, state, conditions) for state in (s, t)]
            return [b.Add(y, s), *after], [b.Sub(s, t)]

        y, s, t, rows = loop(b, 3, [x, x, x], trip)
        return [b.Exp(y), b.Abs(s), b.Reciprocal(t), rows]

    assert LoopRewrite(build, {"x": X}, EqualStates()).fired


def test_many_states_that_start_equal() -> None:
    """A trip gives each of them a value of its own."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, *states: Value) -> tuple[list[Value], list[Value]]:
            return [b.Neg(x) if k % 2 else b.Add(s, b.Exp(x)) for k, s in enumerate(states)], []

        return [b.Abs(y) for y in loop(b, 3, [x] * 40, trip)]

    assert not LoopRewrite(build, {"x": X}, EqualStates()).fired


def test_classes_are_divided_as_often_as_needed() -> None:
    """A state that differs makes the one differ that takes its value, and so on."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, *states: Value) -> tuple[list[Value], list[Value]]:
            return [b.Neg(x), *states[:-1]], []

        return [b.Abs(y) for y in loop(b, 3, [x] * 4, trip)]

    assert not LoopRewrite(build, {"x": X}, EqualStates()).fired


def test_states_that_swap() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, s: Value, t: Value, y: Value) -> tuple[list[Value], list[Value]]:
            return [t, s, b.Add(y, b.Sub(s, b.Exp(t)))], []

        return [b.Abs(y) for y in loop(b, 3, [x, x, x], trip)]

    assert LoopRewrite(build, {"x": X}, EqualStates()).fired


def value(name: str, node: oir.Node | None = None) -> Value:
    return oir.Value(node, index=None, name=name, type=oir.TensorType(T.FLOAT), shape=oir.Shape([]))


def classes_of(states: list[Value], after: list[Value]) -> tuple[set[frozenset[int]], int]:
    """The classes of states that start equal, and how many values were looked at."""
    classes, looked_at = _Classes(states, after, [0] * len(states)), 0

    class Counting(Numbering):
        def number(self, value: Value) -> int:
            nonlocal looked_at
            looked_at += 1
            return super().number(value)

    classes._numbering = Counting(classes._keys)
    classes.divide()
    found: dict[int, set[int]] = {}
    for k, state in enumerate(states):
        found.setdefault(classes.number_of[state], set()).add(k)
    return set(map(frozenset, found.values())), looked_at


@pytest.mark.parametrize("seed", range(30))
def test_random_states(seed: int) -> None:
    """The same classes as if all were divided again and again."""
    rng = np.random.default_rng(seed)
    states = [value(f"s{k}") for k in range(12)]
    others, condition = [value(f"x{k}") for k in range(2)], value("c")
    forms: list[tuple[int, ...]] = []
    after: list[Value] = []
    for _ in states:
        i, j = (int(k) for k in rng.integers(0, len(states) + 2, 2))
        leaves = [*states, *others]
        is_choice = bool(rng.integers(2))
        node = oir.Node("", "Where", [condition, leaves[i], leaves[j]], num_outputs=1)
        node.outputs[0].shape = oir.Shape([])
        forms.append((i, j) if is_choice else (i,))
        after.append(node.outputs[0] if is_choice else leaves[i])
    known: list[object] = [0] * len(states)
    for _ in states:
        numbers = [*known, "first", "second"]
        keys = [(n, *(numbers[k] for k in form)) for n, form in zip(known, forms, strict=True)]
        known = [keys.index(key) for key in keys]
    expected = {frozenset(k for k, n in enumerate(known) if n == one) for one in known}
    assert classes_of(states, after)[0] == expected


def test_work_is_linear_in_states_that_become_each_other() -> None:
    def looked_at(count: int) -> int:
        states = [value(f"s{k}") for k in range(count)]
        classes, found = classes_of(states, [value("x"), *states[:-1]])
        assert len(classes) == count
        return found

    assert looked_at(400) <= 2.1 * looked_at(200)

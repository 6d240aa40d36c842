"""Loops and branches: element types that they cannot carry, and conditions known at load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import foreign, model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.legalize.control_flow import carry_states
from hlo2onnx.targets.workarounds.constants import conceal_conditions

T = oir.DataType
Condition = Callable[..., oir.Value]


def loop(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
    """Three trips over states of i8, i4, i4 and f32; stacks of i4 and f32."""
    trip, going = b.value("trip", T.INT64, []), b.value("on", T.BOOL, [])
    bytes_, small, other, wide = states = [
        b.value(name, dtype, (2,))
        for name, dtype in (("a", T.INT8), ("b", T.INT4), ("c", T.INT4), ("d", T.FLOAT))
    ]
    with b.subgraph([trip, going, *states], "body") as body:
        grown = b.Add(wide, b.cast(small, T.FLOAT))
        sums = b.Add(bytes_, b.cast(other, T.INT8))
        body.outputs.extend([b.Identity(going), sums, other, small, grown])
        body.outputs.extend([b.Identity(small), b.Identity(wide)])
    small, other = (b.cast(value, T.INT4) for value in (x, y))
    types = [(T.INT8, (2,)), (T.INT4, (2,)), (T.INT4, (2,)), (T.FLOAT, (2,))]
    types += [(T.INT4, (3, 2)), (T.FLOAT, (3, 2))]
    made = b.outputs(
        "Loop", b.i64(3), None, x, small, other, b.cast(x, T.FLOAT),
        body=body, n_outputs=6, types=types,
    )  # fmt: skip
    results: list[oir.Value] = [b.cast(value, T.FLOAT) for value in made]
    return [*results, made[2]]


def test_states_and_stacks_of_a_loop() -> None:
    x, y = np.array([3, -4], np.int8), np.array([7, -8], np.int8)
    model = model_of(loop, {"x": x, "y": y})
    names = [value.name for value in model.graph.outputs]
    builder = GraphBuilder(model.graph, 23)
    builder.adopt(model.graph)
    carry_states(model.graph, load_target("ort-cpu"), builder)
    assert [value.name for value in model.graph.outputs] == names
    assert model.graph.outputs[-1].dtype == T.INT4
    (node,) = (n for n in model.graph if n.op_type == "Loop")
    types = [T.INT8, T.INT8, T.INT8, T.FLOAT, T.INT8, T.FLOAT]
    body = node.attributes["body"].as_graph()
    assert [value.dtype for value in node.outputs] == types
    assert [value.dtype for value in body.outputs[1:]] == types
    assert [value.dtype for value in body.inputs[2:]] == types[:4]
    assert [None if value is None else value.dtype for value in node.inputs[2:]] == types[:4]
    legalize(model, load_target("ort-cpu"), "xla", Report())
    got = run_model(model, {"x": x, "y": y})
    sums = x + 2 * y + x
    steps = [x, x + x, x + x + y]
    stack = np.stack([x, y, x])
    wanted = [sums, y, x, x + x + y + x, stack, np.stack(steps)]
    for found, right in zip(got, wanted, strict=False):
        np.testing.assert_array_equal(found, right.astype(np.float32))
    np.testing.assert_array_equal(got[-1].astype(np.int8), x)


def branches(b: GraphBuilder, c: oir.Value, x: oir.Value) -> oir.Value:
    return choose(b, c, lambda: b.cast(x, T.INT4), lambda: b.cast(b.Neg(x), T.INT4), T.INT4)


def choose(
    b: GraphBuilder,
    condition: oir.Value,
    then: Callable[[], oir.Value],
    otherwise: Callable[[], oir.Value],
    dtype: oir.DataType = T.FLOAT,
) -> oir.Value:
    """The result, of extent 2, of an If."""
    made = []
    for make in (then, otherwise):
        with b.subgraph([], "branch") as body:
            body.outputs.append(make())
        made.append(body)
    result: oir.Value = b.op(
        "If", condition, then_branch=made[0], else_branch=made[1], types=[(dtype, (2,))]
    )
    return result


@pytest.mark.parametrize("is_true", [False, True])
def test_results_of_branches(is_true: bool) -> None:
    inputs = {"c": np.array(is_true), "x": np.array([3, -4], np.int8)}
    model = model_of(branches, inputs)
    builder = GraphBuilder(model.graph, 23)
    builder.adopt(model.graph)
    carry_states(model.graph, load_target("ort-cpu"), builder)
    (node,) = (n for n in model.graph if n.op_type == "If")
    assert node.outputs[0].dtype == T.INT8
    assert model.graph.outputs[0].dtype == T.INT4
    (got,) = run_model(model, inputs)
    np.testing.assert_array_equal(got.astype(np.int8), inputs["x"] * (1 if is_true else -1))


# -- conditions ------------------------------------------------------------------------------------

X = np.array([1, 2], np.float32)


def concealed(*conditions: Condition, free: bool = False) -> Counter[str]:
    """The loops and branches of a model that has an If under each of these conditions."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        made = [condition(b, x) for condition in conditions]
        return [choose(b, each, lambda: b.Neg(x), lambda: b.Abs(x)) for each in made]

    dims = {"x": (oir.SymbolicDim("n"),)} if free else None
    model = model_of(build, {"x": X}, dims=dims)
    conceal_conditions(model)
    nodes = Counter(node.op_type for node in model.graph if node.op_type in ("If", "Loop"))
    for node in model.graph:
        if node.op_type == "If" and node.inputs[0] is not None:
            assert node.inputs[0].dtype == T.BOOL
    return nodes


def constant(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.const(np.array(True))


def computed(b: GraphBuilder, x: oir.Value) -> oir.Value:
    sums = b.Add(b.i64(3), b.Neg(b.i64(4)))
    result: oir.Value = b.Less(b.Mul(sums, sums), b.i64(4))
    return result


def given(b: GraphBuilder, x: oir.Value) -> oir.Value:
    result: oir.Value = b.Less(b.ReduceMax(x, keepdims=0), b.scalar(1, T.FLOAT))
    return result


def of_shape(b: GraphBuilder, x: oir.Value) -> oir.Value:
    result: oir.Value = b.Less(b.squeeze(b.Shape(x), [0]), b.i64(4))
    return result


def random(b: GraphBuilder, x: oir.Value) -> oir.Value:
    drawn = b.op("RandomNormal", shape=[1], types=[(T.FLOAT, (1,))])
    result: oir.Value = b.Less(b.squeeze(drawn, [0]), b.scalar(0, T.FLOAT))
    return result


def of_branch(b: GraphBuilder, x: oir.Value) -> oir.Value:
    chosen = choose(b, constant(b, x), lambda: b.Neg(b.const(X)), lambda: b.Abs(b.const(X)))
    return given(b, chosen)


@pytest.mark.parametrize(
    ("conditions", "loops"),
    [
        ([constant], 1),
        ([computed], 1),
        ([of_shape], 1),
        ([given], 0),
        ([random], 0),
        ([constant, given, computed], 2),
        ([of_branch], 1),
    ],
)
def test_conditions_that_are_known_at_load(conditions: list[Condition], loops: int) -> None:
    ifs = len(conditions) + (of_branch in conditions)
    assert concealed(*conditions) == Counter(If=ifs, Loop=loops) - Counter()


def test_extents_that_are_not_known() -> None:
    assert concealed(of_shape, free=True) == Counter(If=1)


@pytest.mark.parametrize("is_true", [False, True])
def test_a_concealed_condition_is_the_same(is_true: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        condition = b.Not(b.const(np.array(not is_true)))
        return choose(b, condition, lambda: b.Neg(x), lambda: b.Abs(x))

    model = model_of(build, {"x": X})
    conceal_conditions(model)
    np.testing.assert_array_equal(run_model(model, {"x": X})[0], -X if is_true else X)


def test_what_functions_are_given() -> None:
    """Calls may give them constants."""
    inner = oir.Graph([], [], nodes=[], name="f", opset_imports={"": 23})
    b = GraphBuilder(inner, 23)
    flag, x = b.value("flag", T.BOOL, []), b.value("x", T.FLOAT, [2])
    inner.inputs.extend([flag, x])
    inner.outputs.append(choose(b, b.Not(flag), lambda: b.Neg(x), lambda: b.Abs(x)))
    function = oir.Function("example", "f", graph=inner, attributes=[])

    def build(b: GraphBuilder, c: oir.Value, x: oir.Value) -> oir.Value:
        called: oir.Value = b.op("f", c, x, types=[(T.FLOAT, (2,))])
        return foreign(called)

    model = model_of(build, {"c": np.array(True), "x": X})
    conceal_conditions(oir.Model(model.graph, ir_version=10, functions=[function]))
    assert Counter(node.op_type for node in inner)["Loop"] == 1


def test_one_loop_for_each_condition() -> None:
    shared: list[oir.Value] = []

    def one(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if not shared:
            shared.append(computed(b, x))
        return shared[0]

    assert concealed(one, one, constant) == Counter(If=3, Loop=2)

"""Operators whose operands or results are known, and near misses."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, clipped, model_of
from rule_names import rule
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.raising.rules.algebra.simplification import FoldComparison, RedundantClamp
from hlo2onnx.targets import load_target

T = oir.DataType
FLOATS = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)
INTEGERS = np.array([[1, -7, 0], [-(2**31), 2**31 - 1, 5]], np.int32)
BOOLEANS = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("rule", [rule("fold-identity-operand"), RedundantClamp()])
@pytest.mark.parametrize("items", [(), (-(2**31), 5)])
def test_operators_of_one_and_three_operands_stay(rule: Rule, items: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Max(x, *[b.scalar_like(item, x) for item in items]))

    Rewrite(build, {"x": INTEGERS}, rule).nothing()


def test_an_empty_operand_is_not_neutral() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(x, b.const(np.ones((0, 3), np.float32))))

    Rewrite(build, {"x": FLOATS[:1]}, rule("fold-identity-operand")).nothing()


def test_some_elements_are_not_neutral() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(x, b.const(np.array([1, 1, 2], np.int32))))

    Rewrite(build, {"x": INTEGERS}, rule("fold-identity-operand")).nothing()


def test_zero_added_to_other_casts_stays() -> None:
    """To the sum of no -0 and 0 only; a product stays whatever it was."""

    def times(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(b.Cast(x, to=T.FLOAT), b.scalar(0.0, T.FLOAT)))

    def one(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Add(b.Cast(x, to=T.FLOAT), b.scalar(1.0, T.FLOAT)))

    for build in (times, one):
        Rewrite(build, {"x": INTEGERS}, rule("fold-identity-operand")).nothing()


@pytest.mark.parametrize(("item", "answer"), [(10, True), (0, False), (5, None)])
@pytest.mark.parametrize("swapped", [False, True])
def test_conditions_that_ranges_decide(item: int, answer: bool | None, swapped: bool) -> None:
    def condition(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Less(clipped(b, x, 0, 9), b.scalar_like(item, x))

    def where(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Where(condition(b, x), b.Abs(x), b.Sign(x)))

    def both(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = (b.Less(x, b.scalar_like(1, x)), condition(b, x))
        return b.Not(b.And(*operands[:: -1 if swapped else 1]))

    chosen = Rewrite(where, {"x": INTEGERS}, rule("fold-where"))
    joined = Rewrite(both, {"x": INTEGERS}, rule("fold-identity-operand"))
    absorbed = Rewrite(both, {"x": INTEGERS}, rule("fold-absorbing-operand"))
    chosen.nothing() if answer is None else chosen.gives("Neg", "Abs" if answer else "Sign")
    joined.gives("Not", "Less") if answer else joined.nothing()
    absorbed.gives("Not", "Expand") if answer is False else absorbed.nothing()


def test_a_free_shape_stays() -> None:
    """What is left has it, or nothing is done."""

    def same(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(free(b, x, "n", 3), b.scalar(1, T.INT32)))

    def larger(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rows = free(b, b.const(np.ones((2, 1), np.int32)), "n", 1)
        return b.Neg(b.Where(b.const(np.array(True)), b.Neg(b.slice(x, [0], [1], axes=[0])), rows))

    Rewrite(same, {"x": INTEGERS}, rule("fold-identity-operand")).gives("Identity", "Neg")
    Rewrite(larger, {"x": INTEGERS}, rule("fold-where")).nothing()


@pytest.mark.parametrize(
    ("op_type", "number", "answer"),
    [("Less", 1.0, False), ("GreaterOrEqual", 1.0, True), ("Greater", 1.0, None),
     ("Less", 0.5, None), ("Greater", 2.0**80, False), ("LessOrEqual", 2.0**62, True),
     ("LessOrEqual", 2.0**20, None)],
)  # fmt: skip
def test_comparisons_of_extents(op_type: str, number: float, answer: bool | None) -> None:
    """A free extent of an input is 1 at least, as a number of any type."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        extent = b.extents.scalar(shape_of(x)[0])
        return b.Not(b.op(op_type, b.cast(extent, T.FLOAT), b.scalar(number, T.FLOAT)))

    model = model_of(build, {"x": INTEGERS}, dims={"x": (symbol("n", positive=True), 3)})
    fired = apply_rules(model, [FoldComparison()], load_target("ort-cpu"))
    assert bool(fired) == (answer is not None)
    if answer is not None:
        (constant,) = (x.const_value.numpy() for x in model.graph.initializers.values()
                       if x.dtype == T.BOOL and x.const_value is not None)  # fmt: skip
        assert constant == answer


@pytest.mark.parametrize(
    ("choices", "left"),
    [((True, False), []), ((True, None), ["Or"]), ((None, False), ["And"]), ((False, True), None),
     ((False, None), None), ((None, True), None), ((None, None), None)],
)  # fmt: skip
def test_choices_among_booleans(
    choices: tuple[bool | None, bool | None], left: list[str] | None
) -> None:
    """Not run: the runtime has no Where of booleans."""

    def build(b: GraphBuilder, c: oir.Value, d: oir.Value) -> oir.Value:
        x, y = (d if item is None else b.const(np.array(item)) for item in choices)
        return b.Not(b.Where(c, x, y))

    model = model_of(build, {"c": BOOLEANS, "d": ~BOOLEANS})
    fired = apply_rules(model, [rule("where-to-logic")], load_target("ort-cpu"))
    assert bool(fired) == (left is not None)
    found = sorted(node.op_type for node in model.graph)
    assert found == sorted(["Not", *(["Where"] if left is None else left)])


@pytest.mark.parametrize("bounds", [(1, 9), (1, 8), (0, 8)])
def test_a_clip_that_may_change_its_operand(bounds: tuple[int, int]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(clipped(b, clipped(b, x, 0, 9), *bounds))

    Rewrite(build, {"x": INTEGERS}, RedundantClamp()).nothing()


def test_a_clip_of_one_bound_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Clip(clipped(b, x, 0, 9), b.scalar(0, T.INT32)))

    Rewrite(build, {"x": INTEGERS}, RedundantClamp()).nothing()


@pytest.mark.parametrize(
    ("op_type", "item", "fires"),
    [("Max", 0.5, True), ("Max", 0.75, False), ("Min", 2.0, True), ("Min", 1.5, False)],
)
def test_clamps_of_floats_without_nan(op_type: str, item: float, fires: bool) -> None:
    """The numbers are bounded and no NaN: chosen among constants."""

    def build(b: GraphBuilder, c: oir.Value) -> oir.Value:
        x = b.Where(c, b.scalar(0.5, T.FLOAT), b.scalar(2.0, T.FLOAT))
        return b.Neg(b.op(op_type, x, b.scalar(item, T.FLOAT)))

    rewrite = Rewrite(build, {"c": BOOLEANS}, RedundantClamp())
    rewrite.gives("Neg", "Where") if fires else rewrite.nothing()


@pytest.mark.parametrize(("op_type", "item"), [("Max", -1.0), ("Min", 1.0)])
@pytest.mark.parametrize("swapped", [False, True])
def test_clamps_of_nan(op_type: str, item: float, swapped: bool) -> None:
    """It stays NaN, with and without the clamp."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = [b.Tanh(x), b.scalar(item, T.FLOAT)]
        return b.Neg(b.op(op_type, *(operands[::-1] if swapped else operands)))

    Rewrite(build, {"x": FLOATS}, RedundantClamp()).gives("Neg", "Tanh")


@pytest.mark.parametrize(("op_type", "item"), [("Max", 2.0), ("Min", -2.0)])
def test_clamps_by_nan_stay(op_type: str, item: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, b.Tanh(x), b.scalar(item, T.FLOAT)))

    Rewrite(build, {"x": FLOATS}, RedundantClamp()).nothing()


@pytest.mark.parametrize(("op_type", "other"), [("Max", 1.0), ("Min", -1.0)])
def test_clamps_at_a_zero_of_the_other_sign(op_type: str, other: float) -> None:
    """Of -0 a maximum with 0 makes 0."""

    def build(b: GraphBuilder, c: oir.Value) -> oir.Value:
        x = b.Where(c, b.scalar(-0.0, T.FLOAT), b.scalar(other, T.FLOAT))
        return b.Reciprocal(b.op(op_type, x, b.scalar(0.0, T.FLOAT)))

    model = model_of(build, {"c": BOOLEANS})
    assert not apply_rules(model, [RedundantClamp()], load_target("ort-cpu"))


@pytest.mark.parametrize(
    ("low", "high", "bound"),
    [
        (-9, 0, 0),
        (-9, -1, -1),
        (9, 20, 9),
        (20, 9, None),
        (-1, -5, -5),
        (-9, 1, None),
        (8, 20, None),
    ],
)
def test_integers_beyond_the_bounds_of_a_clip(low: int, high: int, bound: int | None) -> None:
    """Numbers from 0 to 9; an upper bound holds, also below the lower one."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        inner = clipped(b, x, 0, 9)
        return b.Neg(b.Clip(inner, b.scalar(low, T.INT32), b.scalar(high, T.INT32)))

    rewrite = Rewrite(build, {"x": INTEGERS}, RedundantClamp())
    assert rewrite.nodes["Clip"] == (2 if bound is None else 0)


def test_floats_beyond_the_bounds_of_a_clip_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Clip(b.Sigmoid(b.Neg(x)), b.scalar(-2.0, T.FLOAT), b.scalar(-1.0, T.FLOAT))

    Rewrite(build, {"x": FLOATS}, RedundantClamp()).nothing()


@pytest.mark.parametrize("item", [0, 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_exclusive_or_with_zero(item: int, swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        pair = [x, b.scalar(item, T.INT32)]
        return b.Neg(b.BitwiseXor(*(pair[::-1] if swapped else pair)))

    rewrite = Rewrite(build, {"x": INTEGERS}, rule("fold-identity-operand"), opset=18)
    assert rewrite.nodes["BitwiseXor"] == item


def test_integers_at_zero_are_taken() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Min(clipped(b, x, -9, 0), b.scalar(0, T.INT32)))

    Rewrite(build, {"x": INTEGERS}, RedundantClamp()).gives("Neg", "Clip")


@pytest.mark.parametrize(("op_type", "item"), [("Max", np.inf), ("Min", -np.inf)])
def test_infinities_that_decide_stay(op_type: str, item: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, x, b.scalar_like(item, x)))

    Rewrite(build, {"x": FLOATS}, rule("fold-identity-operand")).nothing()


@pytest.mark.parametrize("swapped", [False, True])
def test_clamps_of_numbers_without_bounds_stay(swapped: bool) -> None:
    """They are no NaN, and that is all that is known."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        zero = b.scalar_like(0, x)
        operands = [b.Where(b.IsNaN(x), zero, x), zero]
        return b.Neg(b.Max(*(operands[::-1] if swapped else operands)))

    Rewrite(build, {"x": FLOATS}, RedundantClamp()).nothing()

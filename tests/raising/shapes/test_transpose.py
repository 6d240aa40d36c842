"""Transposes move on: past elementwise operators, reductions, joins, pads, cuts and splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.shapes.reshape import (
    EliminateNop,
    UnitTransposeToReshape,
)
from hlo2onnx.raising.rules.shapes.transpose import ComposeTransposes, SinkTranspose

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
LAST, SECOND = (0, 2, 1), (0, 2, 1)
RULES = (
    SinkTranspose(), ComposeTransposes(), EliminateNop(), UnitTransposeToReshape(),
    FoldConstants(),
)  # fmt: skip
Body = Callable[[GraphBuilder, oir.Value], oir.Value]


def between(body: Body) -> Callable[[GraphBuilder, oir.Value], oir.Value]:
    """A graph that works on x with its last axes swapped, and swaps them back."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(body(b, b.Transpose(x, perm=LAST)), perm=SECOND)

    return build


VECTOR = np.arange(3, dtype=np.float32)
BODIES: dict[str, tuple[Body, Sequence[str]]] = {
    "unary": (lambda b, x: b.Neg(x), ["Neg"]),
    "scalar": (lambda b, x: b.Mul(b.scalar_like(3, x), x), ["Mul"]),
    "vector": (lambda b, x: b.Add(x, b.const(VECTOR)), ["Add"]),
    "matrix": (lambda b, x: b.Sub(x, b.const(np.ones((4, 3), np.float32))), ["Sub"]),
    "both": (lambda b, x: b.Add(b.Neg(x), b.Exp(x)), ["Neg", "Exp", "Add"]),
    "mean": (lambda b, x: b.Sub(x, b.ReduceMean(x, b.i64([1]), keepdims=1)), ["ReduceMean", "Sub"]),
    "concat": (lambda b, x: b.concat([x, b.Neg(x)], axis=1), ["Neg", "Concat"]),
    "concat_constant": (
        lambda b, x: b.concat([b.const(np.ones((2, 1, 3), np.float32)), x], axis=1),
        ["Concat"],
    ),
    "pad": (lambda b, x: b.Pad(x, b.i64([0, 1, 2, 0, 3, 4])), ["Pad"]),
    "slice": (lambda b, x: b.slice(x, [0, 1, 0], [2, 3, 2]), ["Slice"]),
}


@pytest.mark.parametrize("name", BODIES)
def test_transposes_meet(name: str) -> None:
    body, nodes = BODIES[name]
    Rewrite(between(body), {"x": X}, *RULES).gives(*nodes)


@pytest.mark.parametrize("axes", [[0], [1], [2], [1, 2], [0, 2]])
def test_reductions_take_the_transpose_in(axes: list[int]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.ReduceSum(b.Transpose(x, perm=(1, 2, 0)), b.i64(axes), keepdims=0))

    found = Rewrite(build, {"x": X}, *RULES)
    # What is left of axes 1, 2, 0 is in order unless axes 1 or 2 stand before 0.
    found.gives("ReduceSum", "Neg", *["Transpose"] * (axes in ([0], [1])))


def test_groups_of_channels() -> None:
    def split(b: GraphBuilder, x: oir.Value) -> oir.Value:
        groups = b.reshape(b.Transpose(x, perm=(0, 2, 1)), (2, 4, 3, 2))
        return b.Neg(b.Transpose(groups, perm=(0, 2, 3, 1)))

    Rewrite(split, {"x": np.concatenate([X, X], 1)}, *RULES).gives("Reshape", "Neg")


def test_axes_that_are_joined_stay_behind() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.reshape(b.Transpose(x, perm=LAST), (2, 12)))

    Rewrite(build, {"x": X}, *RULES).nothing()


def test_a_computed_operand_of_another_layout_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.Transpose(x, perm=LAST), y)

    Rewrite(build, {"x": X, "y": np.swapaxes(X, 1, 2).copy()}, *RULES).nothing()


def test_what_others_need_transposed_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        last = b.Transpose(x, perm=LAST)
        return [b.Neg(last), b.MatMul(last, y)]

    y = np.ones((3, 2), np.float32)
    Rewrite(build, {"x": X, "y": y}, *RULES).nothing()


def test_parts_of_other_layouts_are_joined_as_they_are() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Concat(b.Transpose(x, perm=LAST), y, axis=2)

    Rewrite(build, {"x": X, "y": np.swapaxes(X, 1, 2).copy()}, *RULES).nothing()


TURN, CACHE = (0, 2, 1, 3), np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("orders", "fires"),
    [
        ([TURN], True),
        ([TURN, (0, 2, 3, 1)], True),
        ([(0, 2, 3, 1)], False),  # nothing meets
        ([TURN, None], False),  # something else reads the result
    ],
)
def test_what_is_appended_to_a_cache_is_transposed(
    orders: list[tuple[int, ...] | None], fires: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        joined = b.Concat(b.Transpose(x, perm=TURN), y, axis=1)
        return [b.Transpose(joined, perm=each) if each else b.Neg(joined) for each in orders]

    x, y = CACHE, CACHE.swapaxes(1, 2)[:, :2].copy()
    case = Rewrite(build, {"x": x, "y": y}, *RULES)
    if fires:
        case.gives("Transpose", "Concat", *["Transpose"] * (len(orders) - 1))
    else:
        case.nothing()


def test_the_cache_itself_is_read() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        joined = b.Concat(b.Transpose(x, perm=TURN), y, axis=1)
        return [joined, b.Transpose(joined, perm=TURN)]

    y = CACHE.swapaxes(1, 2)[:, :2].copy()
    Rewrite(build, {"x": CACHE, "y": y}, *RULES).nothing()


IMAGE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5) - 50
TOKENS = np.ones((2, 4, 5, 3), np.float32)
TO_LAST, TO_SECOND = (0, 2, 3, 1), (0, 3, 1, 2)


def test_what_joins_an_image_is_transposed_back() -> None:
    """Between two convolutions, whatever is made of the sum in between."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        total = b.Add(b.Transpose(x, perm=TO_LAST), b.Exp(y))
        doubled = b.Mul(b.Neg(total), b.ReduceMax(total, b.i64([1, 2]), keepdims=1))
        results = [b.Transpose(z, perm=TO_SECOND) for z in (total, doubled)]
        return [b.MaxPool(z, kernel_shape=[2, 2]) for z in results]

    Rewrite(build, {"x": IMAGE, "y": TOKENS}, *RULES).gives(
        "Exp", "Transpose", "Add", "Neg", "ReduceMax", "Mul", "MaxPool", "MaxPool"
    )


After = Callable[[GraphBuilder, oir.Value], oir.Value]
STAYS_LAST: dict[str, After] = {
    "it leaves the program": lambda b, total: total,
    "a product of matrices": lambda b, total: b.MatMul(total, b.const(np.ones((3, 2), np.float32))),
    "another layout": lambda b, total: b.MaxPool(
        b.Transpose(total, perm=(0, 1, 3, 2)), kernel_shape=[2, 2]
    ),
}


@pytest.mark.parametrize("name", STAYS_LAST)
def test_what_joins_an_image_stays_last(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        total = b.Add(b.Transpose(x, perm=TO_LAST), b.Exp(y))
        back = b.MaxPool(b.Transpose(total, perm=TO_SECOND), kernel_shape=[2, 2])
        return [STAYS_LAST[name](b, total), back]

    Rewrite(build, {"x": IMAGE, "y": TOKENS}, SinkTranspose()).nothing()


def test_only_channels_are_brought_back() -> None:
    """The other way round the two would undo each other."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        total = b.Add(b.Transpose(x, perm=TO_SECOND), b.Exp(y))
        return b.MaxPool(b.Transpose(total, perm=TO_LAST), kernel_shape=[2, 2])

    Rewrite(build, {"x": TOKENS, "y": IMAGE}, SinkTranspose()).nothing()


def test_signals_do_not_take_turns() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        total = b.Add(b.Transpose(x, perm=LAST), b.Exp(y))
        return b.MaxPool(b.Transpose(total, perm=SECOND), kernel_shape=[2])

    y = np.ones((2, 4, 3), np.float32)
    Rewrite(build, {"x": X, "y": y}, SinkTranspose()).nothing()


def test_constants_are_not_transposed_in_turns() -> None:
    """Two that are too large to be folded, as others read them, too."""
    mask = (np.arange(5000) % 3 == 0).reshape(50, 100)
    numbers = np.arange(5000, dtype=np.float32).reshape(100, 50)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        one, other = b.const(mask), b.const(numbers)
        chosen = b.Where(b.Transpose(one, perm=(1, 0)), other, x)
        return [b.Transpose(chosen, perm=(1, 0)), b.Not(one), b.Abs(other)]

    run = Rewrite(build, {"x": np.array(3, np.float32)}, *RULES)
    assert run.fired["sink-transpose"] == 0


def test_rows_and_columns_do_not_take_turns() -> None:
    """An operand with one row is reshaped, not transposed: a Transpose would come back."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        row = b.Pad(y, b.i64([0, 2, 0, 2]))
        return b.Add(row, b.Transpose(x, perm=(1, 0)))

    column = np.ones((8, 1), np.float32)
    rules = [rule for rule in RULES if not isinstance(rule, UnitTransposeToReshape)]
    run = Rewrite(build, {"x": column, "y": column[:4].T}, *rules)
    assert run.fired["sink-transpose"] == 1


def test_a_constant_beside_what_joins_an_image() -> None:
    """It is transposed, too, whatever it takes."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        most = b.Max(b.Transpose(x, perm=TO_LAST), b.Exp(y), b.const(TOKENS * 2))
        return b.MaxPool(b.Transpose(most, perm=TO_SECOND), kernel_shape=[2, 2])

    run = Rewrite(build, {"x": IMAGE, "y": TOKENS}, *RULES)
    run.gives("Exp", "Transpose", "Max", "MaxPool")


def test_what_nobody_reads_is_not_transposed_back() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        total = b.Add(b.Transpose(x, perm=TO_LAST), b.Exp(y))
        b.Neg(total)
        return b.MaxPool(b.Transpose(total, perm=TO_SECOND), kernel_shape=[2, 2])

    assert not fires(build, {"x": IMAGE, "y": TOKENS}, SinkTranspose())


PADS: dict[str, tuple[Body, bool]] = {
    "all axes": (lambda b, x: b.Pad(x, b.i64([0, 1, 0, 0, 0, 2])), True),
    "a number": (lambda b, x: b.Pad(x, b.i64([0, 1, 0, 0, 0, 2]), b.scalar_like(3, x)), True),
    "one axis": (
        lambda b, x: b.op("Pad", x, b.i64([1, 2]), b.scalar_like(3, x), b.i64([1]),
                          types=[(x.dtype, (2, 7, 3))]), False,
    ),
    "no axes named": (
        lambda b, x: b.op("Pad", x, b.i64([0, 1, 0, 0, 0, 2]), b.scalar_like(3, x), None,
                          types=[(x.dtype, (2, 5, 5))]), True,
    ),
    "computed": (
        lambda b, x: b.op("Pad", x, b.Abs(b.i64([0, 1, 0, 0, 0, 2])),
                          types=[(x.dtype, (2, 5, 5))]), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PADS)
def test_pads_of_what_was_transposed(name: str) -> None:
    body, fires = PADS[name]
    run = Rewrite(between(body), {"x": X}, SinkTranspose(), ComposeTransposes(), EliminateNop())
    run.gives("Pad") if fires else run.nothing()


def test_cuts_of_what_was_transposed() -> None:
    """In any steps, and counted from either end."""

    def body(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rows = map(b.i64, ([3, 2], [-5, 0], [1, -1], [-2, -1]))
        return b.Slice(x, *rows)

    run = Rewrite(between(body), {"x": X}, SinkTranspose(), ComposeTransposes(), EliminateNop())
    run.gives("Slice")

"""Each Reshape/Transpose/Expand rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, model_of

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.shape import (
    ComposeExpands,
    ComposeReshapes,
    ComposeTransposes,
    DropIdentity,
    MoveOneElement,
    UnitTransposeToReshape,
)
from hlo2onnx.targets import load_target

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("op_type", ["Reshape", "Expand"])
def test_drop_identity(op_type: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.op(op_type, x, b.i64([2, 3, 4])))

    Rewrite(build, {"x": CUBE}, DropIdentity()).gives("Neg")


def test_drop_identity_transpose() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(0, 1, 2)))

    Rewrite(build, {"x": CUBE}, DropIdentity()).gives("Neg")


@pytest.mark.parametrize("step", [1, 2])
def test_drop_identity_slice(step: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        end = b.i64([1 if step > 1 else 9])
        return b.Neg(b.Slice(x, b.i64([0]), end, b.i64([0]), b.i64([step])))

    x = CUBE[:1] if step > 1 else CUBE
    Rewrite(build, {"x": x}, DropIdentity()).gives("Neg")


def test_drop_identity_keeps_an_axis_that_turns_round() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        ends = b.i64([np.iinfo(np.int64).min])
        return b.Slice(x, b.i64([-1]), ends, b.i64([1]), b.i64([-1]))

    Rewrite(build, {"x": CUBE}, DropIdentity()).nothing()


def test_drop_identity_keeps_square_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(1, 0)))

    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    Rewrite(build, {"x": square}, DropIdentity()).nothing()


def test_drop_identity_keeps_what_makes_an_output_of_an_input() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(x)

    Rewrite(build, {"x": CUBE}, DropIdentity()).nothing()


def test_compose_reshapes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.unsqueeze(b.reshape(x, (6, 4)), [0]))

    Rewrite(build, {"x": CUBE}, ComposeReshapes()).gives("Neg", "Reshape")


def test_compose_reshapes_needs_neighbours() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.Transpose(b.reshape(x, (6, 4)), perm=(1, 0)), (24,))

    Rewrite(build, {"x": CUBE}, ComposeReshapes()).nothing()


def test_move_one_element_through_gather() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Neg(b.Gather(b.expand(x, (5, 3)), i, axis=0))

    inputs = {"x": np.full((1, 1), 2, np.float32), "i": np.array([[0, 4], [2, -1]])}
    Rewrite(build, inputs, MoveOneElement()).gives("Expand", "Neg", "Reshape")


def test_compose_transposes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(b.Transpose(x, perm=(1, 2, 0)), perm=(1, 2, 0))

    Rewrite(build, {"x": CUBE}, ComposeTransposes()).gives("Transpose")


def test_inverse_transposes_vanish() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(b.Transpose(x, perm=(1, 2, 0)), perm=(2, 0, 1)))

    Rewrite(build, {"x": CUBE}, ComposeTransposes()).gives("Neg")


def test_a_single_transpose_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(x, perm=(1, 2, 0))

    Rewrite(build, {"x": CUBE}, ComposeTransposes(), UnitTransposeToReshape()).nothing()


def test_compose_expands() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.expand(b.expand(x, (2, 3)), (4, 2, 3))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, ComposeExpands()).gives("Expand")


def test_compose_expands_needs_two() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.expand(x, (4, 2, 3))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, ComposeExpands()).nothing()


def test_unit_transpose_to_reshape() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(x, perm=(1, 2, 0)))

    Rewrite(build, {"x": CUBE[:1]}, UnitTransposeToReshape()).gives("Neg", "Reshape")


def test_move_one_element() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Transpose(b.reshape(b.expand(x, (2, 3)), (6, 1)), perm=(1, 0)))

    Rewrite(build, {"x": np.ones((1, 1), np.float32)}, MoveOneElement()).gives("Expand", "Neg")


def test_move_one_element_needs_one() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.expand(x, (2, 3)), (6, 1))

    Rewrite(build, {"x": np.ones((1, 3), np.float32)}, MoveOneElement()).nothing()


def test_move_one_element_leaves_nothing_behind() -> None:
    """A rule whose result cannot be the output must not leave nodes, which sharing equal nodes
    would find again and again."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.slice(b.expand(x, (2, 3)), (1, 3), (1, 3))

    model = model_of(build, {"x": np.ones(1, np.float32)})
    count = len(list(model.graph))
    assert not apply_rules(model, [MoveOneElement()], load_target("ort-cpu"))
    assert len(list(model.graph)) == count

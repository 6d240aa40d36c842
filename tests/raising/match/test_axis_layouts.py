"""Where axes go in Transposes, Reshapes and Expands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Refusal
from hlo2onnx.raising.match.axis_layouts import (
    Layout,
    is_move,
    laid_out,
    layout_of,
    moved,
    repeated,
)
from hlo2onnx.raising.match.views import is_private

Groups = tuple[tuple[int, ...], ...]
START = Layout((2, 1, 3, 4), ((0,), (), (2,), (3,)))
X = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4)


@pytest.mark.parametrize(
    ("dims", "groups"),
    [
        ((2, 1, 3, 4), ((0,), (), (2,), (3,))),
        ((6, 4), ((0, 2), (3,))),
        ((2, 12, 1), ((0,), (2, 3), ())),
        ((1, 24), ((), (0, 2, 3))),
        ((2, 3, 4), ((0,), (2,), (3,))),
        ((3, 8), None),
        ((2, 3, 2, 2), None),
        ((2, 3), None),
        ((6, 4, 2), None),
    ],
)
def test_reshaped(dims: tuple[int, ...], groups: Groups | None) -> None:
    want = None if groups is None else Layout((2, 1, 3, 4), groups)
    assert START.reshaped(dims) == want


def test_transposed_and_resampled() -> None:
    assert START.transposed((3, 1, 0, 2)) == Layout((2, 1, 3, 4), ((3,), (), (0,), (2,)))
    assert START.resampled(2, 7) == Layout((2, 1, 7, 4), START.groups)
    assert START.resampled(0, 7) == Layout((7, 1, 3, 4), START.groups)


@pytest.mark.parametrize(
    ("dims", "want"),
    [
        ((2, 1, 3, 4), START),
        ((2, 5, 3, 4), Layout((2, 1, 3, 4, 5), ((0,), (4,), (2,), (3,)))),
        ((6, 2, 1, 3, 4), Layout((2, 1, 3, 4, 6), ((4,), (0,), (), (2,), (3,)))),
        ((6, 2, 5, 3, 4), Layout((2, 1, 3, 4, 6, 5), ((4,), (0,), (5,), (2,), (3,)))),
        ((2, 1, 3, 8), None),
        ((4, 1, 3, 4), None),
    ],
)
def test_expanded(dims: tuple[int, ...], want: Layout | None) -> None:
    assert START.expanded(dims) == want


def test_an_axis_of_several_is_expanded_by_none() -> None:
    joined = Layout((2, 3), ((0, 1),))
    assert joined.expanded((6,)) == joined
    assert joined.expanded((3,)) is None


def nodes_of(shape: Sequence[int], *steps: tuple[str, Sequence[int]]) -> list[oir.Node]:
    """A chain of nodes, of the operators and what they are given."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        for op_type, items in steps:
            if op_type == "Transpose":
                x = b.Transpose(x, perm=tuple(items))
            else:
                x = b.op(op_type, x, b.i64(list(items)))
        return x

    return list(model_of(build, {"x": np.zeros(tuple(shape), np.float32)}).graph)


def test_moves() -> None:
    steps = ("Reshape", (3, 2)), ("Unsqueeze", (0,)), ("Squeeze", (0,)), ("Transpose", (1, 0))
    nodes = nodes_of((2, 3), *steps, ("Expand", (4, 2, 3)))
    assert [is_move(node) for node in nodes] == [True, True, True, True, False]
    start = layout_of(
        oir.Value(name="x", shape=oir.Shape((6, 2)), type=oir.TensorType(oir.DataType.FLOAT))
    )
    assert moved(start, nodes_of((6, 2), ("Transpose", (1, 0)))[0]) == start.transposed((1, 0))
    assert moved(start, nodes_of((6, 2), ("Reshape", (12,)))[0]) == Layout((6, 2), ((0, 1),))
    nodes[3].domain = "other"
    assert not is_move(nodes[3])


def test_layout_of_a_tensor() -> None:
    value = oir.Value(
        name="x", shape=oir.Shape((2, 1, 3, 4)), type=oir.TensorType(oir.DataType.FLOAT)
    )
    assert layout_of(value) == START


def test_read_once() -> None:
    kept: list[oir.Value] = []

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        values = [b.Neg(x) for _ in range(4)]
        read = b.Abs(values[1])
        kept.extend([*values, read])
        results = [b.Abs(values[2]), b.Sin(values[2]), b.Add(values[3], values[3]), b.Sin(read)]
        return [values[0], read, *results]

    model_of(build, {"x": X})
    assert [is_private(value) for value in kept] == [False, True, False, False, False]


REPEATS: dict[str, tuple[tuple[int, ...], list[tuple[str, Sequence[int]]], Layout | None]] = {
    "each element": (
        (2, 3),
        [("Reshape", (2, 1, 3, 1)), ("Expand", (2, 5, 3, 4)), ("Reshape", (10, 12))],
        Layout((10, 12), ((0,), (1,))),
    ),
    "and joined": (
        (2, 3),
        [("Reshape", (2, 1, 3, 1)), ("Expand", (2, 5, 3, 4)), ("Reshape", (120,))],
        Layout((10, 12), ((0, 1),)),
    ),
    "and transposed": (
        (2, 3),
        [("Transpose", (1, 0)), ("Unsqueeze", (1,)), ("Expand", (3, 4, 2)), ("Reshape", (12, 2))],
        Layout((2, 12), ((1,), (0,))),
    ),
    "the whole axis": (
        (2, 3), [("Reshape", (1, 2, 3)), ("Expand", (4, 2, 3)), ("Reshape", (8, 3))], None,
    ),
    "an axis of its own": ((2, 3), [("Expand", (4, 2, 3))], None),
    "twice": (
        (2, 3), [("Reshape", (2, 1, 1, 3)), ("Expand", (2, 5, 7, 3)), ("Reshape", (70, 3))], None,
    ),
    "split": ((4, 3), [("Reshape", (2, 2, 3)), ("Reshape", (4, 3))], None),
    "nothing": ((2, 3), [("Reshape", (2, 1, 3))], Layout((2, 3), ((0,), (), (1,)))),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATS)
def test_repeated(name: str) -> None:
    shape, steps, want = REPEATS[name]
    nodes = nodes_of(shape, *steps)
    x = nodes[0].inputs[0]
    assert x is not None
    assert repeated(x, nodes) == want


@pytest.mark.parametrize(
    ("groups", "dims", "perm"),
    [
        (((3,), (), (0,), (2,)), (4, 1, 2, 3), (3, 1, 0, 2)),
        (((3,), (), (), (0, 2)), (4, 1, 1, 6), (3, 1, 0, 2)),
        (((0,), (2, 3)), (2, 12), (0, 2, 3, 1)),
        (((2, 3), (0,)), (12, 2), (2, 3, 0, 1)),
        (((0,), (), (2,), (3,)), (2, 1, 3, 4), (0, 1, 2, 3)),
    ],
)
def test_laid_out(groups: Groups, dims: tuple[int, ...], perm: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Abs(laid_out(x, Layout((2, 1, 3, 4), groups), dims, b))  # type: ignore[arg-type]

    (got,) = run_model(model_of(build, {"x": X}), {"x": X})
    np.testing.assert_array_equal(got, X.transpose(perm).reshape(dims))


def test_a_layout_of_unknown_extents() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        with pytest.raises(Refusal):
            dims = tuple(map(oir.SymbolicDim, "kl"))
            laid_out(x, layout_of(x), dims, b)  # type: ignore[arg-type]
        return b.Abs(x)

    model_of(build, {"x": X[:, 0]}, dims={"x": tuple(map(oir.SymbolicDim, "nmp"))})

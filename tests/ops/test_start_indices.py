"""Start indices: what is clamped, in which type, and what follows from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted

from dialect_handlers.common.slices import (
    clamped,
    clamped_constant,
    constant_starts,
    from_either_end,
    row_index,
    starts_inside,
    window,
)
from hlo2onnx.ir.dims import canonical, expression, symbol
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import holding

B = symbol("b", positive=True)
FEWER, HALF = canonical(B - 1), canonical(B // 2)
I32, I64 = oir.DataType.INT32, oir.DataType.INT64
LAST = 2**31 - 1

CLAMPS: list[tuple[str, Any, Sequence[int], list[str], oir.DataType]] = [
    ("i4", [-9, 2, 9], [5], ["Clip"], I32),
    ("i4", [[-9, 2], [9, 9]], [5, 5], ["Clip"], I32),
    ("i4", [[-9, 2], [9, 9]], [5, 3], ["Max", "Min"], I32),
    ("i8", [-9, 2**40], [5], ["Clip"], I64),
    # Narrow types: one side of the limits is out of their reach.
    ("u1", [0, 255], [255], ["Cast"], I64),
    ("u1", [0, 255], [254], ["Cast", "Min"], I64),
    ("i1", [-5, 127], [127], ["Cast", "Max"], I64),
    ("i1", [-5, 127], [126], ["Cast", "Clip"], I64),
    # The upper half of u64 would be negative as i64.
    ("u4", [2**32 - 1, 3], [5], ["Min", "Cast"], I64),
    ("u8", [2**64 - 1, 2**63, 3], [5], ["Min", "Cast"], I64),
    ("u8", [[2**64 - 1, 2**63], [3, 4]], [5, 6], ["Min", "Cast"], I64),
    ("u4", [2**32 - 1, 3], [2**32 - 1], ["Cast"], I64),
    # i32 as long as it holds the limits.
    ("i4", [[-1, LAST], [LAST, LAST]], [LAST, 5], ["Max", "Min"], I32),
    ("i4", [[-1, LAST], [LAST, LAST]], [LAST + 1, 5], ["Cast", "Max", "Min"], I64),
    ("i4", [-1, LAST], [LAST + 1], ["Max"], I32),
]


@pytest.mark.parametrize(("index", "starts", "limits", "nodes", "dtype"), CLAMPS)
def test_clamped(
    index: str, starts: Any, limits: Sequence[int], nodes: list[str], dtype: oir.DataType
) -> None:
    array = np.array(starts, index)
    made = Emitted(lambda em, starts: clamped(em, starts, limits), {"starts": array})
    assert (made.nodes, made.outputs[0].dtype) == (nodes, dtype)
    if max(limits) <= LAST:  # the runtime's Min of i64 is wrong beyond, see legalize/limits
        low = np.maximum(array, 0).astype(np.uint64)
        made.gives(np.minimum(low, np.array(limits, np.uint64)).astype(np.int64))


def test_what_is_positive_is_clamped_from_above_alone() -> None:
    starts = np.array([0, 255], np.uint8)
    made = Emitted(lambda em, starts: clamped(em, em.cast(starts, I32), [7]), {"starts": starts})
    assert made.nodes == ["Cast", "Min"]
    made.gives(np.array([0, 7]))


LIMITS: list[tuple[Sequence[Dim], list[str]]] = [
    ([B, 3], ["Cast", "Max", "Shape", "Concat", "Min"]),
    ([B, B], ["Cast", "Shape", "Squeeze", "Clip"]),
]


@pytest.mark.parametrize(("limits", "nodes"), LIMITS)
def test_symbolic_limits_are_i64(limits: Sequence[Dim], nodes: list[str]) -> None:
    inputs = {"x": np.zeros(5, np.float32), "starts": np.array([[-1, 3], [9, 9]], np.int32)}
    made = Emitted(lambda em, x, starts: clamped(em, starts, limits), inputs, {"x": [B]})
    assert (sorted(made.nodes), made.outputs[0].dtype) == (sorted(nodes), I64)
    high = [5, 3] if limits[1] == 3 else [5, 5]
    made.gives(np.clip(inputs["starts"], 0, high))


def test_no_element_exceeds_a_symbolic_limit() -> None:
    def build(em: Emitter, starts: oir.Value) -> oir.Value:
        return clamped(em, em.Mul(starts, em.scalar(0, I32)), [FEWER])

    made = Emitted(build, {"starts": np.array([3, 4], np.int32)})
    assert (made.nodes, made.outputs[0].dtype) == (["Mul"], I32)


JOINS: list[tuple[str, int, Sequence[str], Sequence[int], Sequence[int], bool]] = [
    # columns of one start each: every one is compared with its own limit
    ("columns", 1, ["u1", "u2"], [1, 1], [255, 65535], False),
    ("columns", 1, ["u2", "u1"], [1, 1], [255, 65535], True),
    # rows: each holds starts of both kinds
    ("rows", 0, ["u1", "u2"], [2, 2], [255, 65535], True),
    # fewer parts than columns
    ("wide", 1, ["u1", "u2"], [2, 1], [255, 255, 65535], True),
]


@pytest.mark.parametrize(("name", "axis", "types", "widths", "limits", "is_clamped"), JOINS)
def test_joined_columns(
    name: str,
    axis: int,
    types: Sequence[str],
    widths: Sequence[int],
    limits: Sequence[int],
    is_clamped: bool,
) -> None:
    rows = 1 if axis == 0 else 3
    inputs = {
        f"x{place}": np.full((rows, width), np.iinfo(kind).max, kind)
        for place, (kind, width) in enumerate(zip(types, widths, strict=True))
    }

    def build(em: Emitter, **values: oir.Value) -> oir.Value:
        parts = [em.cast(x, I32) for x in values.values()]
        return clamped(em, em.concat(parts, axis=axis), limits)

    made = Emitted(build, inputs)
    assert made.nodes == ["Cast", "Cast", "Concat", *(["Min"] if is_clamped else [])]
    starts = np.concatenate([array.astype(np.int64) for array in inputs.values()], axis)
    made.gives(np.minimum(starts, limits))


# -- starts that follow from shapes -----------------------------------------------------------

FOLLOWING: list[tuple[list[Dim], Sequence[Dim], bool]] = [
    ([FEWER], [FEWER], True),
    ([0, FEWER], [0, FEWER], True),
    ([FEWER, 0], [0, FEWER], False),
    ([HALF, 0, FEWER, 1], [FEWER, 1], False),  # b // 2 <= b - 1 is not proven
    ([0, HALF, FEWER, 0], [FEWER, B], True),
    ([0, HALF, 0, canonical(B + 1)], [FEWER, B], False),
    ([canonical(B - 2)], [FEWER], False),  # may be -1
    ([0], [FEWER], False),  # known, not following
]


def following(em: Emitter, starts: oir.Value, dims: Sequence[Dim]) -> oir.Value:
    contents = np.empty(len(dims), object)
    contents[:] = [expression(dim) for dim in dims]
    return holding(starts, contents)


@pytest.mark.parametrize(("dims", "limits", "inside"), FOLLOWING)
def test_what_follows_from_shapes_is_clamped_unless_proven(
    dims: list[Dim], limits: Sequence[Dim], inside: bool
) -> None:
    found: list[Any] = []

    def build(em: Emitter, x: oir.Value, starts: oir.Value) -> oir.Value:
        starts = following(em, starts, dims)
        found.append(starts_inside(starts, limits))
        return clamped(em, starts, limits)

    rows = np.zeros((len(dims) // len(limits), len(limits)), np.int16)
    inputs = {"x": np.zeros(5, np.float32), "starts": rows}
    made = Emitted(build, inputs, {"x": [B]})
    assert found == [dims if inside else None]
    assert (made.nodes == ["Cast"]) == inside
    assert made.outputs[0].dtype == I64


@pytest.mark.parametrize(("index", "nodes"), [("i4", []), ("i8", []), ("i2", ["Cast"])])
def test_proven_starts_keep_a_type_that_gather_takes(index: str, nodes: list[str]) -> None:
    def build(em: Emitter, starts: oir.Value) -> oir.Value:
        return clamped(em, following(em, starts, [FEWER]), [FEWER])

    assert Emitted(build, {"starts": np.zeros(1, index)}).nodes == nodes


ENDS: list[tuple[Dim, Dim, Dim]] = [
    (FEWER, B, -1),
    (canonical(B - 3), B, -3),
    (HALF, B, HALF),
    (0, B, 0),
    (3, 5, 3),
    (B, canonical(2 * B), B),
]


@pytest.mark.parametrize(("index", "extent", "expected"), ENDS)
def test_an_index_counts_from_the_end_where_that_is_simpler(
    index: Dim, extent: Dim, expected: Dim
) -> None:
    assert from_either_end(index, extent) == expected


def test_the_last_row_needs_no_extent() -> None:
    def build(em: Emitter, x: oir.Value, starts: oir.Value) -> oir.Value:
        return row_index(em, following(em, starts, [FEWER]), FEWER)

    inputs = {"x": np.zeros(5, np.float32), "starts": np.zeros(1, np.int32)}
    made = Emitted(build, inputs, {"x": [B]})
    assert made.nodes == []
    made.gives(np.int64(-1))
    first = Emitted(lambda em, starts: row_index(em, starts, 6), {"starts": np.array(9, "i4")})
    assert first.nodes == ["Clip"]
    first.gives(np.int64(6))


# -- starts that are known ----------------------------------------------------------------------


def test_constant_starts() -> None:
    found: dict[str, Any] = {}

    def build(em: Emitter, x: oir.Value, y: oir.Value) -> oir.Value:
        found["constant"] = constant_starts(em, em.i64([4, 5]))
        found["same"] = constant_starts(em, em.Expand(em.i64([7]), em.i64([3])))
        # Its elements are known, and there are several.
        found["joined"] = constant_starts(em, em.Concat(em.i64([1]), em.i64([2]), axis=0))
        found["symbolic"] = constant_starts(em, em.expand(em.i64([7]), [B]))
        found["input"] = constant_starts(em, y)
        return x

    Emitted(build, {"x": np.zeros(5, "f4"), "y": np.zeros(2, "i4")}, {"x": [B]})
    assert found.pop("symbolic") is None
    assert found.pop("input") is None
    assert {name: array.tolist() for name, array in found.items()} == {
        "constant": [4, 5],
        "same": [7, 7, 7],
        "joined": [1, 2],
    }


KNOWN: list[tuple[str, Any, Sequence[Dim], Any]] = [
    ("i4", [-1, 0, 5, 6], [5], [0, 0, 5, 5]),
    ("i1", [[-128, 127]], [126, 5], [[0, 5]]),
    ("u8", [2**64 - 1, 2**63, 4], [5], [5, 5, 4]),
    ("u1", [[255, 255]], [254, 256], [[254, 255]]),
    ("i4", [0, 0], [B], [0, 0]),
    ("u4", [0], [FEWER], [0]),
    ("i4", [0, 1], [B], None),
    ("i4", [-1], [B], None),
]


@pytest.mark.parametrize(("index", "starts", "limits", "expected"), KNOWN)
def test_clamped_constant(index: str, starts: Any, limits: Sequence[Dim], expected: Any) -> None:
    found = clamped_constant(np.array(starts, index), limits)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.dtype, found.tolist()) == (np.int64, expected)
    assert clamped_constant(None, limits) is None


# -- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["i4", "i8"])
@pytest.mark.parametrize("sizes", [(2, 3), (1, B)])
def test_window(index: str, sizes: Sequence[Dim]) -> None:
    """Behind axis 0 of a tensor of shape (4, 9, b + 4)."""
    x = np.arange(4 * 9 * 8).reshape(4, 9, 8).astype(np.float32)
    inputs = {"x": x, "starts": np.array([5, 2], index), "y": np.zeros(4, np.float32)}
    made = Emitted(
        lambda em, x, starts, y: window(em, x, [1, 2], starts, sizes), inputs, {"y": [B]}
    )
    static = [4 if isinstance(size, oir.SymbolicDim) else size for size in sizes]
    assert made.nodes[-2:] == ["Add", "Slice"]
    assert tuple(made.outputs[0].shape or ()) == (4, *sizes)
    made.gives(x[:, 5 : 5 + static[0], 2 : 2 + static[1]])

"""Gathers of many numbers by the index into the flat tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax.scipy import ndimage
from rewriting import Build, Rewrite, fires, model_of
from symbolic import free
from target_costs import use_costs, with_costs

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.match.views import first
from hlo2onnx.raising.rules.algebra.flat_gather import FlatGather, ScalarGather
from hlo2onnx.targets import load_target

T = oir.DataType
MANY = with_costs(many_elements=4)
IMAGE = np.arange(24, dtype=np.float32).reshape(4, 6)
ROWS = np.array([0, 3, 4, -1, -4, -5, 2**31 - 1, -(2**31)], np.int32)
COLUMNS = np.array([5, 0, 6, -6, -7, 2, -1, 1], np.int32)


def limited(b: GraphBuilder, i: oir.Value, extent: int, lowest: int = 0) -> oir.Value:
    return b.Clip(i, b.scalar_like(lowest, i), b.scalar_like(extent - 1, i))


def from_the_end(b: GraphBuilder, i: oir.Value, extent: int) -> oir.Value:
    shifted = b.Add(i, b.scalar_like(extent, i))
    return limited(b, b.Where(b.Less(i, b.scalar_like(0, i)), shifted, i), extent)


def pairs(b: GraphBuilder, i: oir.Value, j: oir.Value) -> oir.Value:
    columns = [b.unsqueeze(x, [len(x.shape or ())]) for x in (i, j)]
    return b.cast(b.concat(columns, len(columns[0].shape or ()) - 1), T.INT64)


def rewritten(build: Build, *names: str, i: np.ndarray = ROWS, x: np.ndarray = IMAGE) -> None:
    inputs = {"x": x, "i": i, "j": COLUMNS.reshape(i.shape).astype(i.dtype)}
    Rewrite(build, inputs, FlatGather(), target=MANY).gives(*names)


def test_a_vector() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, limited(b, i, 4, -4), axis=0)

    inputs = {"x": IMAGE[:, 0], "i": ROWS}
    Rewrite(build, inputs, ScalarGather(), target=MANY).gives("Clip", "GatherElements")
    inputs["i"] = ROWS.reshape(2, 4)
    names = ("Clip", "GatherElements", "Reshape", "Reshape")
    Rewrite(build, inputs, ScalarGather(), target=MANY).gives(*names)


@pytest.mark.parametrize(("last", "dtype"), [(3, T.INT32), (2**31, T.INT64)])
def test_unsigned_indices(last: int, dtype: oir.DataType) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, b.cast(b.Min(i, b.scalar(last, T.UINT32)), T.INT64), axis=0)

    inputs = {"x": IMAGE[:, 0], "i": np.array([0, 1, 2, 3], np.uint32)}
    rewrite = Rewrite(build, inputs, ScalarGather(), target=MANY)
    rewrite.gives("Min", "Cast", "GatherElements")
    (cast,) = (node for node in rewrite.model.graph if node.op_type == "Cast")
    assert cast.outputs[0].dtype == dtype


def test_rows_of_numbers_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, limited(b, i, 4), axis=0)

    Rewrite(build, {"x": IMAGE, "i": ROWS}, ScalarGather(), target=MANY).nothing()


def test_few_numbers_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, limited(b, i, 4), axis=0)

    Rewrite(build, {"x": IMAGE[:, 0], "i": ROWS[:3]}, ScalarGather(), target=MANY).nothing()
    assert not fires(
        build, {"x": IMAGE[:, 0], "i": ROWS}, ScalarGather(), target=load_target("onnx")
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_pairs(shape: tuple[int, ...], dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, limited(b, i, 4), limited(b, j, 6)))

    names = ["Clip", "Clip", "Mul", "Add", "Reshape", "GatherElements"]
    casts = ["Cast", "Cast"] if dtype == np.int64 else []
    flat = ["Reshape", "Reshape"] if len(shape) > 1 else []
    rewritten(build, *names, *casts, *flat, i=ROWS.reshape(shape).astype(dtype))


def test_the_first_index_may_count_from_the_end() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, limited(b, i, 4, -4), limited(b, j, 6)))

    rewritten(build, "Clip", "Clip", "Mul", "Add", "Reshape", "GatherElements")


@pytest.mark.parametrize(
    "lowest", [(-5, 0), (0, -1), (0, -6)], ids=["outside", "second", "second, all"]
)
def test_other_indices_stay(lowest: tuple[int, int]) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, limited(b, i, 4, lowest[0]), limited(b, j, 6, lowest[1])))

    inputs = {"x": IMAGE, "i": ROWS, "j": COLUMNS}
    assert not fires(build, inputs, FlatGather(), target=MANY)


def test_negative_indices() -> None:
    """The first one counts from the end, and so does one along an axis of 2^k elements."""

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, from_the_end(b, i, x.shape[0]), from_the_end(b, j, 4)))

    image = IMAGE.reshape(6, 4)
    rewritten(build, "Clip", "Clip", "BitwiseAnd", "Mul", "Add", "Reshape", "GatherElements",
              x=image)  # fmt: skip


def test_negative_indices_along_another_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, from_the_end(b, i, 4), from_the_end(b, j, 6)))

    names = ["Clip", "Less", "Add", "Where", "Clip", "Mul", "Add", "Reshape", "GatherElements"]
    rewritten(build, *names)


def test_bounds_of_joined_indices() -> None:
    """As the handler of gather emits them for unlike extents."""

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        joined = b.concat([b.unsqueeze(i, [1]), b.unsqueeze(j, [1])], 1)
        least = b.Max(joined, b.scalar(0, T.INT32))
        return b.GatherND(x, b.cast(b.Min(least, b.const(np.array([3, 5], "i4"))), T.INT64))

    names = ["Max", "Min"] * 2 + ["Mul", "Add", "Reshape", "GatherElements"]
    rewritten(build, *names)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_windows(dtype: type) -> None:
    """The handler of gather adds the places within a window to where it starts."""

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        starts = b.unsqueeze(pairs(b, limited(b, i, 3), limited(b, j, 4)), [1, 2])
        steps = np.stack(np.mgrid[:2, :3], -1)
        return b.GatherND(x, b.Add(starts, b.const(steps)))

    names = ["Clip", "Clip", "Reshape", "Reshape", "Add", "Add", "Mul", "Add"]
    names += ["Cast", "Cast"] if dtype == np.int64 else []
    rewritten(build, *names, *["Reshape"] * 3, "GatherElements", i=ROWS.astype(dtype))


def test_a_bound_beyond_i32() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        starts = pairs(b, limited(b, i, 4), limited(b, j, 6))
        return b.GatherND(x, b.Min(starts, b.const(np.array([2**32 + 1, 4]))))

    inputs = {"x": IMAGE, "i": ROWS, "j": COLUMNS}
    rewrite = Rewrite(build, inputs, FlatGather(), target=MANY)
    assert rewrite.nodes["Split"] or not rewrite.fired


def test_a_window_that_reaches_beyond() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        starts = b.unsqueeze(pairs(b, limited(b, i, 3), limited(b, j, 5)), [1, 2])
        return b.GatherND(x, b.Add(starts, b.const(np.stack(np.mgrid[:2, :3], -1))))

    inputs = {"x": IMAGE, "i": ROWS, "j": COLUMNS}
    assert not fires(build, inputs, FlatGather(), target=MANY)


@pytest.mark.parametrize("step", [5, -5])
def test_sums_beyond_i32(step: int) -> None:
    """Indices that the program adds in i64 do not wrap around in i32."""

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        starts = b.Add(pairs(b, i, j), b.i64([step, step]))
        return b.GatherND(x, b.Min(b.Max(starts, b.i64([0, 0])), b.i64([3, 5])))

    names = ["Cast", "Cast", *["Add", "Max", "Min"] * 2, "Cast", "Cast", "Mul", "Add"]
    rewritten(build, *names, "Reshape", "GatherElements")


def test_indices_that_are_not_joined_here() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.GatherND(x, b.cast(limited(b, i, 4), T.INT64))

    inputs = {"x": IMAGE, "i": np.stack([ROWS, COLUMNS], 1)}
    names = ["Split", "Clip", "Clip", "Mul", "Add", "Reshape", "Reshape", "Reshape"]
    Rewrite(build, inputs, FlatGather(), target=MANY).gives(*names, "GatherElements")


def test_rows() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
        return b.GatherND(x, pairs(b, limited(b, i, 4), limited(b, j, 2)))

    rewritten(build, "Clip", "Clip", "Mul", "Add", "Reshape", "Gather", x=IMAGE.reshape(4, 2, 3))


def test_batch_axes_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.GatherND(x, b.cast(limited(b, i, 6), T.INT64), batch_dims=1)

    inputs = {"x": IMAGE, "i": ROWS.reshape(4, 2, 1)}
    Rewrite(build, inputs, FlatGather(), target=MANY).nothing()


def test_an_index_beyond_i32_is_i64() -> None:
    def index_type(extent: int) -> oir.DataType:
        def build(b: GraphBuilder, x: oir.Value, i: oir.Value, j: oir.Value) -> oir.Value:
            table = b.expand(x, (1 << 16, extent))
            return b.GatherND(table, pairs(b, limited(b, i, 1 << 16), limited(b, j, extent)))

        model = model_of(build, {"x": np.float32(1), "i": ROWS, "j": COLUMNS})
        assert apply_rules(model, [FlatGather()], MANY)
        (node,) = (node for node in model.graph if node.op_type == "GatherElements")
        assert node.inputs[1] is not None and node.inputs[1].dtype is not None
        return node.inputs[1].dtype

    assert index_type(1 << 15) == T.INT32
    assert index_type((1 << 15) + 1) == T.INT64


PROGRAMS: dict[str, Callable[..., jax.Array]] = {
    "pairs": lambda x, i, j: x[i, j],
    "rows": lambda x, i, j: x.reshape(2, 2, 6)[i, j],
    "filled": lambda x, i, j: x.at[i, j].get(mode="fill", fill_value=7),
    "a vector": lambda x, i, j: x.reshape(-1)[i * j],
    "coordinates": lambda x, i, j: ndimage.map_coordinates(x, [i / 2, j / 3], 1, mode="wrap"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, many_elements=4)
    program = hlo2onnx.translate(jax.jit(PROGRAMS[name]).lower(jnp.asarray(IMAGE), ROWS, COLUMNS))
    fired = program.report.rules
    assert fired["flat-gather"] or fired["scalar-gather"], program.model
    found = program.verify(IMAGE, ROWS, COLUMNS)
    assert found.ok, found


PARTS = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


def parts(b: GraphBuilder, x: oir.Value, *columns: int) -> list[oir.Value]:
    """x[:, -1, column] for some columns."""
    inner = b.Gather(x, b.i64(-1), axis=1)
    return [b.Gather(inner, b.i64(column), axis=1) for column in columns]


def test_parts_of_a_part() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        return parts(b, x, 0, -1)

    Rewrite(build, {"x": PARTS}, FlatGather()).gives("Reshape", "Gather", "Reshape", "Gather")


def also_read(b: GraphBuilder, x: oir.Value, has_reader: bool) -> list[oir.Value]:
    (part,) = parts(b, x, 1)
    node = part.producer()
    assert node is not None
    return [part, b.Neg(first(node)) if has_reader else first(node)]


def twice(b: GraphBuilder, x: oir.Value, i: Any, j: Any, axis: int = 1) -> oir.Value:
    return b.Gather(b.Gather(x, i, axis=1), j, axis=axis)


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: also_read(b, x, has_reader=True),
        lambda b, x: also_read(b, x, has_reader=False),
        lambda b, x: twice(b, x, b.i64(1), b.i64(0), axis=0),
        lambda b, x: twice(b, x, b.i64([1]), b.i64(0)),
        lambda b, x: twice(b, x, b.i64(1), b.i64([0, 1])),
        lambda b, x: twice(b, free(b, x, 2, "n", 4, 5), b.i64(1), b.i64(0)),
        lambda b, x: twice(b, x, b.Size(b.Shape(x, end=1)), b.i64(0)),
    ],
)
def test_parts_that_stay(build: Callable[..., Any]) -> None:
    """Others read the part, the axes differ or are free, or an index is no constant number."""
    Rewrite(build, {"x": PARTS}, FlatGather()).nothing()

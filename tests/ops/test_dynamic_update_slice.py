"""dynamic_update_slice: known and computed starts, inside and outside of the operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_xla
from edge_values import edge_values
from emitting import Emitted
from mlir_text import Start, Starts, tensor

import hlo2onnx
from dialect_handlers.stablehlo.dynamic_slices import dynamic_update_slice
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.lowering.emitter import Emitter


def updated(
    dims: Sequence[int],
    starts: Sequence[Start],
    sizes: Sequence[int],
    element: str = "f32",
    index: str = "i32",
    **options: Any,
) -> Run:
    at = Starts.of(starts, index, first=2)
    operand, update = tensor(dims, element), tensor(sizes, element)
    types = ", ".join([operand, update, *at.types])
    parameters = f"%arg0: {operand}, %arg1: {update}{at.parameters}"
    text = f"""
    module {{ func.func public @main({parameters}) -> {operand} {{
      {at.constants}
      %0 = "stablehlo.dynamic_update_slice"({", ".join(["%arg0", "%arg1", *at.names])}) :
        ({types}) -> {operand}
      return %0 : {operand}
    }} }}
    """
    x, y = (elements(extents, element, shift) for extents, shift in ((dims, 0), (sizes, 3)))
    return against_xla(text, x, y, *at.inputs, **options).bit_exact()


def elements(dims: Sequence[int], element: str, shift: int) -> np.ndarray:
    """Edge values; distinct numbers in f32."""
    count = int(np.prod(dims))
    if element == "f32":
        return (np.arange(count, dtype=np.float32) * 10 + shift).reshape(dims)
    return np.resize(np.roll(edge_values(element), shift), count).reshape(dims)


CASES: list[tuple[Sequence[int], Sequence[Start], Sequence[int], list[str]]] = [
    # the whole operand, wherever it would start
    ((7, 3), ("@2", "@9"), (7, 3), ["Identity"]),
    ((7, 3), (2, -1), (7, 3), ["Identity"]),
    # a small window is scattered
    ((70, 3), ("@2", "@0"), (1, 3), ["Clip", "Cast", "Reshape", "ScatterND"]),
    ((70, 3), ("@-2", 5), (4, 3), ["Clip", "Cast", "Add", "ScatterND"]),
    ((70, 3), (99, 5), (4, 3), ["ScatterND"]),
    (
        (4, 60, 8),
        (0, "@59", 0),
        (4, 1, 8),
        ["Clip", "Cast", "Reshape", "Concat", "Add", "ScatterND"],
    ),
    # a large one is put between slices
    ((7, 3), ("@2", 0), (4, 3), ["Clip", "Cast", "Add", "ScatterND"]),
    ((7, 3), (2, 0), (4, 3), ["Slice", "Slice", "Concat"]),
    ((7, 3), (-2, 0), (4, 3), ["Slice", "Concat"]),
    ((7, 3), (9, 0), (4, 3), ["Slice", "Concat"]),
    ((7, 5), (2, 1), (4, 3), ["Slice"] * 4 + ["Concat"] * 2),
    # indices of many rows are not stored in the model
    ((36000, 64), (2, 0), (4100, 64), ["Slice", "Slice", "Concat"]),
    ((), (), (), ["Identity"]),
    ((0, 3), ("@1", "@1"), (0, 3), ["Identity"]),
    ((5, 3), ("@1", "@1"), (0, 3), ["Identity"]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_forms(
    case: tuple[Sequence[int], Sequence[Start], Sequence[int], list[str]],
) -> None:
    dims, starts, sizes, nodes = case
    updated(dims, starts, sizes).graph_is(*nodes)


@pytest.mark.costly
@pytest.mark.parametrize("start", [0, 1, 3, 4, 9, -1, -9])
def test_computed_starts_are_clamped(start: int) -> None:
    updated((7, 5), (f"@{start}", f"@{start}"), (4, 2))
    updated((70, 5), (f"@{start + 60}", f"@{start}"), (4, 2))
    updated((7, 5), (f"@{start}", start), (4, 2))


@pytest.mark.wide
@pytest.mark.parametrize("index", ["i8", "i16", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_index_types(index: str) -> None:
    info = np.iinfo(numpy_type(index))
    for start in (info.min, info.max, info.max - 1, info.max // 2 + 1, 3):
        updated((70,), (f"@{start}",), (4,), "f32", index)
        updated((7,), (f"@{start}",), (4,), "f32", index)
        updated((7,), (start,), (4,), "f32", index)


ELEMENTS = [
    "f64", "f16", "bf16", "f8E4M3FN", "i8", "i16", "i64", "ui8", "ui16", "ui32", "ui64", "i1",
    "complex<f32>",
]  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("element", ELEMENTS)
def test_element_types(element: str) -> None:
    updated((70, 3), ("@2", "@0"), (1, 3), element)
    updated((7, 3), ("@2", "@0"), (4, 2), element)


@pytest.mark.parametrize(("row", "fits"), [((1, 3), True), ((2, 3), True), ((1, 2), False)])
def test_rows_of_a_stack(row: tuple[int, ...], fits: bool) -> None:
    """What is written to a buffer that a loop returns as a stack of rows is kept as it is."""

    def build(em: Emitter, x: oir.Value, u: oir.Value) -> list[oir.Value]:
        em.environment = {"x": (x,), "u": (u,)}
        em.rows[(x,)] = (x,)
        op: Any = SimpleNamespace(operands=["x", "u"])
        if fits:
            assert dynamic_update_slice(em, op) == [(x,)]
            assert em.rows == {(x,): (u,)}
        else:
            with pytest.raises(UnsupportedOp, match="less than a whole row"):
                dynamic_update_slice(em, op)
        return []

    assert not Emitted(build, {"x": np.zeros((7, 3)), "u": np.zeros(row)}).nodes


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("start", [-9, 0, 2, 9])
def test_made_values_are_updated_in_place(axis: int, dtype: type, start: int) -> None:
    """By TensorScatter, from opset 24 on; it writes batches apart, and so not along their axis."""

    def written(x: jax.Array, y: jax.Array, at: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(x[::-1], y, at, axis)

    x = np.arange(4 * 5 * 6, dtype=dtype).reshape(4, 5, 6)
    y = -x.take(np.arange(2), axis)
    program = hlo2onnx.translate(written, x, y, np.int32(start), opset=24)
    assert bool(program.report.nodes["TensorScatter"]) is (axis > 0)
    np.testing.assert_array_equal(program(x, y, np.int32(start)), written(x, y, start))


@pytest.mark.parametrize(
    ("start", "operators"),
    [
        (lambda t, s: t - s, ["Concat", "Slice"]),
        (lambda t, s: t, ["ScatterND"]),  # clamped at run time
        (lambda t, s: t - 2 * s, ["ScatterND"]),
    ],
)
def test_the_end_of_a_free_axis(start: Callable[[int, int], int], operators: list[str]) -> None:
    def write(x: jax.Array, update: jax.Array) -> jax.Array:
        places = (0, start(x.shape[1], update.shape[1]), 0)
        return jax.lax.dynamic_update_slice(x, update, places)

    specs = ("b, t, 64", "b, s, 64")
    program = hlo2onnx.translate(write, *specs, constraints=["t >= 2*s"])
    floats = (x for x in program.model.graph if x.outputs[0].dtype == oir.DataType.FLOAT)
    found = {node.op_type for node in floats}
    assert sorted(found) == operators
    for t, s in ((5, 2), (4, 2), (2, 1)):
        rng = np.random.default_rng(0)
        x, update = (rng.normal(size=(2, n, 64)).astype(np.float32) for n in (t, s))
        np.testing.assert_array_equal(program(x, update), write(x, update))


@pytest.mark.parametrize("room", ["s", "s + 1"])
def test_a_place_that_wraps_around(room: str) -> None:
    """As in a cache of tunix: the remainder of an extent of an input by a larger one."""

    def write(past: jax.Array, update: jax.Array, rest: jax.Array) -> jax.Array:
        x = jnp.concatenate([past, rest], 1)
        place = jnp.full(1, past.shape[1])[0] % x.shape[1]
        return jax.lax.dynamic_update_slice(x, update, (0, place, 0))

    specs = ("b, t - s, 64", "b, s, 64", f"b, {room}, 64")
    program = hlo2onnx.translate(write, *specs, constraints=["t >= s"])
    if jax.__version_info__ >= (0, 12):  # with 0.10 the Mod stays
        assert "Mod" not in program.report.nodes
        assert ("ScatterND" in program.report.nodes) == (room != "s")
    for past, new in ((0, 1), (0, 3), (5, 2), (2, 5)):
        sizes = (past, new, new + (room != "s"))
        rng = np.random.default_rng(0)
        given = [rng.normal(size=(2, n, 64)).astype(np.float32) for n in sizes]
        np.testing.assert_array_equal(program(*given), write(*given))

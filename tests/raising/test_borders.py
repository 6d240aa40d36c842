"""Borders of a tensor's own rows: where they are a mode of Pad, and where they are not."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

import hlo2onnx
from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.borders import PadModes

X = np.arange(3 * 4 * 3, dtype=np.float32).reshape(3, 4, 3)
WIDTHS = [((0, 0), (1, 1), (0, 0)), ((1, 0), (2, 3), (0, 2)), ((0, 0), (0, 0), (2, 1))]


def padded(x: np.ndarray, **options: object) -> hlo2onnx.OnnxProgram:
    """jnp.pad translated, its result compared with JAX's."""
    function = lambda x: jnp.pad(x, **options)  # noqa: E731
    with jax.enable_x64(True):
        program = hlo2onnx.translate(jax.jit(function).lower(x))
        want = np.asarray(jax.jit(function)(x))
    np.testing.assert_array_equal(program(x), want)
    return program


def operators(program: hlo2onnx.OnnxProgram) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8", "?"])
def test_modes(mode: str, widths: tuple[tuple[int, int], ...], dtype: str) -> None:
    if mode == "reflect":
        widths = tuple(
            (min(low, dim - 1), min(high, dim - 1))
            for (low, high), dim in zip(widths, X.shape, strict=True)
        )
    found = operators(padded(X.astype(dtype), pad_width=widths, mode=mode))
    assert found == (["Cast", "Pad", "Cast"] if dtype == "f2" else ["Pad"])


@pytest.mark.parametrize(
    "options",
    [
        {"pad_width": ((0, 0), (2, 2), (0, 0)), "mode": "symmetric"},
        {"pad_width": ((0, 0), (5, 0), (0, 0)), "mode": "wrap"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "reflect", "reflect_type": "odd"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "linear_ramp"},
    ],
)
def test_other_borders(options: dict[str, object]) -> None:
    found = padded(X, **options).model_proto.graph.node
    assert not any(node.op_type == "Pad" and node.attribute for node in found)


def test_types_without_the_kernel() -> None:
    assert "Pad" not in operators(padded(X.astype(ml_dtypes.bfloat16), pad_width=1, mode="edge"))


def test_no_wrap_in_opset_18() -> None:
    function = jax.jit(lambda x: jnp.pad(x, ((0, 0), (2, 1), (0, 0)), mode="wrap"))
    program = hlo2onnx.translate(function.lower(X), opset=18)
    assert "Pad" not in operators(program)
    np.testing.assert_array_equal(program(X), function(X))


def _row(b: GraphBuilder, x: oir.Value, *bounds: int) -> oir.Value:
    return b.slice(x, *([bound] for bound in bounds[:2]), [1], list(bounds[2:]) or [1])


def one_side(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 0, 1), x], 1)


def shared(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    low = _row(b, x, 0, 1)
    return [b.concat([low, x], 1), b.Neg(low)]


@pytest.mark.parametrize(
    ("build", "left"), [(one_side, ["Pad"]), (shared, ["Neg", "Pad", "Slice"])]
)
def test_where_it_fires(build: Callable[..., oir.Value], left: list[str]) -> None:
    Rewrite(build, {"x": X}, PadModes()).gives(*left)


def twice(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([x, x], 1)


def second_row(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 1, 2), x, _row(b, x, 3, 4)], 1)


def another_axis(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([b.slice(x, [0], [4], [1], [1]), x], 0)


def another_tensor(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, b.Neg(x), 0, 1), x], 1)


def rows_alone(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.concat([_row(b, x, 0, 1), _row(b, x, 0, 1), _row(b, x, 2, 3)], 1)


@pytest.mark.parametrize("build", [twice, second_row, another_axis, another_tensor, rows_alone])
def test_where_it_must_not(build: Callable[..., oir.Value]) -> None:
    Rewrite(build, {"x": X}, PadModes()).nothing()


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_empty_tensors(mode: str) -> None:
    assert "Pad" not in operators(
        padded(np.zeros((3, 0), np.float32), pad_width=((1, 1), (0, 0)), mode=mode)
    )


def test_long_chains() -> None:
    def function(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(1500):
            y = jnp.concatenate([y, x])
        return y

    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(
        hlo2onnx.translate(jax.jit(function).lower(x))(x), np.tile(x, 1501)
    )


def test_pads_of_one_axis_stay_apart() -> None:
    """Wrapped twice it goes round the padded tensor."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        inner = b.Pad(x, b.i64([0, 1, 0, 0, 0, 0]), mode="wrap")
        result: oir.Value = b.Pad(inner, b.i64([0, 0, 0, 0, 2, 0]), mode="wrap")
        return result

    Rewrite(build, {"x": X}, PadModes()).nothing()

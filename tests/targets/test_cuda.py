"""The target ort-cuda: its detours have the right numbers, and it says what stays on the CPU.

No kernel of CUDA runs here: ONNX Runtime runs the detours on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import onnxruntime
import pytest
from edge_values import near_powers
from rewriting import model_of

import hlo2onnx
from hlo2onnx import TranslationError, UsageError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.legalize.kernels import has_kernel
from hlo2onnx.targets.placement import placed

T = oir.DataType
Build = Callable[..., oir.Value]
CUDA = load_target("ort-cuda")
TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def outcome(build: Build, *arrays: np.ndarray) -> np.ndarray:
    """What a graph gives after strict legalization; each of its nodes has a kernel."""
    given = dict(zip("xyz", arrays, strict=False))
    model = model_of(build, given, 21)
    legalize(model, CUDA, "xla", Report(), placement="strict")
    assert all(has_kernel(node, CUDA, 21) for node in all_nodes(model.graph))
    program = OrtProgram(oir.to_proto(model).SerializeToString())
    return np.asarray(program(given)[0])


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_on_bits(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = near_powers([0, 1, 3, info.bits - 2, info.bits - 1], dtype, 60)
    other = np.roll(x, 7)
    for name, right in {
        "And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor,
    }.items():  # fmt: skip
        made = outcome(lambda b, x, y, name=name: b.op(f"Bitwise{name}", x, y), x, other)
        np.testing.assert_array_equal(made, right(x, other))
        masks = [0, 1, 6, 0x70, 0x45, info.max, info.max - 3, info.min, info.max // 2, -1, -2]
        for mask in masks:
            number = np.array(mask & (2**info.bits - 1), f"u{x.itemsize}").view(dtype)
            made = outcome(
                lambda b, x, name=name, number=number: b.op(f"Bitwise{name}", x, b.const(number)), x
            )
            np.testing.assert_array_equal(made, right(x, number), err_msg=f"{name} {mask}")
    np.testing.assert_array_equal(outcome(lambda b, x: b.BitwiseNot(x), x), ~x)


@pytest.mark.parametrize("dtype", TYPES[4:])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(dtype: type, direction: str) -> None:
    bits = np.iinfo(dtype).bits
    x = near_powers([0, 1, 3, bits - 1], dtype, bits)
    counts = np.arange(bits, dtype=dtype)
    right = np.left_shift(x, counts) if direction == "LEFT" else np.right_shift(x, counts)

    def by_constants(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.BitShift(x, b.const(counts), direction=direction)

    def by_variables(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.BitShift(x, y, direction=direction)

    np.testing.assert_array_equal(outcome(by_constants, x), right)
    np.testing.assert_array_equal(outcome(by_variables, x, counts), right)


@pytest.mark.parametrize("dtype", [*TYPES[:7], np.bool_])
def test_moves_and_borders(dtype: type) -> None:
    x = (np.arange(-6, 6).reshape(3, 4) * 37).astype(dtype)
    made = outcome(lambda b, x: b.Pad(x, b.i64([1, 0, 2, 3]), b.scalar_like(1, x)), x)
    np.testing.assert_array_equal(made, np.pad(x, ((1, 2), (0, 3)), constant_values=dtype(1)))
    made = outcome(lambda b, x: b.Tile(x, b.i64([2, 1])), x)
    np.testing.assert_array_equal(made, np.tile(x, (2, 1)))
    made = outcome(lambda b, x: b.Where(b.cast(x, T.BOOL), x, b.scalar_like(0, x)), x)
    np.testing.assert_array_equal(made, x)
    made = outcome(lambda b, x: b.GatherND(x, b.i64([[2, 3], [0, 1]])), x)
    np.testing.assert_array_equal(made, x[[2, 0], [3, 1]])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16])
def test_comparisons_and_remainders_of_narrow_types(dtype: type) -> None:
    x, y = near_powers([0, 1, 7], dtype, 50), near_powers([1, 3, 6], dtype, 50, seed=1)
    y = np.where(y == 0, dtype(3), y)
    for name, right in {"Less": np.less, "Equal": np.equal, "Mod": np.mod}.items():
        made = outcome(lambda b, x, y, name=name: b.op(name, x, y), x, y)
        np.testing.assert_array_equal(made, right(x, y))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.int16])
def test_reductions_that_the_kernels_compute_in_f32(dtype: type) -> None:
    x = near_powers([24, 30, np.iinfo(dtype).bits - 2], dtype, 6, 700)
    for name, right in {
        "ReduceMax": x.max(1), "ReduceMin": x.min(1), "ReduceSum": x.sum(1, dtype=dtype),
        "ArgMax": x.argmax(1), "ArgMin": x.argmin(1),
    }.items():  # fmt: skip
        if name.startswith("Arg"):
            made = outcome(lambda b, x, name=name: b.op(name, x, axis=1, keepdims=0), x)
        else:
            made = outcome(lambda b, x, name=name: b.op(name, x, b.i64([1]), keepdims=0), x)
        np.testing.assert_array_equal(made, right, err_msg=name)


def test_extremes_of_bool_and_of_nothing() -> None:
    x = np.array([[True, False], [False, False]])
    made = outcome(lambda b, x: b.ReduceMax(x, b.i64([1]), keepdims=0), x)
    assert [*made] == [True, False]
    empty = outcome(lambda b, x: b.ReduceMax(x, b.i64([1]), keepdims=0), np.ones((2, 0), np.int32))
    assert [*empty] == [np.iinfo(np.int32).min] * 2


def test_reductions_of_a_free_dimension() -> None:
    def reduced(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x.min(1, initial=2**31 - 1), x.sum(1)

    program = hlo2onnx.translate(reduced, "int32[2, n]", target="ort-cuda", placement="strict")
    for count in (0, 1, 900):
        x = near_powers([24, 30], np.int32, 2, count or 1)[:, :count]
        for made, right in zip(program(x), reduced(jnp.array(x)), strict=True):
            np.testing.assert_array_equal(made, right)


def test_clip_of_integers() -> None:
    x = near_powers([0, 5, 31], np.int32, 40)
    low, high = np.iinfo(np.int32).min + 1, 1 << 30
    made = outcome(lambda b, x: b.Clip(x, b.scalar_like(low, x), b.scalar_like(high, x)), x)
    np.testing.assert_array_equal(made, np.clip(x, low, high))


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_argmax_of_a_program(dtype: type) -> None:
    x = np.array([[3, 9, 9], [-(2**31), -(2**31), -(2**31) + 1]]).astype(dtype)
    if dtype == np.float32:
        x[1, 1] = np.nan
    program = hlo2onnx.translate(partial(jnp.argmax, axis=1), x, target="ort-cuda")
    np.testing.assert_array_equal(program(x), jnp.argmax(x, axis=1))


@pytest.fixture
def without_log(tmp_path: Path) -> Path:
    """CUDA without Log, for which there is no detour."""
    path = tmp_path / "ort-cuda-without-log.json"
    path.write_text(json.dumps({"extends": "ort-cuda", "ops": {"Log": {}}}))
    return path


def looped(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, y: jnp.log(y) * 0.5, x) + jnp.log(x)


def test_hyperbolic_and_inverse_functions_have_detours() -> None:
    def functions(x: jax.Array) -> jax.Array:
        y = jnp.sinh(x) + jnp.cosh(x) + jnp.arctan2(x, x[::-1])
        return y + jnp.arcsin(x / 4) + jnp.arctanh(x / 4) + jnp.arccosh(x + 5)

    x = np.array([0.1, -2, 3], np.float32)
    program = hlo2onnx.translate(functions, x, target="ort-cuda", placement="strict")
    np.testing.assert_allclose(program(x), functions(jnp.array(x)), rtol=1e-6)


def test_mixed_placement_says_what_stays_on_the_cpu(without_log: Path) -> None:
    x = np.array([0.1, 2, 3], np.float32)
    program = hlo2onnx.translate(looped, x, target=without_log, without=["loop-unroll"])
    assert program.report.fallback in (
        {"Log f32": 1, "Log f32 in Scan": 1},
        {"Log f32": 1, "Log f32 in Loop": 1},
    )
    (note,) = (note for note in program.report.notes if note.startswith("ort-cuda"))
    assert "nodes on the CPU 2 (1 in loops)" in note
    assert "(1 in each trip of a loop)" in note
    assert "on CPU" in str(program.report)
    assert program.verify(runtime="ort-cpu").ok
    found = hlo2onnx.check(looped, x, target=without_log, without=["loop-unroll"])
    whys = [part.why for part in found.slow if part.what == "Log f32"]
    assert len(whys) == 2 and "in each trip of a loop" in whys[0]
    assert found.ok and note in found.notes


def test_strict_placement_refuses_what_has_no_kernel(without_log: Path) -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(TranslationError, match=r"Log: ort-cuda.* has no kernel") as raised:
        hlo2onnx.translate(looped, x, target=without_log, placement="strict")
    assert "placement='mixed'" in str(raised.value)
    assert "test_cuda.py" in str(raised.value)
    assert not hlo2onnx.check(looped, x, target=without_log, placement="strict").ok
    with pytest.raises(UsageError, match="placement='loose' is not one of mixed, strict"):
        hlo2onnx.translate(looped, x, target=without_log, placement="loose")


def test_a_wrong_kernel_is_no_reason_to_fall_back() -> None:
    """The runtime would take it: only a missing kernel sends a node to the CPU."""
    x = np.ones((2, 3), np.int32)
    model = model_of(lambda b, x: b.ReduceMean(x, b.i64([1])), {"x": x}, 21)
    with pytest.raises(TranslationError, match="ReduceMean: ort-cuda"):
        legalize(model, CUDA, "xla", Report())


def test_other_targets_place_nothing_elsewhere() -> None:
    x = np.ones(3, np.float32)
    for placement in ("mixed", "strict"):
        program = hlo2onnx.translate(looped, x, placement=placement)
        assert not program.report.fallback
        assert not any("copies between" in note for note in program.report.notes)


def copies(build: Build, *arrays: np.ndarray) -> tuple[int, int, int]:
    model = model_of(build, dict(zip("xyz", arrays, strict=False)), 21)
    found = placed([model.graph], CUDA)
    return len(found.nodes), found.shapes, found.copies.total()


def test_copies_between_the_devices() -> None:
    """Each agrees with ONNX Runtime 1.31's own partition."""
    x, n = np.ones((2, 3), np.float32), np.ones(2, np.int64)
    assert copies(lambda b, x: b.Add(b.Sinh(b.Abs(x)), x), x) == (1, 0, 2)
    assert copies(lambda b, x: b.Sinh(b.Sinh(x)), x) == (2, 0, 0)
    assert copies(lambda b, x: b.Add(b.Sinh(x), x), x) == (1, 0, 2)
    types = [(T.FLOAT, (2, 3))]
    assert copies(lambda b, x: b.op("Reshape", x, b.Neg(b.Shape(x)), types=types), x) == (0, 1, 0)
    assert copies(lambda b, x, y: b.op("Expand", x, b.Neg(y), types=types), x, n) == (0, 0, 1)


def test_a_table_names_its_fallback(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    path.write_text(json.dumps({"extends": "ort-cuda", "about": "x"}))
    fallback = load_target(str(path)).fallback
    assert fallback is not None and fallback.name == "ort-cpu"
    path.write_text(json.dumps({"extends": "ort-cpu", "fallback": "acme-cpu"}))
    with pytest.raises(ValueError, match="unknown target 'acme-cpu'"):
        load_target(str(path))


def test_without_cuda_the_cpu_verifies() -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build of ONNX Runtime has CUDA")
    found = hlo2onnx.translate(jnp.sin, np.ones(3, np.float32), target="ort-cuda").verify()
    assert found.ok
    assert "no CUDAExecutionProvider; install onnxruntime-gpu" in found.fallback


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_products_of_integers(dtype: type) -> None:
    """They are computed in f64. Without that rule no type has a kernel."""
    x = np.array([[-7, 2], [2**31 - 1, 5], [-(2**31), 3]], np.int64).astype(dtype)
    program = hlo2onnx.translate(jnp.matmul, x, x.T, target="ort-cuda", placement="strict")
    np.testing.assert_array_equal(program(x, x.T), jnp.matmul(x, x.T))
    options: dict[str, Any] = {"target": "ort-cuda", "without": "integer-matmul-in-floats"}
    with pytest.raises(TranslationError, match="MatMul"):
        hlo2onnx.translate(jnp.matmul, x, x.T, **options, placement="strict")
    program = hlo2onnx.translate(jnp.matmul, x, x.T, **options)
    assert sum(program.report.fallback.values()) == 1
    np.testing.assert_array_equal(program(x, x.T), jnp.matmul(x, x.T))

"""Targets of devices that were read, not measured: what they refuse, and what stays elsewhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import TranslationError
from hlo2onnx.ir.traversal import all_nodes

X = np.array([[0.1, -2, 3], [4, 5, -6]], np.float32)


def test_tensorrt_refuses_f64_in_both_placements() -> None:
    """It would compute f64 in f32, so that another device does not get these nodes."""
    with jax.enable_x64(True):
        for placement in ("mixed", "strict"):
            with pytest.raises(TranslationError, match="ort-tensorrt computes f64 in f32"):
                hlo2onnx.translate(jnp.sin, np.ones(3), target="tensorrt", placement=placement)


def test_cuda_runs_what_tensorrt_lacks() -> None:
    def shifted(x: jax.Array) -> jax.Array:
        return jnp.sinh(x) + (jnp.abs(x).astype(jnp.uint32) >> 2)

    with pytest.raises(TranslationError, match="ort-tensorrt has no kernel"):
        hlo2onnx.translate(shifted, X, target="tensorrt", placement="strict")
    program = hlo2onnx.translate(shifted, X, target="tensorrt")
    (text,) = (note for note in program.report.notes if note.startswith("ort-cuda runs"))
    assert "u32" in text and "Sinh" not in text
    assert not program.report.fallback
    assert program.verify(runtime="ort-cpu").ok


def test_clip_of_integers_for_tensorrt() -> None:
    x = np.array([-7, 3, 2**31 - 1], np.int32)
    program = hlo2onnx.translate(
        lambda x: jnp.clip(x, -5, 2**30), x, target="tensorrt", placement="strict"
    )
    assert "Clip" not in program.report.nodes
    np.testing.assert_array_equal(program(x), np.clip(x, -5, 2**30))


def test_products_of_integers_for_tensorrt_end() -> None:
    """i32 and u32 are no carriers of each other there."""
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    program = hlo2onnx.translate(lambda x: x @ x.T, x, target="tensorrt")
    np.testing.assert_array_equal(program(x), x @ x.T)
    with pytest.raises(TranslationError, match="MatMul: ort-tensorrt has no kernel"):
        hlo2onnx.translate(lambda x: x @ x.T, "int32[n, 3]", target="tensorrt", placement="strict")


def test_constant_tables_are_cast_before_the_model_runs() -> None:
    table = np.array([7, 2**32 - 1, 3], np.uint32)
    at = np.array([2, 1, 0, 1], np.int32)
    program = hlo2onnx.translate(
        lambda at: jnp.asarray(table)[at].astype(jnp.int32), at, target="trt", placement="strict"
    )
    assert "Cast" not in program.report.nodes
    np.testing.assert_array_equal(program(at), table[at].astype(np.int32))


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_added_rows_for_tensorrt(dtype: type, reverse: bool) -> None:
    def summed(x: jax.Array, at: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.lax.cumsum(x, 1, reverse), x.at[at].add(x[:2] * 3)

    x = (np.arange(-30, 30).reshape(3, 5, 4) * 1_000_003).astype(dtype)
    at = np.array([2, 2], np.int32)
    program = hlo2onnx.translate(summed, x, at, target="tensorrt", placement="strict")
    assert "ScatterND" not in program.report.nodes
    assert ("CumSum" in program.report.nodes) is (dtype == np.float32)
    for made, right in zip(program(x, at), summed(jnp.array(x), at), strict=True):
        np.testing.assert_allclose(made, right, rtol=2e-6, atol=2)


def looped(x: jax.Array) -> jax.Array:
    """A network with a loop between two layers."""
    y = jax.lax.fori_loop(0, x[1, 1].astype(int), lambda _, y: jnp.tanh(y + x), x)
    return jax.nn.softmax(x @ X.T @ y + jnp.maximum(y[:2, :1].astype(jnp.int32), 1))


@pytest.mark.parametrize("target", ["coreml", "xnnpack"])
def test_the_cpu_runs_the_rest_as_it_is(target: str) -> None:
    plain = hlo2onnx.translate(looped, X, target="ort-cpu")
    program = hlo2onnx.translate(looped, X, target=target)
    assert program.report.nodes == plain.report.nodes
    (note,) = (note for note in program.report.notes if note.startswith("ort-"))
    assert "copies between the devices 0" in note
    assert "parts for the device 0" not in note
    assert program.verify(runtime="ort-cpu").ok
    with pytest.raises(TranslationError):
        hlo2onnx.translate(looped, X, target=target, placement="strict")


def test_coreml_gets_no_bodies() -> None:
    found = hlo2onnx.translate(looped, X, target="coreml").report.fallback
    assert any("Tanh f32 in" in label for label in found)
    assert {"Scan", "Loop"} & {label.partition(" ")[0] for label in found}
    assert not any(label.startswith("MatMul") for label in found)


def test_parts_for_the_device() -> None:
    """The CPU computes Sign between the two parts; one that needs no device result counts once."""
    program = hlo2onnx.translate(
        lambda x: jnp.tanh(jnp.sign(jnp.tanh(x))) + jnp.exp(x), X, target="coreml"
    )
    assert any("parts for the device 2" in note for note in program.report.notes)
    program = hlo2onnx.translate(lambda x: jnp.tanh(x) + jnp.exp(x), X, target="coreml")
    assert not any(node.domain for node in all_nodes(program.model.graph))
    assert not any(note.startswith("ort-coreml") for note in program.report.notes)


def test_without_the_device_the_cpu_verifies() -> None:
    for target, provider in (("tensorrt", "Tensorrt"), ("coreml", "CoreML"), ("xnnpack", "Xnn")):
        found = hlo2onnx.translate(lambda x: x @ x.T, X, target=target).verify()
        assert found.ok
        assert f"no {provider}" in found.fallback


def test_the_fallback_computes_nothing_in_f64() -> None:
    """TensorRT would take such nodes, and compute them in f32."""
    x = np.array([1, 2**31 + 5, 2**32 - 1], np.uint32)
    program = hlo2onnx.translate(lambda x: (x ^ (x >> 3)) + x, x, target="tensorrt")
    values = [value for node in all_nodes(program.model.graph) for value in node.outputs]
    assert "DOUBLE" not in {str(value.dtype) for value in values}
    assert not program.report.fallback
    np.testing.assert_array_equal(program(x), (x ^ (x >> 3)) + x)

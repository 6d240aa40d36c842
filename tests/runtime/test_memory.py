"""Weights are not copied: what a translation and a save allocate beside them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import pytest
from mostly_wide import mostly_wide

import hlo2onnx
from hlo2onnx.frontend.jax_lowered import from_lowered
from hlo2onnx.frontend.mlir.constants import _constant_ops, complex_content, raw_content
from hlo2onnx.runtime import saving
from hlo2onnx.verify.reference import Reference

WIDTH = 1024
LAYERS = 4
NBYTES = LAYERS * WIDTH * WIDTH * 4
"""16 MB: enough to tell a copy of the weights from all else that is allocated."""

ALL_ELSE = 6_000_000
"""What a translation of some ops allocates for its own."""


def weights(dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((WIDTH, WIDTH)).astype(dtype) / 32 for _ in range(LAYERS)]


def network(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = jnp.tanh(x @ layer)
    return x


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """What Python and numpy have allocated at most since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


X = np.ones((2, WIDTH), np.float32)


@pytest.mark.parametrize("external", [False, True])
def test_bound_weights_are_not_copied(
    external: bool, tmp_path: Path, peak: Callable[[], int]
) -> None:
    layers = [jnp.asarray(layer) for layer in weights()]
    lowered = jax.jit(network).lower(layers, X)
    hlo2onnx.translate(lambda x: x, X)  # the handlers are imported
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    program = hlo2onnx.translate(lowered, bind={"layers": layers})
    program.save(tmp_path / "model.onnx", external_data=external)
    assert peak() - before < ALL_ELSE


def test_captured_weights_are_not_copied(tmp_path: Path, peak: Callable[[], int]) -> None:
    layers = weights()
    lowered = jax.jit(lambda x: network(layers, x)).lower(X)
    hlo2onnx.translate(lambda x: x, X)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    program = hlo2onnx.translate(lowered)
    program.save(tmp_path / "model.onnx")
    # The text of the module would be more than twice the weights.
    assert peak() - before < ALL_ELSE


def test_transposed_weights_are_copied_once(tmp_path: Path, peak: Callable[[], int]) -> None:
    layers = weights()
    lowered = jax.jit(lambda x: network([layer.T for layer in layers], x)).lower(X)
    hlo2onnx.translate(lambda x: x, X)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    program = hlo2onnx.translate(lowered)
    program.save(tmp_path / "model.onnx")
    assert "Transpose" not in program.report.nodes
    assert peak() - before < NBYTES + ALL_ELSE


@pytest.mark.parametrize("external", [False, True])
def test_a_verification_holds_the_weights_once_more(
    external: bool, peak: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python sees of it; XLA and the runtime have copies of their own."""
    if external:
        monkeypatch.setattr(saving, "MAPPED_BYTES", 1000)
    layers = weights()
    program = hlo2onnx.translate(jax.jit(lambda x: network(layers, x)).lower(X))
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    assert program.verify(X)
    copies = 0 if external else 3  # protobuf makes of small models what it likes
    assert peak() - before < copies * NBYTES + ALL_ELSE


# -- what is written is what protobuf would write -------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int8, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4]
)
def test_weights_in_the_file_itself(dtype: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = jnp.asarray(rng.integers(-3, 4, (33, 129)).astype(dtype))
    program = hlo2onnx.translate(lambda i: (table[i], table[::2]), np.int32(3))
    program.save(tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    saved, made = onnx.load(tmp_path / "model.onnx"), program.model_proto
    names = [tensor.name for tensor in made.graph.initializer]
    assert sorted(tensor.name for tensor in saved.graph.initializer) == sorted(names)
    kept = {tensor.name: tensor.SerializeToString() for tensor in made.graph.initializer}
    for tensor in saved.graph.initializer:
        assert tensor.SerializeToString() == kept[tensor.name]
    assert list(saved.graph.node) == list(made.graph.node)


def test_a_transposed_view_is_written_in_its_order(tmp_path: Path) -> None:
    w = np.arange(6000, dtype=np.float32).reshape(60, 100).T
    program = hlo2onnx.translate(jax.jit(lambda w, x: x @ w).lower(w, X[:, :100]), bind={"w": w})
    for external in (False, True):
        program.save(tmp_path / "model.onnx", external_data=external)
        saved = onnx.load(tmp_path / "model.onnx")
        (found,) = [t for t in saved.graph.initializer if t.name == "w"]
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(found), w)


# -- large constants are arguments of the reference -----------------------------------------------


DTYPES = ("float32", "int32", "bfloat16", "complex64")


@pytest.mark.parametrize("dtype", mostly_wide(DTYPES, ["float32"]))
def test_reference_with_large_constants(dtype: Any) -> None:
    large = jnp.asarray(np.arange(1 << 20).reshape(1024, 1024).astype(dtype))
    x = np.ones((3, 1024), dtype)

    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda i, y: y + large[i] + large.sum(0), x) * 2

    lowered = jax.jit(function).lower(x)
    reference = Reference(from_lowered(lowered))
    want = jax.jit(function)(x)
    np.testing.assert_array_equal(reference([x])[0], np.asarray(want))
    assert hlo2onnx.translate(lowered).verify(x)


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
@pytest.mark.parametrize("columns", [100, 511])
def test_large_constants_without_a_numpy_view(dtype: Any, columns: int) -> None:
    """They are read out of bytecode, every bit pattern alike."""
    bits = np.random.default_rng(0).integers(0, 255, (700, columns * np.dtype(dtype).itemsize))
    array = bits.astype(np.uint8).view(dtype)
    lowered = jax.jit(lambda i: jnp.asarray(array)[i]).lower(np.int32(0))
    (found,) = [
        raw_content(operation.attributes["value"])
        for operation in _constant_ops(lowered.compiler_ir().operation)
        if "700x" in str(operation.results[0].type)
    ]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("count", [1, 3, 200])
def test_complex_constants_keep_their_bits(count: int) -> None:
    """Their text has numbers, NaN as bits, or the bytes of many elements."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 2 * count, np.uint32)
    bits[0] = 0x7FC00001
    lowered = jax.jit(lambda: jnp.asarray(bits.view(np.complex64))).lower()
    (operation,) = _constant_ops(lowered.compiler_ir().operation)
    np.testing.assert_array_equal(complex_content(operation).view(np.uint32), bits)


def test_captured_bf16_weights_are_read_once(tmp_path: Path, peak: Callable[[], int]) -> None:
    layers = weights(ml_dtypes.bfloat16)
    x = X.astype(ml_dtypes.bfloat16)
    lowered = jax.jit(lambda x: network(layers, x)).lower(x)
    hlo2onnx.translate(lambda x: x, X)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    hlo2onnx.translate(lowered).save(tmp_path / "model.onnx")
    assert peak() - before < NBYTES // 2 + ALL_ELSE

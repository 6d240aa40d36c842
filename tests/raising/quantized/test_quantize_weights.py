"""`weights_dtype="int4"` and `"int8"`: which weights are quantized, and to which numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import hlo2onnx
from hlo2onnx import UsageError
from hlo2onnx.cli import main
from hlo2onnx.ir.weight_storage import IntegerBlocks, oir

RNG = np.random.default_rng(4)
X = RNG.standard_normal((3, 128)).astype(np.float32)


def matrix(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


P = {"a": matrix(128, 160), "b": matrix(128, 160) / 16, "head": matrix(128, 160)}
P["a"][32:64, 0] = 0
BYTES = 3 * 128 * 160


def apply(p: dict[str, Any], x: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ p["a"] + 1)
    return (hidden @ p["b"].T) @ p["head"]


def bound(kind: Any, function: Any = apply, p: Any = P, **options: Any) -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(function, p, X, bind="p", weights_dtype=kind, **options)


@pytest.mark.parametrize("target", ["ort-cpu", "onnx", "ort-cpu@1.23"])
@pytest.mark.parametrize("bits", [4, 8])
def test_sizes_and_verification(bits: int, target: str) -> None:
    program = bound(f"int{bits}", target=target)
    assert program.report.notes == [f"large weights are stored in int{bits}: p/a, p/b, p/head"]
    # A scale of f32 for 32 rows; zero points of DequantizeLinear for int8.
    most = BYTES * bits // 8 + BYTES // 32 * (5 if bits == 8 else 4)
    assert BYTES * bits // 8 < program.report.weights.after <= most
    assert program.report.nodes["MatMulNBits"] == (3 if (bits, target) == (4, "ort-cpu") else 0)
    assert program.verify(X).ok
    exact = np.asarray(apply(P, X))
    error = np.abs(np.asarray(program(X)) - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < (0.3 if bits == 4 else 0.02)


@pytest.mark.parametrize("bits", [4, 8])
def test_numbers_are_those_of_onnx_runtime(bits: int) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    source = hlo2onnx.translate(lambda p, x: x @ p, P["a"], X, bind="p").model_proto
    tool = MatMulNBitsQuantizer(source, bits=bits, block_size=32, is_symmetric=True)
    tool.process()
    packed, scales = (
        next(numpy_helper.to_array(x) for x in tool.model.model.graph.initializer if x.name == name)
        for name in tool.model.model.graph.node[0].input[1:3]
    )
    blocks = IntegerBlocks(oir.DataType.INT4 if bits == 4 else oir.DataType.INT8)
    numbers = blocks(P["a"]).astype(np.int32) + (1 << bits - 1)
    numbers = numbers.T.reshape(160, 4, 32).astype(np.uint8)
    if bits == 4:
        numbers = numbers[..., ::2] | numbers[..., 1::2] << 4
    np.testing.assert_array_equal(numbers, packed)
    np.testing.assert_array_equal(blocks.scales(P["a"]).T.reshape(-1), scales.reshape(-1))
    if bits == 4:
        program = bound("int4", lambda p, x: x @ p, P["a"])
        stored = {x.const_value.nbytes for x in program.model.graph.initializers.values()}  # type: ignore[union-attr]
        assert stored == {packed.nbytes, scales.nbytes}


def test_rounding_again_changes_nothing() -> None:
    for dtype in (oir.DataType.INT4, oir.DataType.INT8):
        blocks = IntegerBlocks(dtype)
        once = blocks.rounded(P["a"])
        np.testing.assert_array_equal(blocks.rounded(once), once)
        np.testing.assert_array_equal(blocks(once), blocks(P["a"]))


def test_types_by_names() -> None:
    program = bound({"*": "int4", "p/head": None, "*/b": "int8"})
    assert program.report.notes == [
        "large weights are stored in int4: p/a; in int8: p/b; as they are: p/head"
    ]
    assert program.report.nodes["MatMulNBits"] == 1 and program.verify(X).ok


def table(p: dict[str, Any], x: jax.Array) -> jax.Array:
    return p["a"][jnp.int32(x[0, 0]) % 4] + x @ p["a"]


LEFT: dict[str, tuple[Any, Any]] = {
    "a table": (table, P),
    "few": (lambda p, x: x @ p["w"], {"w": matrix(128, 100)}),
    "odd": (lambda p, x: x[:, :120] @ p["w"], {"w": matrix(120, 200)}),
    "folded": (lambda p, x: x @ (p["w"] * p["s"]), {"w": matrix(128, 160), "s": matrix(160)}),
    "a batch": (lambda p, x: jnp.stack([x, 2 * x]) @ p["w"], {"w": matrix(2, 128, 128)}),
    "a left operand": (lambda p, x: p["w"] @ x.T, {"w": matrix(256, 128)}),
    "not finite": (lambda p, x: x @ p["w"], {"w": np.full((128, 160), np.inf, np.float32)}),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_f32(name: str) -> None:
    function, p = LEFT[name]
    program = bound("int4", function, p)
    assert "MatMulNBits" not in program.report.nodes
    if name != "few":
        (note,) = [x for x in program.report.notes if x.startswith("large weights")]
        assert note.startswith("large weights are stored as they are: p/")


def test_half_weights_and_those_of_functions_stay() -> None:
    def half(p: jax.Array, x: jax.Array) -> jax.Array:
        return x.astype(jnp.bfloat16) @ p

    @jax.jit
    def layer(p: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ p)

    note = "large weights are stored as they are: p"
    program = bound("int4", half, jnp.asarray(matrix(128, 160), jnp.bfloat16), half="fast")
    assert note in program.report.notes and program.verify(X).ok
    twice = bound("int4", lambda p, x: layer(p, layer(p, x)), matrix(128, 128), functions="keep")
    assert twice.report.notes == [note]
    none = bound("int4", lambda p, x: x * p, matrix(3, 1))
    assert none.report.notes == ["no weights are large"]


def test_several_products_share_what_is_stored() -> None:
    def twice(p: dict[str, Any], x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ p["w"]) @ p["w"]

    program = bound("int4", twice, {"w": matrix(128, 128)})
    assert program.report.nodes["MatMulNBits"] == 2
    assert len([x for x in program.model.graph.initializers if x.startswith("p/w")]) == 2
    assert program.verify(X).ok


def test_a_search_for_the_first_difference() -> None:
    """The rule is no suspect: no option switches it off alone."""
    program = bound("int4", lambda p, x: jnp.tanh(x @ p["a"]) + 1)
    (scales,) = [x for x in program.model.graph.initializers.values() if x.shape == (160, 4)]
    scales.const_value = oir.tensor(2 * scales.const_value.numpy(), name=scales.name)  # type: ignore[union-attr]
    found = program.verify(X, intermediates=True)
    assert not found.ok and found.divergence is not None
    assert "quantize-weights" in found.divergence.rewrites
    assert {test.without for test in found.divergence.tests} == {()}


def test_rows_of_stacked_layers() -> None:
    def layers(p: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, p)[0]

    program = bound("int4", layers, matrix(3, 128, 128))
    assert program.report.nodes["MatMulNBits"] == 3
    assert program.verify(X).ok


def test_new_weights() -> None:
    program = bound("int4")
    new = {name: 2 * array[::-1] for name, array in P.items()}
    assert program.apply_weights(new)
    np.testing.assert_array_equal(program(X), bound("int4", p=new)(X))
    assert program.verify(X).ok


def test_constants_and_the_command(tmp_path: Path) -> None:
    """XLA computes with constants as they are."""
    program = hlo2onnx.translate(lambda x: x @ P["a"], X, weights_dtype="int4")
    assert program.report.nodes == {"MatMulNBits": 1}
    source, output = tmp_path / "f.mlir", tmp_path / "f.onnx"
    source.write_text(str(jax.jit(lambda x: x @ P["a"]).lower(X).compiler_ir()))
    assert main([str(source), "-o", str(output), "--weights-dtype", "*=int4"]) == 0
    assert [node.op_type for node in onnx.load(output).graph.node] == ["MatMulNBits"]
    assert main([str(source), "-o", str(output), "--weights-dtype", "*=int4,*=f32"]) == 0
    assert [node.op_type for node in onnx.load(output).graph.node] == ["MatMul"]


@pytest.mark.parametrize("kind", ["int2", {"*": "float16"}, {3: "int4"}])
def test_wrong_types(kind: Any) -> None:
    with pytest.raises(UsageError, match="weights_dtype="):
        bound(kind)

"""Private functions and composites as functions of the model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import hlo2onnx
from hlo2onnx import OnnxProgram, TranslationError, UsageError, cli, translate

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(32, 32)).astype(np.float32)


@jax.jit
def block(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w) + x


@jax.jit
def closed(x: jax.Array) -> jax.Array:
    return x @ jnp.asarray(WEIGHT)


@jax.jit
def twice(x: jax.Array) -> jax.Array:
    return closed(closed(x)) + 1


def kept(function: Any, *args: Any, **options: Any) -> OnnxProgram:
    """The program with its functions kept, which computes what XLA does, and without them."""
    lowered = jax.jit(function).lower(*args)
    program = translate(lowered, functions="keep", **options)
    assert program.verify(*args), program.verify(*args)
    assert not translate(lowered, **options).model.functions
    return program


def names(program: OnnxProgram) -> list[str]:
    assert {key[0] for key in program.model.functions} <= {"hlo2onnx"}
    return [function.name for function in program.model.functions.values()]


X = RNG.normal(size=(3, 32)).astype(np.float32)


@pytest.mark.parametrize("opset", [17, 18, 21, 23, 26])
def test_a_block_stands_once(opset: int) -> None:
    def model(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        return block(block(block(x, w), v), w)

    program = kept(model, X, WEIGHT, -WEIGHT, opset=opset)
    assert names(program) == ["block"]
    nodes = program.report.nodes
    assert (nodes["block"], nodes["MatMul"], nodes["Tanh"]) == (3, 1, 1)


def test_another_signature_is_another_function() -> None:
    def model(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return block(x, w), block(x[0], w)

    program = kept(model, X, WEIGHT)
    assert names(program) == ["block", "block_0"]


def test_functions_call_functions() -> None:
    program = kept(lambda x: twice(x) - closed(x), X)
    assert names(program) == ["closed", "twice"]


def test_long_constants_are_passed() -> None:
    """A weight closed over is stored once, in the model, and handed down to where it is read."""
    program = kept(lambda x: twice(x) - closed(x), X)
    inputs = {f.name: len(f.inputs) for f in program.model.functions.values()}
    assert inputs == {"closed": 2, "twice": 2}
    stored = [v for v in program.model.graph.initializers.values() if v.shape == (32, 32)]
    assert len(stored) == 1
    for function in program.model_proto.functions:
        constants = [node for node in function.node if node.op_type == "Constant"]
        assert all(node.attribute[0].t.ByteSize() < 1024 for node in constants)


def test_weights_may_be_stored_outside(tmp_path: Path) -> None:
    program = kept(lambda x: twice(x) - closed(x), X)
    program.save(tmp_path / "model.onnx", external_data=True)
    (data,) = tmp_path.glob("*.data")
    assert data.stat().st_size >= WEIGHT.nbytes
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (found,) = session.run(None, {program.input_names[0]: X})
    np.testing.assert_array_equal(found, program(X))


def test_calls_in_loops_and_branches() -> None:
    def model(x: jax.Array, ws: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, sums = jax.lax.scan(lambda c, w: (block(c, w), c.sum()), x, ws)
        return jax.lax.cond(sums[0] > 0, lambda v: block(v, ws[0]), jnp.negative, y), sums

    ws = 0.1 * RNG.normal(size=(4, 32, 32)).astype(np.float32)
    program = kept(model, X, ws)
    assert "block" in names(program)
    assert program.report.nodes["block"] == 2


def test_complex_operands_and_results() -> None:
    @jax.jit
    def rotate(z: jax.Array, angle: jax.Array) -> tuple[jax.Array, jax.Array]:
        return z * jnp.exp(1j * angle), jnp.abs(z)

    def model(z: jax.Array, angle: jax.Array) -> Any:
        once, size = rotate(z, angle)
        return rotate(once, angle), size

    z = (RNG.normal(size=5) + 1j * RNG.normal(size=5)).astype(np.complex64)
    program = kept(model, z, np.linspace(0, 1, 5).astype(np.float32))
    (function,) = (f for f in program.model.functions.values() if f.name == "rotate")
    assert (len(function.inputs), len(function.outputs)) == (3, 3)


def test_results_that_are_operands_or_constants() -> None:
    @jax.jit
    def odd(x: jax.Array) -> tuple[jax.Array, ...]:
        y = x + 1
        return x, y, y, jnp.arange(3.0)

    kept(lambda x: odd(odd(x)[1]), X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool"])
def test_element_types(dtype: str) -> None:
    @jax.jit
    def mixed(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, jnp.flip(x, 0)).astype(dtype)

    kept(lambda x: mixed(mixed(x)), jnp.asarray(X).astype(dtype))


def test_within_a_reduction_a_call_is_inlined() -> None:
    text = """
    module {
      func.func private @larger(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.maximum %a, %b : tensor<f32>
        return %0 : tensor<f32>
      }
      func.func public @main(%x: tensor<3x4xf32>, %i: tensor<f32>) -> tensor<3xf32> {
        %0 = "stablehlo.reduce"(%x, %i) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = func.call @larger(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          stablehlo.return %1 : tensor<f32>
        }) {dimensions = array<i64: 1>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }
    """
    program = translate(text, functions="keep")
    assert not program.model.functions
    assert program.verify()


def test_loop_bodies_that_jax_splits_off_are_no_functions() -> None:
    def model(x: jax.Array) -> jax.Array:
        step = jax.checkpoint(lambda c, _: (jnp.sin(c), c.sum()))
        return jax.grad(lambda x: jax.lax.scan(step, x, None, length=3)[0].sum())(x)

    assert not [name for name in names(kept(model, X)) if name.startswith(("closed", "check"))]


SAME = """
module {{
  func.func private @{first}(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
  func.func private @{second}(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.{op} %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = func.call @{first}(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = func.call @{second}(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    ("second", "op", "expected"),
    [
        ("act_0", "tanh", ["act"]),
        ("act_0", "sine", ["act", "act_0"]),
        ("other", "tanh", ["act", "other"]),
    ],
)
def test_equal_functions_are_one(second: str, op: str, expected: list[str]) -> None:
    program = translate(SAME.format(first="act", second=second, op=op), functions="keep")
    assert names(program) == expected
    assert program.verify()


def test_an_unsupported_op_in_a_function_is_named_once() -> None:
    text = SAME.format(first="act", second="act_0", op="tanh").replace(
        "stablehlo.tanh %x :", "stablehlo.custom_call @mystery(%x) : (tensor<4xf32>) ->"
    )
    with pytest.raises(TranslationError) as caught:
        translate(text, functions="keep")
    assert len(caught.value.refusals) == 1


def test_recursion_is_refused() -> None:
    text = SAME.format(first="act", second="other", op="tanh").replace(
        "%0 = stablehlo.tanh %x : tensor<4xf32>",
        "%0 = func.call @act(%x) : (tensor<4xf32>) -> tensor<4xf32>",
    )
    with pytest.raises(TranslationError, match="@act calls itself"):
        translate(text, functions="keep")


def test_a_function_nobody_reads_is_dropped() -> None:
    text = SAME.format(first="act", second="other", op="sine").replace("return %1 :", "return %0 :")
    assert names(translate(text, functions="keep")) == ["act"]


def test_the_option() -> None:
    with pytest.raises(UsageError, match="functions='maybe' is not one of inline, keep"):
        translate(jax.jit(lambda x: x), X, functions="maybe")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(SAME.format(first="act", second="other", op="sine"))
    arguments = [str(path), "-o", str(tmp_path / "model.onnx"), "--verify", "--functions", "keep"]
    assert cli.main(arguments) == 0
    assert "1 act" in capsys.readouterr().out


# -- composites ---------------------------------------------------------------------------------


@partial(jax.lax.composite, name="acme.block", version=2)
def acme(x: jax.Array, *, scale: float) -> jax.Array:
    return jnp.tanh(x) * scale


def test_composites_are_functions() -> None:
    program = kept(lambda x: acme(acme(x, scale=2.0), scale=2.0) + acme(x, scale=3.0), X)
    assert names(program) == ["acme_block", "acme_block_1"]
    assert program.report.nodes["acme_block"] == 2


def named(operator: str, function: Any) -> Any:
    return jax.lax.composite(function, name=f"onnx.{operator}")


@pytest.mark.parametrize("functions", ["inline", "keep"])
def test_a_composite_that_names_an_operator(functions: str) -> None:
    @partial(named, "Softmax")
    def softmax(x: jax.Array, *, axis: int) -> jax.Array:
        return jax.nn.softmax(x, axis=axis)

    @partial(named, "LeakyRelu")
    def leaky(x: jax.Array, *, alpha: float) -> jax.Array:
        return jnp.where(x < 0, alpha * x, x)

    lowered = jax.jit(lambda x: softmax(leaky(x, alpha=0.25), axis=0)).lower(X)
    program = translate(lowered, functions=functions)
    assert dict(program.report.nodes) == {"LeakyRelu": 1, "Softmax": 1}
    assert program.verify(X)


def test_several_operands_and_results() -> None:
    @partial(named, "TopK")
    def top(x: jax.Array, k: jax.Array, *, axis: int) -> tuple[jax.Array, jax.Array]:
        values, indices = jax.lax.top_k(x, 2)
        return values, indices.astype(jnp.int64)

    with jax.enable_x64(True):
        lowered = jax.jit(lambda x: top(x, jnp.array([2]), axis=-1)).lower(X)
    program = translate(lowered)
    assert program.report.nodes["TopK"] == 1
    assert program.verify(X)


def attributed(operator: str, x: np.ndarray = X, **attributes: Any) -> Any:
    composite = named(operator, lambda x, **_: x + 0)
    return jax.jit(lambda x: composite(x, **attributes)).lower(x)


@pytest.mark.parametrize(
    ("lowered", "options", "message"),
    [
        (attributed("Softmaxx"), {}, r"opset 23 has no operator Softmaxx"),
        (attributed("Swish"), {"opset": 20}, r"opset 20 has no operator Swish"),
        (attributed("Softmax", axes=1), {}, r"Softmax has no attribute axes .* it has axis"),
        (attributed("Softmax", axis="x"), {}, r"attribute axis of Softmax is int, not x"),
        (attributed("Mul"), {}, r"Mul has 2 to 2 operands, not 1"),
        (attributed("Softmax", X.astype(np.int32)), {}, r"Softmax takes no int32 as input"),
        (attributed("Cast"), {}, r"Cast needs the attribute to"),
        (attributed("Identity", X + 1j), {}, r"Identity takes no complex numbers"),
    ],
)
def test_operators_that_do_not_fit(lowered: Any, options: Any, message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        translate(lowered, **options)


@pytest.mark.wide
def test_verification_compares_an_operator_with_its_decomposition() -> None:
    """What a composite is said to be need not be so."""
    wrong = named("Softmax", lambda x: jax.nn.softmax(2 * x))
    assert not hlo2onnx.translate(jax.jit(lambda x: wrong(x)).lower(X)).verify(X)

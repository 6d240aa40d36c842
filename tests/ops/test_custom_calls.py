"""Custom calls that users translate, in JAX or as operators of a runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import CustomOp, TranslationError, UsageError, VerificationError, translate
from hlo2onnx.custom_calls import _registered

CALL = """
module {{ func.func public @main(%arg0: {type}) -> {result} {{
  %0 = stablehlo.custom_call @{target}(%arg0) {{{configuration}}} : ({type}) -> {result}
  return %0 : {result}
}} }}
"""


def call(
    target: str = "my.kernel",
    configuration: str = "",
    element: str = "f32",
    result: str = "tensor<2x3xf32>",
) -> str:
    if configuration.startswith("backend_config = {"):
        configuration += ", api_version = 4 : i32"
    return CALL.format(
        target=target, configuration=configuration, type=f"tensor<2x3x{element}>", result=result
    )


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _unregistered() -> Iterator[None]:
    yield
    _registered.clear()


def scaled(x: jax.Array, *, factor: float = 1.0, shift: Any = (0,), mode: str = "") -> jax.Array:
    assert mode in ("", "plain")
    return x * factor + jnp.sum(jnp.array(shift, x.dtype))


CONFIGURATIONS = [
    ("", X),
    ("backend_config = {factor = 2.5 : f32}", 2.5 * X),
    ('mhlo.backend_config = {factor = 2.0, shift = [1, 2], mode = "plain"}', 2 * X + 3),
    ("backend_config = {shift = dense<[3, 4]> : tensor<2xi64>}", X + 7),
    ("backend_config = {shift = array<i64: 5>}, called_computations = [@main]", X + 5),
]


@pytest.mark.parametrize(("configuration", "expected"), CONFIGURATIONS)
def test_an_expansion_gets_the_configuration(configuration: str, expected: np.ndarray) -> None:
    program = translate(call(configuration=configuration), custom_calls={"my.kernel": scaled})
    np.testing.assert_array_equal(program(X), expected)


def test_an_expansion_gets_a_text() -> None:
    def kernel(x: jax.Array, backend_config: str) -> jax.Array:
        return x * float(backend_config)

    text = call(configuration='backend_config = "1.5"')
    np.testing.assert_array_equal(translate(text, custom_calls={"my.kernel": kernel})(X), 1.5 * X)


def test_entries_that_look_alike() -> None:
    """Expansions are cached, by the entries in full and by their types."""

    def kernel(x: jax.Array, table: np.ndarray, one: Any) -> jax.Array:
        return x + table.sum() + (10 if isinstance(one, int) else 20)

    results = []
    for index in (1500, 1501):
        for one in ("1 : i64", "1.0 : f64"):
            table = np.zeros(3000, np.float32)
            table[index] = index
            entries = f"{{table = dense<{table.tolist()}> : tensor<3000xf32>, one = {one}}}"
            text = call(configuration=f"backend_config = {entries}")
            results.append(translate(text, custom_calls={"my.kernel": kernel})(X)[0, 0])
    assert results == [1510, 1520, 1511, 1521]


def test_a_call_of_jax_ffi() -> None:
    def model(x: jax.Array) -> jax.Array:
        kernel = jax.ffi.ffi_call("my.kernel", jax.ShapeDtypeStruct(x.shape, x.dtype))
        result: jax.Array = kernel(x, factor=np.float32(3), shift=np.array([1, 2])) - 1
        return result

    program = translate(jax.jit(model).lower(X), custom_calls={"my.kernel": scaled})
    np.testing.assert_array_equal(program(X), 3 * X + 2)


def test_an_expansion_of_complex_numbers() -> None:
    text = call(element="complex<f32>", result="tensor<2x3xcomplex<f32>>")
    x = (X + 1j).astype(np.complex64)
    np.testing.assert_array_equal(translate(text, custom_calls={"my.kernel": jnp.conj})(x), x - 2j)


def test_an_expansion_with_tokens_and_several_results() -> None:
    text = """
    module { func.func public @main(%arg0: tensor<3xf64>) -> (tensor<3xf64>, tensor<i32>) {
      %t = stablehlo.create_token : !stablehlo.token
      %0:3 = stablehlo.custom_call @my.pair(%t, %arg0) {has_side_effect = true}
        : (!stablehlo.token, tensor<3xf64>) -> (tensor<3xf64>, !stablehlo.token, tensor<i32>)
      return %0#0, %0#2 : tensor<3xf64>, tensor<i32>
    } }
    """

    def pair(x: jax.Array) -> dict[str, jax.Array]:
        return {"a": x[::-1], "b": jnp.int32(jnp.argmax(x))}

    first, second = translate(text, custom_calls={"my.pair": pair})(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(first, [2.0, 3.0, 1.0])
    assert second == 1


@pytest.mark.parametrize(
    "function", [lambda x: x.T, lambda x: (x, x), lambda x: x.astype(jnp.float64), lambda x: ()]
)
def test_an_expansion_of_other_types_is_refused(function: Any) -> None:
    with pytest.raises(TranslationError, match=r"for @my\.kernel returned .* instead of"):
        translate(call(), custom_calls={"my.kernel": function})


def test_registered_for_the_process() -> None:
    with pytest.raises(TranslationError, match=r"unknown custom call @my\.kernel"):
        translate(call())
    hlo2onnx.expand_custom_call("my.kernel", lambda x: x + 1)
    np.testing.assert_array_equal(translate(call())(X), X + 1)
    hlo2onnx.expand_custom_call("my.kernel", lambda x: x + 2)
    np.testing.assert_array_equal(translate(call())(X), X + 2)


def test_given_to_one_translation() -> None:
    """It goes before what is registered, which goes before what is built in, and does not stay."""
    program = translate(call(), custom_calls={"my.kernel": lambda x: x * 3})
    np.testing.assert_array_equal(program(X), 3 * X)
    with pytest.raises(TranslationError, match=r"unknown custom call @my\.kernel"):
        translate(call())
    hlo2onnx.expand_custom_call("Sharding", lambda x: -x)
    np.testing.assert_array_equal(translate(call("Sharding"))(X), -X)
    program = translate(call("Sharding"), custom_calls={"Sharding": lambda x: x + 9})
    np.testing.assert_array_equal(program(X), X + 9)


def test_an_operator_of_the_runtime() -> None:
    """com.microsoft operators are part of ONNX Runtime; the entries are the attributes."""
    hlo2onnx.custom_call("my.gelu", domain="com.microsoft", op_type="QuickGelu")
    program = translate(call("my.gelu", "backend_config = {alpha = 2.0 : f32}"))
    assert dict(program.report.nodes) == {"QuickGelu": 1}
    assert program.model.graph.opset_imports["com.microsoft"] == 1
    np.testing.assert_allclose(program(X), X / (1 + np.exp(-2 * X)), rtol=1e-6)


@pytest.mark.parametrize(
    "attributes", [{"alpha": 3.0}, lambda entries: {"alpha": entries["steepness"] + 1.0}]
)
def test_attributes_of_an_operator(attributes: Any) -> None:
    operator = CustomOp("com.microsoft", "QuickGelu", attributes)
    text = call(configuration="backend_config = {steepness = 2.0 : f32}")
    program = translate(text, custom_calls={"my.kernel": operator})
    np.testing.assert_allclose(program(X), X / (1 + np.exp(-3 * X)), rtol=1e-6)


def test_an_operator_of_onnx() -> None:
    operator = CustomOp("", "LeakyRelu", {"alpha": 0.5})
    program = translate(call(), custom_calls={"my.kernel": operator})
    np.testing.assert_array_equal(program(X - 3), np.where(X < 3, (X - 3) / 2, X - 3))


def test_no_rule_takes_an_operator_for_one_of_onnx() -> None:
    """com.example.Transpose, of whatever, is left alone between two transpositions."""
    text = """
    module { func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
      %1 = stablehlo.custom_call @my.kernel(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
      %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
      return %2 : tensor<2x3xf32>
    } }
    """
    operator = CustomOp("com.example", "Transpose", {"perm": (0, 1)}, version=3)
    program = translate(text, custom_calls={"my.kernel": operator})
    assert [(node.domain, node.op_type) for node in program.model.graph] == [
        ("", "Transpose"),
        ("com.example", "Transpose"),
        ("", "Transpose"),
    ]
    assert {item.domain: item.version for item in program.model_proto.opset_import}[
        "com.example"
    ] == 3


def test_equal_calls_stay_apart() -> None:
    """Nobody can tell what an operator of another domain does when it runs once instead of
    twice."""
    text = """
    module { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @my.kernel(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.custom_call @my.kernel(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
      %2 = stablehlo.add %0, %1 : tensor<3xf32>
      return %2 : tensor<3xf32>
    } }
    """
    program = translate(text, custom_calls={"my.kernel": CustomOp("com.example", "Dice")})
    assert program.report.nodes["Dice"] == 2


def test_a_library_is_loaded() -> None:
    operator = CustomOp("com.example", "Kernel", library="/nowhere/libkernel.so")
    program = translate(call(), custom_calls={"my.kernel": operator, "other": CustomOp("a", "B")})
    assert program.libraries == ("/nowhere/libkernel.so",)
    with pytest.raises(VerificationError, match=r"custom operators in /nowhere/libkernel\.so"):
        program(X)
    assert translate(call("Sharding"), custom_calls={"my.kernel": operator}).libraries == ()


def test_an_operator_takes_no_complex_numbers() -> None:
    text = call(element="complex<f32>", result="tensor<2x3xcomplex<f32>>")
    with pytest.raises(TranslationError, match=r"has complex values, and no operator"):
        translate(text, custom_calls={"my.kernel": CustomOp("com.example", "Kernel")})


@pytest.mark.parametrize("entry", ["{a = {b = 1}}", "{a = [1, 2.0]}", "{a = [[1]]}"])
def test_an_entry_that_is_no_attribute(entry: str) -> None:
    text = call(configuration=f"backend_config = {entry}")
    with pytest.raises(TranslationError, match=r"attribute a of @my\.kernel has no ONNX form"):
        translate(text, custom_calls={"my.kernel": CustomOp("com.example", "Kernel")})


def test_what_is_no_translation() -> None:
    with pytest.raises(UsageError, match=r"neither a JAX function nor a CustomOp: 'Kernel'"):
        translate(call(), custom_calls={"my.kernel": "Kernel"})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match=r"neither a JAX function nor a CustomOp: 3"):
        hlo2onnx.expand_custom_call("my.kernel", 3)  # type: ignore[arg-type]


def test_unknown_targets_come_all_at_once() -> None:
    text = """
    module { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @first(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.custom_call @second(%0) : (tensor<3xf32>) -> tensor<3xf32>
      %2 = stablehlo.custom_call @first(%1) : (tensor<3xf32>) -> tensor<3xf32>
      return %2 : tensor<3xf32>
    } }
    """
    with pytest.raises(TranslationError) as caught:
        translate(text)
    message = str(caught.value)
    assert [refusal.op for refusal in caught.value.refusals] == [
        f"stablehlo.custom_call @{target}" for target in ("first", "second", "first")
    ]
    assert message.count("unknown custom call @first:") == 1
    assert message.count("unknown custom call @second:") == 1
    assert "hlo2onnx.expand_custom_call(target, jax_function)" in message

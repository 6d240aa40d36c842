"""Custom calls translated by functions written in JAX."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call


def _powers(x: jax.Array, *, count: int) -> tuple[jax.Array, jax.Array]:
    """The sum of x^0 .. x^(count-1), and x^count: with a loop, a call and a constant of 64 bits."""

    def step(
        carry: tuple[jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        total, power = carry
        return (total + power, jnp.where(power == 0, power, power * x)), None

    start = (jnp.zeros_like(x), jnp.ones_like(x))
    return jax.lax.scan(step, start, length=count)[0]


@handles_call("test.powers", form="any")
def powers(em: Emitter, op: CustomCall, *, count: int) -> list[Parts]:
    return em.through_jax(_powers, em.parts(op.operands[0]), count=count)


_TABLE = np.arange(300, dtype=np.float32)


def _plus(x: jax.Array) -> jax.Array:
    return x + _TABLE


def _times(x: jax.Array) -> jax.Array:
    return x * _TABLE


@handles_call("test.plus")
def plus(em: Emitter, op: CustomCall) -> list[Parts]:
    return em.through_jax(_plus, em.parts(op.operands[0]))


@handles_call("test.times")
def times(em: Emitter, op: CustomCall) -> list[Parts]:
    return em.through_jax(_times, em.parts(op.operands[0]))


def test_equal_constants_of_several_functions() -> None:
    """The model does not depend on when, and in which context of MLIR, JAX lowered the functions:
    a process may have translated other programs before."""

    def called(*names: str) -> str:
        calls = "".join(
            f"%{k + 1} = stablehlo.custom_call @test.{name}(%{k}) : (tensor<300xf32>) ->"
            " tensor<300xf32>\n"
            for k, name in enumerate(names)
        )
        return (
            "func.func public @main(%0: tensor<300xf32>) -> tensor<300xf32> {"
            f"{calls} return %{len(names)} : tensor<300xf32> }}"
        )

    other = threading.Thread(target=lambda: hlo2onnx.translate(called("plus")))
    other.start()
    other.join()
    found = hlo2onnx.translate(called("plus", "times"))
    assert found.report.nodes == {"Add": 1, "Mul": 1}
    assert len(found.model.graph.initializers) == 1
    np.testing.assert_array_equal(found(_TABLE), 2 * _TABLE * _TABLE)


def program(element: str) -> str:
    type_ = f"tensor<2x2x{element}>"
    return f"""
      func.func public @main(%x: {type_}) -> ({type_}, {type_}) {{
        %0:2 = stablehlo.custom_call @test.powers(%x) {{api_version = 4 : i32,
          backend_config = {{count = 3 : i64}}}} : ({type_}) -> ({type_}, {type_})
        %1:2 = stablehlo.custom_call @test.powers(%0#1) {{api_version = 4 : i32,
          backend_config = {{count = 2 : i64}}}} : ({type_}) -> ({type_}, {type_})
        return %0#0, %1#1 : {type_}, {type_}
      }}"""


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f32", np.float32), ("f64", np.float64), ("i64", np.int64), ("complex<f64>", np.complex128)],
)
def test_custom_call_through_jax(element: str, dtype: type) -> None:
    x = np.array([[0, 1], [-2, 3]]).astype(dtype)
    total, power = hlo2onnx.translate(program(element))(x)
    assert total.dtype == power.dtype == dtype
    np.testing.assert_array_equal(total, 1 + x + x**2)
    np.testing.assert_array_equal(power, x**6)


def test_nodes_come_from_the_expanded_op() -> None:
    """Neither the names nor the sources of our own functions appear in the model."""
    text = str(hlo2onnx.translate(program("f32")).model_proto)
    assert "test_through_jax" not in text
    assert "_powers" not in text


def test_symbolic_extents() -> None:
    translated = hlo2onnx.translate(program("f32").replace("2x2x", "?x2x"))
    for rows in (1, 3):
        x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        total, power = translated(x)
        np.testing.assert_array_equal(total, 1 + x + x**2)
        np.testing.assert_array_equal(power, x**6)


@handles_call("test.halves")
def halves(em: Emitter, op: CustomCall) -> list[Parts]:
    return em.through_jax(_halves, em.operand(op))


def _halves(x: jax.Array) -> jax.Array:
    return x / 2 if x.shape[0] > 2 else x


def test_a_function_that_decides_by_extents_is_refused() -> None:
    text = """
      func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.custom_call @test.halves(%x) : (tensor<?xf32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>
      }"""
    with pytest.raises(TranslationError, match="static"):
        hlo2onnx.translate(text)


def test_configuration_of_the_process_stays() -> None:
    before = jax.config.jax_enable_x64
    hlo2onnx.translate(program("f64"))
    assert jax.config.jax_enable_x64 == before

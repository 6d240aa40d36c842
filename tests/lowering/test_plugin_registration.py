"""Mistakes in translations that users give, in registration and in loading."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plugin_programs import Handler, X, nothing, program

from hlo2onnx import CustomOp, PluginError, TranslationError, UsageError, translate
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles, handles_call, load_handlers, registry

# -- translations that users give -----------------------------------------------------------------


def given(translation: Any, mlir_type: str = "tensor<2x3xf32>") -> str:
    with pytest.raises(TranslationError) as caught:
        translate(program(mlir_type), custom_calls={"acme.kernel": translation})
    text = str(caught.value)
    assert "for @acme.kernel" in text
    assert "where  model.py:7  swish" in text and "\n  next   " in text
    return text


def divided(x: jax.Array) -> jax.Array:
    return x / {}["slope"]


def test_a_jax_function_that_fails() -> None:
    found = given(divided)
    line = divided.__code__.co_firstlineno
    assert re.search(rf"the function \S*\.divided \(\S+:{line}\) for @acme\.kernel failed", found)
    assert f"test_plugin_registration.py:{line + 1}: KeyError: 'slope'" in found


FUNCTIONS = [
    (lambda x: x.T, "returned tensor<3x2xf32> instead of tensor<2x3xf32>"),
    (lambda x: (x, x), "returned 2 values (tensor<2x3xf32>, tensor<2x3xf32>) instead of tensor"),
    (lambda x: x.astype(jnp.float64), "returned tensor<2x3xf64> instead of tensor<2x3xf32>"),
    (lambda x: (), "returned nothing instead of tensor<2x3xf32>"),
]


@pytest.mark.parametrize(("function", "why"), FUNCTIONS)
def test_a_jax_function_of_other_results(function: Handler, why: str) -> None:
    found = given(function)
    assert why in found
    assert "return one array for each result of the call" in found


def test_two_real_results_are_no_complex_one() -> None:
    found = given(lambda x: (jnp.real(x), jnp.imag(x)), "tensor<3xcomplex<f32>>")
    assert "(tensor<3xf32>, tensor<3xf32>) instead of (tensor<3xf32>, tensor<3xf32>)" in found


OPERATORS = [
    (CustomOp("", "Reluu"), "made a node Reluu that is not valid in opset 23", "pass domain="),
    (CustomOp("", "LeakyRelu", {"alpha": "x"}), "actual: 'STRING'", "Expected: 'FLOAT'"),
    (CustomOp("", "Add"), "has input size 1 not in range [min=2", "give it the operands"),
    (CustomOp("", "Transpose"), "computes FLOAT[3,2]", "attributes"),
    (CustomOp("", "Relu", lambda entries: entries["k"]), "KeyError: 'k'", "correct it"),
    (CustomOp("", "Relu", lambda entries: 3), "are not a mapping: 3", "return a dictionary"),
]


@pytest.mark.parametrize(("operator", "why", "advice"), OPERATORS)
def test_an_operator_that_does_not_fit(operator: CustomOp, why: str, advice: str) -> None:
    found = given(operator)
    assert why in found
    assert advice in found


def test_a_version_is_a_number() -> None:
    with pytest.raises(UsageError, match=r"version='latest' is not a version"):
        translate(program(), custom_calls={"acme.kernel": CustomOp("a", "B", version="latest")})  # type: ignore[arg-type]


# -- registration and loading ---------------------------------------------------------------------


def takes_no_op(em: Emitter) -> Any:
    return em


def takes_attribute_by_position(em: Emitter, op: Op, slope: float) -> Any:
    return em.operand(op)


def takes_anything(em: Emitter, op: Op, **attributes: Any) -> Any:
    return em.operand(op)


@pytest.mark.parametrize("handler", [takes_no_op, takes_attribute_by_position, takes_anything])
def test_functions_that_are_no_handlers(handler: Handler) -> None:
    with pytest.raises(PluginError, match=rf"{handler.__name__} \(.*cannot be registered: it take"):
        handles_call("acme.kernel")(handler)


def test_an_op_has_one_handler() -> None:
    with pytest.raises(PluginError) as caught:
        handles("stablehlo.tanh")(nothing)
    text = str(caught.value)
    assert "stablehlo.tanh has a handler for real values already, dialect_handlers." in text
    assert f"{nothing.__module__}.nothing" in text


@pytest.mark.parametrize(("op", "form"), [("tanh", "real"), ("acme.tanh", "complicated")])
def test_what_can_be_registered(op: str, form: Any) -> None:
    with pytest.raises(PluginError, match="cannot be registered: "):
        handles(op, form=form)(nothing)


def install(folder: Path, code: str) -> None:
    """A package with an entry point, as pip leaves it."""
    (folder / "acme_onnx.py").write_text(code)
    metadata = folder / "acme_onnx-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-onnx\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[hlo2onnx.handlers]\nacme = acme_onnx\n")


HALF = """
from hlo2onnx.lowering.registry import handles_call

@handles_call("acme.kernel")
def kernel(em, op):
    return em.Relu(em.operand(op))

"""
BROKEN = [
    ("import acme_missing\n", "ModuleNotFoundError: No module named 'acme_missing' at "),
    ("def f(:\n", "SyntaxError"),
    ("1 / 0\n", "ZeroDivisionError: division by zero at "),
    ("handles_call('acme.kernel')(kernel)\n", "has a handler for real values already, acme_onnx"),
]


@pytest.mark.parametrize(("code", "why"), BROKEN)
def test_a_package_that_cannot_be_loaded(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, HALF + code)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # nothing of it stays
        load_handlers.cache_clear()
        with pytest.raises(PluginError) as caught:
            translate(program())
        text = str(caught.value)
        assert text.startswith("the plug-in acme = 'acme_onnx' of the package acme-onnx 1.2 cannot")
        assert why in text
        assert "uninstall acme-onnx 1.2" in text
        assert registry.find("stablehlo.custom_call @acme.kernel", False) is None


def test_a_package_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, HALF)
    monkeypatch.syspath_prepend(tmp_path)
    load_handlers.cache_clear()
    np.testing.assert_array_equal(translate(program())(X - 3), np.maximum(X - 3, 0))

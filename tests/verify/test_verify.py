"""Verification: what it compares, and what it says when something differs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify.compare import compare
from hlo2onnx.verify.f64_reference import is_evaluation_of, widened
from hlo2onnx.verify.reference import Reference

X = np.linspace(0.5, 2, 6, dtype=np.float32).reshape(2, 3)

TWO_FUNCTIONS = """
module {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.sine %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @other(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @helper(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @helper(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.cosine %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_a_wrong_model_fails() -> None:
    program = hlo2onnx.translate(jax.jit(jnp.sin).lower(X))
    (node,) = program.model.graph
    node.op_type = "Cos"
    verification = program.verify(X)
    assert not verification.ok
    assert not verification
    assert "DIFFERS" in str(verification)


def test_a_function_that_is_not_main() -> None:
    assert hlo2onnx.translate(TWO_FUNCTIONS, function="other").verify().ok


def test_tokens() -> None:
    text = """
module { func.func public @main(%arg0: !stablehlo.token, %arg1: tensor<2xf32>)
    -> (!stablehlo.token, tensor<2xf32>) {
  %0 = stablehlo.add %arg1, %arg1 : tensor<2xf32>
  return %arg0, %0 : !stablehlo.token, tensor<2xf32>
} }"""
    program = hlo2onnx.translate(text)
    assert program.input_names == ["arg1"]
    assert program.verify().ok


def test_random_inputs_avoid_nan() -> None:
    verification = hlo2onnx.translate(jax.jit(jnp.sqrt).lower(X)).verify()
    assert verification.ok
    assert not any("are NaN in XLA" in note for note in verification.notes)


def test_nan_in_xla_itself_is_noted() -> None:
    verification = hlo2onnx.translate(jax.jit(jnp.sqrt).lower(X)).verify(-X)
    assert verification.ok
    assert "6 of 6 elements are NaN in XLA itself" in verification.notes[0]


def test_types_the_opset_does_not_have_are_refused_with_the_argument() -> None:
    odd = "tensor<2xf8E4M3FN>"
    text = f"module {{ func.func public @main(%x: {odd}) -> {odd} {{ return %x : {odd} }} }}"
    with pytest.raises(hlo2onnx.TranslationError, match="argument") as caught:
        hlo2onnx.translate(text, opset=18)
    assert len(caught.value.refusals) == 2


def test_floats_made_of_bits_are_widened_afterwards() -> None:
    text = "%3 = stablehlo.bitcast_convert %2 : (tensor<4xui32>) -> tensor<4xf32> loc(#loc1)"
    assert widened(text) == (
        "%bits_3 = stablehlo.bitcast_convert %2 : (tensor<4xui32>) -> tensor<4xf32>\n"
        "%3 = stablehlo.convert %bits_3 : (tensor<4xf32>) -> tensor<4xf64> loc(#loc1)"
    )


def test_random_numbers_have_an_evaluation_in_f64() -> None:
    """The same uniform numbers but for roundings, which tell most in the tails."""
    lowered = jax.jit(lambda key: jax.random.normal(key, (2000,))).lower(jax.random.PRNGKey(0))
    key = np.array([0, 7], np.uint32)
    expected = [np.asarray(lowered.compile()(key))]
    source = load(lowered, (), {}, None)
    (exact,) = Reference(source).at([key]).in_f64([key], expected)
    assert exact is not None
    assert 0 < abs(exact - expected[0]).max() < 1e-4


def test_widened_text() -> None:
    text = (
        'dense<"0x0000803F00000040"> : tensor<2xf32> dense<0xFF800000> : tensor<f32>'
        " dense<[1.5, 0x7FC0]> : tensor<2xbf16> tensor<4xcomplex<f32>> tensor<2xi32>"
    )
    assert widened(text) == (
        'dense<"0x000000000000F03F0000000000000040"> : tensor<2xf64>'
        " dense<0xFFF0000000000000> : tensor<f64>"
        " dense<[1.5, 0x7FF8000000000000]> : tensor<2xf64> tensor<4xcomplex<f64>> tensor<2xi32>"
    )


def test_another_function_is_no_evaluation() -> None:
    want = np.ones(8, np.float32)
    assert is_evaluation_of(np.ones(8) + 1e-7, want)
    assert not is_evaluation_of(-np.ones(8), want)


def test_twice_the_error_of_xla() -> None:
    """What counts is the error to the evaluation in f64, where there is one."""
    truth = np.linspace(-1, 1, 1001)
    rounding = np.random.default_rng(0).standard_normal(truth.shape) * 1e-6

    def ok(error: object, own: object) -> bool:
        got, want = (np.float32(truth + item) for item in (error, own))
        assert not compare("y", got, want).ok
        return compare("y", got, want, truth).ok

    # Both are off by some 3e-6, at other elements.
    assert ok(rounding, rounding[::-1])
    # Within the tolerance of the truth, though not of XLA's result.
    assert ok(np.full(1001, 8e-7), np.full(1001, -2e-6))
    # XLA's error is at one element; ours is there, at another, or at all.
    bump = np.zeros(1001)
    bump[500] = 1e-4
    assert ok(-bump, bump)
    assert not ok(np.roll(bump, 1), bump)
    assert not ok(np.full(1001, 1e-5), bump)
    # XLA's errors are large everywhere, which excuses none of ours where it has none.
    large = np.full(1001, 1e-4)
    assert ok(large * 1.9, large)
    assert not ok(large * 2.1, large)
    large[3] = 0
    assert not ok(large, -large[::-1])
    # One element is not "nearly the worst" of others.
    assert not compare("y", np.float32([1, 3e-5]), np.float32([1 + 1e-5, 0]), np.array([1, 0.0])).ok


def test_another_function_excuses_only_what_agrees_with_it() -> None:
    """XLA's distance to it is no error; where ours has none, XLA has an error of its own."""
    want = np.linspace(-1, 1, 101).astype(np.float32)
    other = np.ones(101)
    assert not compare("y", want + np.float32(0.1), want, other).ok
    assert compare("y", other.astype(np.float32), want, other).ok


@pytest.mark.wide
def test_what_was_noted_is_repeated_where_results_differ() -> None:
    a = np.diag(np.arange(20, dtype=np.float32)) + 1
    program = hlo2onnx.translate(jax.jit(lambda a: -jnp.linalg.eigh(a)[1]).lower(a))
    [note] = program.report.notes
    assert "unique only up to a sign" in note
    found = [program.verify(a)]
    node = program.model.graph.outputs[0].producer()
    assert node is not None and node.op_type == "Neg"
    # All vectors with the other sign, which are right too; and others.
    for op_type in ("Identity", "Abs"):
        node.op_type = op_type
        found.append(program.verify(a))
    assert [verification.ok for verification in found] == [True, True, False]
    for verification in found:
        assert (note in verification.notes) == (not verification.ok)


def test_singular_values_alone_leave_nothing_open() -> None:
    a = np.ones((4, 3), np.float32)
    program = hlo2onnx.translate(jax.jit(jnp.linalg.svdvals).lower(a))
    assert not program.report.notes
    assert program.verify(a).ok


def test_models_that_may_ignore_nan() -> None:
    """The pooling of the model loses NaN, as nan= permits. Samples without NaN count."""

    def pool(x: jax.Array) -> jax.Array:
        x = jnp.where(jnp.isnan(x), x, x + 1)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (1, 1), "VALID")

    lowered = jax.jit(pool).lower(np.ones((4, 4), np.float32))
    found = hlo2onnx.translate(lowered).verify()
    assert found.ok, found
    assert any("the model may ignore NaN" in note for note in found.notes)
    strict = hlo2onnx.translate(lowered, nan="xla").verify()
    assert strict.ok, strict
    assert not any("ignore NaN" in note for note in strict.notes)


def test_counts_that_follow_rounding() -> None:
    """An integer is also right if the program has it in f64."""
    lowered = jax.jit(lambda x: (x * 3, jnp.int32(x.sum() * 0) + 2)).lower(X)
    source = load(lowered, (), {}, None)
    reference = Reference(source)
    _, exact = reference.at([X]).in_f64([X], reference([X]))
    want = np.int32(3)
    assert compare("count", np.int32(2), want, exact).ok
    assert not compare("count", np.int32(4), want, exact).ok


def test_nan_that_xla_has_in_f64_only() -> None:
    want, exact = np.zeros(2, np.float32), np.array([np.nan, 0])
    assert compare("y", np.float32([np.nan, 0]), want, exact).ok
    assert not compare("y", np.float32([0, np.nan]), want, exact).ok

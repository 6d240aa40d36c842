"""Python code that depends on shapes."""

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import VerificationError

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def even_or_not(x):
    return x * 2 if x.shape[0] % 2 == 0 else -x


@pytest.mark.parametrize("source", ["args", "made"])
def test_function_that_is_another_program_at_some_sizes(source):
    program = hlo2onnx.translate(even_or_not, X, dynamic="b, ...")
    found = program.verify(X) if source == "args" else program.verify(sizes=[{"b": 3}, {"b": 4}])
    assert not found.ok
    text = "at b = 4 the function is another program: Python code depends on the shape"
    assert text in found.notes
    assert not any("b = 3 the function" in note for note in found.notes)


def test_function_that_returns_other_shapes_at_some_sizes():
    program = hlo2onnx.translate(
        lambda x: x * 2 if x.shape[0] % 2 == 0 else x[:1], X, dynamic="b, ..."
    )
    text = (
        r"at b = \d the function is another program: Python code depends on the shape. It returns "
        r"tensor<(\d)x3xf32>, and the model returns tensor<1x3xf32>"
    )
    for args in ((), (X,)):
        with pytest.raises(VerificationError, match=text):
            program.verify(*args)
    assert program.verify(X[:3]).ok


def test_arguments_that_count_for_their_shape_only():
    assert hlo2onnx.translate(lambda x: jnp.ones(x.shape), X, dynamic="b, ...").verify().ok


def test_function_of_some_sizes_agrees_there():
    program = hlo2onnx.translate(even_or_not, X, dynamic="b, ...")
    assert program.verify(
        X[:3],
    ).ok


def test_weights_that_are_bound_stay():
    weights = np.ones((3, 2), np.float32)

    def scaled(w, x):
        return x @ w / x.shape[0]

    program = hlo2onnx.translate(scaled, weights, X, dynamic={"x": "b, ..."}, bind={"w": weights})
    assert program.verify().ok


def test_function_that_refuses_a_size_is_judged_as_translated():
    def checked(x):
        if isinstance(x.shape[0], int) and x.shape[0] == 1:
            raise ValueError("too few")
        return jnp.sin(x)

    assert hlo2onnx.translate(checked, X, dynamic="b, ...").verify().ok

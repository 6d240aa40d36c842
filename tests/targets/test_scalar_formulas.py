"""Formulas of scalars that become vectors: their shapes with and without the runtime's fusions."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.runtime.sessions import OrtProgram

Formula = Callable[[jax.Array, jax.Array], jax.Array]

FORMULAS: dict[str, Formula] = {
    "quotient": lambda a, b: 1 / a * b,
    "silu": lambda a, b: jax.nn.silu(a),
    "sigmoid": lambda a, b: jax.nn.sigmoid(a) * b,
    "gelu": lambda a, b: a * 0.5 * (1 + jax.lax.erf(a / np.float32(np.sqrt(2)))),
    "norm": lambda a, b: a * jax.lax.rsqrt(a * a + 1e-6) * b,
}
SHAPES: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "reshape": lambda y, b: jnp.reshape(y, (1,)),
    "stack": lambda y, b: jnp.stack([y, b]),
    "concatenate": lambda y, b: jnp.concatenate([y[None], b[None, None][0]]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_shapes(formula: str, shape: str, dtype: type) -> None:
    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return SHAPES[shape](FORMULAS[formula](a, b), b)

    with jax.enable_x64(True):
        a, b = dtype(2), dtype(3)
        program, expected = hlo2onnx.translate(function, a, b), function(a, b)
    content = program.model_proto.SerializeToString()
    for optimize in (True, False):
        session = OrtProgram(content, optimize=optimize)
        (found,) = session(dict(zip(program.input_names, (a, b), strict=False)))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)

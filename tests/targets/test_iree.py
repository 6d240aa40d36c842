"""The target iree avoids what IREE computes wrongly."""

from __future__ import annotations

import jax
import numpy as np

import hlo2onnx


def test_large_exponents_do_not_overflow() -> None:
    """IREE's ReduceLogSumExp adds the exponentials themselves."""
    x = np.array([[1000, 999, -5], [-2000, -2001, -2002]], np.float32)

    def total(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(x, axis=1)

    program = hlo2onnx.translate(total, x, target="iree")
    assert program.report.nodes["ReduceMax"]
    assert not program.report.nodes["ReduceLogSumExp"]
    np.testing.assert_allclose(program(x), jax.jit(total)(x), rtol=1e-6)

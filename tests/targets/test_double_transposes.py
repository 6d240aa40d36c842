"""Products of transposed f64 matrices, where the runtime fuses the two and has no kernel for it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from hlo2onnx import translate

PRODUCT = """
module { func.func public @main(%x: tensor<3x4xTYPE>, %y: tensor<3x5xTYPE>) -> tensor<4x5xTYPE> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
    : (tensor<3x4xTYPE>, tensor<3x5xTYPE>) -> tensor<4x5xTYPE>
  return %0 : tensor<4x5xTYPE>
} }
"""


@pytest.mark.parametrize("target", ["ort-cpu@1.20", "ort-cpu@1.23"])
def test_a_transpose_becomes_part_of_the_product(target: str) -> None:
    program = translate(PRODUCT.replace("TYPE", "f64"), target=target)
    assert program.report.nodes == {"Gemm": 1}
    assert program.verify().ok


def test_what_has_a_kernel_stays() -> None:
    for target, kind in (("ort-cpu", "f64"), ("ort-cpu@1.20", "f32")):
        program = translate(PRODUCT.replace("TYPE", kind), target=target)
        assert program.report.nodes == {"Transpose": 1, "MatMul": 1}


def batched(x: Array, y: Array) -> Array:
    return jnp.einsum("bij,bik->bjk", x, y)


def test_batches_stay() -> None:
    x, y = np.ones((2, 3, 4), np.float32), np.ones((2, 3, 5), np.float32)
    assert "Gemm" not in translate(batched, x, y, target="ort-cpu@1.20").report.nodes

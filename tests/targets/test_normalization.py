"""BatchNormalization and IsNaN for targets that lack their kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.target import Target

CPU = load_target("ort-cpu")
RNG = np.random.default_rng(0)


def without(op_type: str, *kinds: oir.DataType) -> Target:
    """The target ort-cpu without an operator, or without some of its types."""
    row = CPU.ops[op_type]
    return replace(
        CPU, ops={**CPU.ops, op_type: {k: v for k, v in row.items() if kinds and k not in kinds}}
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5)])
def test_batch_normalization(shape: tuple[int, ...], dtype: type) -> None:
    x = RNG.normal(size=shape).astype(dtype)
    scale, bias, mean, variance = (np.abs(RNG.normal(size=(4, 3))) + 0.5).astype(dtype)
    parts = dict(zip("somv", (scale, bias, mean, variance), strict=True))
    model = model_of(
        lambda b, **values: b.op("BatchNormalization", *values.values(), epsilon=1e-3),
        {"x": x, **parts},
    )
    legalize(model, without("BatchNormalization"), "xla", Report())
    assert "BatchNormalization" not in {node.op_type for node in model.graph}
    found = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x, **parts})[0]
    rest = (1,) * (len(shape) - 2)
    s, b, m, v = (y.reshape(3, *rest) for y in (scale, bias, mean, variance))
    right = (x - m) / np.sqrt(v + np.asarray(1e-3, dtype)) * s + b
    np.testing.assert_allclose(found, right, rtol=1e-5 if dtype == np.float32 else 1e-7)


def test_nan_of_f64() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -0.0, 5e-324, 1])
    model = model_of(lambda b, x: b.IsNaN(x), {"x": x})
    legalize(model, without("IsNaN", oir.DataType.DOUBLE), "xla", Report())
    assert [node.op_type for node in model.graph] == ["Cast", "IsNaN"]
    found = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})[0]
    np.testing.assert_array_equal(found, np.isnan(x))

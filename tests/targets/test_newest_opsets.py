"""The newest opsets that onnx knows and ONNX Runtime loads: models of them are valid and right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import hlo2onnx
from hlo2onnx.options import ir_version
from hlo2onnx.targets import load_target

NEWEST: int = onnx.defs.onnx_opset_version()
LATER = [opset for opset in (26, 27, 28) if opset <= NEWEST]
RELEASED = 28 if [*map(int, onnxruntime.__version__.split(".")[:2])] >= [1, 32] else 26
"""The newest opset that the installed runtime loads without a warning."""
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
N = np.array([-(2**31), -5, 7, 2**31 - 1], np.int32)


def model(x: Any, n: Any) -> Any:
    """Operators with a new form or new types in opsets 27 and 28, and some without."""
    y = jax.nn.softmax(jnp.clip(x, -1, 1) @ x.T)
    y, _ = jax.lax.scan(lambda y, row: (jnp.tanh(y + row.sum()), row[0]), y, x)
    return y, jax.nn.celu(x), n >> 3, n << 2, jnp.sort(x, 1), y.astype(jnp.bfloat16)


@pytest.mark.parametrize("opset", LATER)
@pytest.mark.parametrize("target", ["ort-cpu@1.32", "onnx"])
def test_models_of_new_opsets(opset: int, target: str, capfd: pytest.CaptureFixture[str]) -> None:
    program = hlo2onnx.translate(model, X, N, opset=opset, target=target)
    proto = program.model_proto
    assert [item.version for item in proto.opset_import if not item.domain] == [opset]
    assert proto.ir_version == onnx.helper.OP_SET_ID_VERSION_MAP["ai.onnx", opset]
    onnx.checker.check_model(proto, full_check=True)
    if opset > RELEASED:
        pytest.skip(f"for ONNX Runtime {onnxruntime.__version__} it is not released: it warns")
    capfd.readouterr()
    onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert capfd.readouterr().err == ""
    assert program.verify(X, N).ok


@pytest.mark.skipif(RELEASED < 28, reason="this ONNX Runtime does not load opset 28")
@pytest.mark.parametrize(("opset", "is_used"), [(27, True), (28, False)])
def test_log_sum_exp(opset: int, is_used: bool) -> None:
    """ONNX Runtime 1.32 has no kernel for opset 28: it runs the body of the function, which
    overflows."""
    program = hlo2onnx.translate(
        lambda x: jax.nn.logsumexp(x, 1), X, opset=opset, target="ort-cpu@1.32"
    )
    assert ("ReduceLogSumExp" in program.report.nodes) == is_used
    assert program.verify(X + 2000).ok and program.verify(X - 2000).ok


@pytest.mark.parametrize(
    ("target", "newest"), [("ort-cpu", 26), ("ort-cpu@1.32", 28), ("onnx", NEWEST)]
)
def test_a_newer_one_is_refused(target: str, newest: int) -> None:
    message = f"opset {newest + 1} is outside 17 to {newest}, the range of target {target}$"
    with pytest.raises(hlo2onnx.UsageError, match=message):
        hlo2onnx.translate(jnp.tanh, X, opset=newest + 1, target=target)


def test_types_of_an_opset_are_in_its_ir_version() -> None:
    versions = [ir_version(opset) for opset in range(17, 29)]
    assert versions == sorted(versions)
    for name in ("ort-cpu", "ort-cpu@1.32", "onnx"):
        target = load_target(name)
        assert ir_version(target.max_opset) <= target.max_ir_version

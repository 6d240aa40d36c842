"""JAX's harnesses in other runtimes: how models get there, and what becomes of the outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from small_models import model

from hlo2onnx.errors import VerificationError
from tools.conformance.outcome import Outcome
from tools.conformance.running import HERE, carried_feeds, place_of, with_ports
from tools.portability.page import page, verdict_of

X = np.array([1.5, -3], ml_dtypes.bfloat16)


def test_types_that_a_runtime_does_not_take_are_cast() -> None:
    content = model("g (bfloat16[2] x, float[2] w) => (bfloat16[2] y, float[2] z)"
                    " {y = Neg(x) z = Neg(w)}")  # fmt: skip
    few = {ir.DataType.FLOAT, ir.DataType.INT32}
    graph = onnx.load_from_string(with_ports(content, few, few)).graph
    assert [node.op_type for node in graph.node] == ["Cast", "Neg", "Neg", "Cast"]
    assert [item.name for item in graph.input] == ["x/carried", "w"]
    assert [item.name for item in graph.output] == ["y/carried", "z"]
    assert {item.type.tensor_type.elem_type for item in (*graph.input, *graph.output)} == {1}
    feeds = carried_feeds({"x": X, "w": np.zeros(2, np.float32)}, few)
    assert feeds["x/carried"].dtype == np.float32 and feeds["x/carried"].tolist() == [1.5, -3]
    assert feeds["w"].dtype == np.float32
    everything = {*few, ir.DataType.BFLOAT16}
    same = onnx.load_from_string(with_ports(content, everything, everything))
    assert same == onnx.load_from_string(content)


def test_places() -> None:
    assert place_of("") is HERE
    with pytest.raises(ValueError, match="there is no runtime tpu"):
        place_of("tpu=onnx")
    place = place_of("reference=onnx")
    assert (place.target, place.runner.levels) == ("onnx", (True,))


def test_a_model_in_another_process() -> None:
    place = place_of("ort-cpu=ort-cpu@1.31")
    assert (place.target, place.runner.levels) == ("ort-cpu@1.31", (True, False))

    def run(text: str, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return place.runner.session(model(text), optimize=True, denormals="keep")(feeds)

    (y,) = run("g (bfloat16[2] x) => (bfloat16[2] y) {y = Identity(x)}", {"x": X})
    assert (y.dtype, y.tolist()) == (X.dtype, [1.5, -3])
    with pytest.raises(VerificationError, match="find an implementation"):
        run("g (double[2] x) => (double[2] y) {y = Erf(x)}", {})


STATUSES = {
    "pass": "right",
    "refused": "refused",
    "run-error": "failed",
    "crash": "failed",
    "mismatch": "wrong",
}


@pytest.mark.parametrize(("status", "verdict"), STATUSES.items())
def test_verdicts(status: str, verdict: str) -> None:
    outcome = Outcome("case", status, "a reason")
    assert verdict_of(outcome, {}) == verdict
    undecided = {"case": "any order is right"}
    assert verdict_of(outcome, undecided) == ("right" if status == "mismatch" else verdict)


def test_figures(tmp_path: Path) -> None:
    cases = [
        {"name": name, "group": "sort", "status": status, "reason": "off|by <1>"}
        for name, status in {"a": "pass", "b": "mismatch", "c": "skipped"}.items()
    ]
    path = tmp_path / "found.json"
    path.write_text(json.dumps({"jax": "0.12.0", "runtime": "r@1", "cases": cases}))
    section = page({}, [path]).partition("## JAX's harnesses")[2]
    assert "| `r@1` | 1 | 0 | 0 | 1 |" in section
    assert "| `r@1` | sort | 1 wrong | mismatch: off\\|by &lt;1> |" in section
    assert "JAX's harnesses" not in page({})

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

from tools.conformance.outcome import Case, Outcome
from tools.conformance.pool import Pool
from tools.conformance.ports import carried_feeds, with_ports
from tools.conformance.running import HERE, RuntimeFailure, elsewhere, place_of
from tools.portability import harnesses
from tools.portability.harnesses import Found, found_in, read, summary
from tools.portability.page import page

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
    assert with_ports(content, everything, everything) == content


def test_a_model_in_another_process() -> None:
    place = elsewhere("ort-cpu", "ort-cpu@1.31", "unused")
    assert (place.target, place.runs) == ("ort-cpu@1.31", {"optimized": True, "plain": False})
    session = place.load(model("g (bfloat16[2] x) => (bfloat16[2] y) {y = Identity(x)}"), True)
    (y,) = session({"x": X})
    assert (y.dtype, y.tolist()) == (X.dtype, [1.5, -3])
    with pytest.raises(RuntimeFailure, match="find an implementation"):
        place.load(model("g (double[2] x) => (double[2] y) {y = Erf(x)}"), True)({})


def test_places() -> None:
    assert place_of({}) is HERE
    with pytest.raises(ValueError, match="there is no runtime tpu"):
        place_of({"runtime": "tpu", "target": "onnx", "environments": "unused"})
    place = place_of({"runtime": "reference", "target": "onnx", "environments": "unused"})
    assert (place.target, place.runs) == ("onnx", {"run": True})


@pytest.mark.parametrize(
    ("status", "verdict", "why"),
    [
        ("pass", "right", ""),
        ("refused", "refused", "a reason"),
        ("run-error", "failed", "run-error: a reason"),
        ("crash", "failed", "crash: a reason"),
        ("mismatch", "wrong", "a reason"),
    ],
)
def test_verdicts(status: str, verdict: str, why: str) -> None:
    outcome = Outcome("case", status, "" if status == "pass" else "a reason")
    assert found_in(outcome, "r", "g", {}) == Found("r", "case", "g", verdict, why)


def test_what_a_program_does_not_decide_is_right() -> None:
    known = {"case": "any order is right"}
    wrong = Outcome("case", "mismatch", "off")
    assert found_in(wrong, "r", "g", known) == Found("r", "case", "g", "right", known["case"])
    assert found_in(Outcome("case", "crash", "off"), "r", "g", known).verdict == "failed"


def test_runs_add_to_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is not there, or has one of the named verdicts, runs again."""
    asked: list[str] = []
    status = "mismatch"

    class Fake(Pool):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(jobs=0)

        def submit(self, names, options=None):  # type: ignore[no-untyped-def]
            asked.extend(names)
            futures = super().submit(names, options)
            for name, future in zip(names, futures, strict=True):
                future.set_result(Outcome(name, "skipped" if name == "s" else status))
            return futures

    cases = [Case(name, "g", "f32") for name in "abs"]
    monkeypatch.setattr(harnesses, "Pool", Fake)
    monkeypatch.setattr(harnesses, "list_cases", lambda: (cases, "0.12.0"))
    path = tmp_path / "results.jsonl"
    arguments = ["--results", str(path), "--every", "1", "--runtimes", "r=t"]
    path.write_text(
        json.dumps({"runtime": "r", "name": "a", "group": "g", "verdict": "right"}) + "\n"
    )
    assert harnesses.main(arguments) == 0
    assert asked == ["b", "s"]
    assert [(item.name, item.verdict) for item in read(path)] == [("a", "right"), ("b", "wrong")]
    asked.clear()
    status = "pass"
    harnesses.main([*arguments, "--again", "wrong"])
    assert asked == ["b", "s"]
    assert [(item.name, item.verdict) for item in read(path)] == [("a", "right"), ("b", "right")]


def test_figures() -> None:
    found = [
        Found("r@1", "a", "sort", "right"),
        Found("r@1", "b", "sort", "wrong", "off|by <1>"),
        Found("s", "a", "sort", "failed", "no answer"),
    ]
    assert summary(found).splitlines() == [
        "r@1: 1 right, 0 refused, 0 failed, 1 wrong, of 2",
        "  wrong  b  off|by <1>",
        "s: 0 right, 0 refused, 1 failed, 0 wrong, of 1",
        "  failed  a  no answer",
    ]
    section = page({}, found).partition("## JAX's harnesses")[2]
    assert "| `r@1` | 1 | 0 | 0 | 1 |" in section
    assert "| `r@1` | sort | 1 wrong | off\\|by &lt;1> |" in section
    assert "JAX's harnesses" not in page({})

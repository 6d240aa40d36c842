"""tools.gpu: a run on the CPU in place of a GPU, and the page with and without results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.gpu.__main__ import kinds_of, main, providers_of
from tools.gpu.page import MISSING, page, read

RUN = ["--provider", "CPUExecutionProvider", "--timed", "mlp", "--ops", "Abs", "--minutes", "5"]


@pytest.mark.wide
def test_a_run(tmp_path: Path) -> None:
    assert main(["mlp", "--out", str(tmp_path), *RUN]) == 0
    found = json.loads((tmp_path / "results.json").read_text())
    assert found == read(tmp_path)
    assert found["machine"]["onnxruntime"]
    assert found["examples"]["ort-cpu mlp"]["right"]
    assert {"JAX", "ours"} == found["times"]["ort-cpu mlp float32"].keys()
    assert found["kernels"]["Abs"]["right"] and not found["kernels"]["Abs"]["unlike the table"]


def test_out_of_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mlp", "--out", str(tmp_path), *RUN[:-1], "0"]) == 0
    assert "examples: out of time at ort-cpu mlp" in capsys.readouterr().err


def test_the_page() -> None:
    empty = page({})
    assert "| rk4 | not measured | not measured |" in empty
    found = {
        "machine": {"device": "Acme"},
        "examples": {
            "ort-cuda rk4": {"right": True},
            "ort-tensorrt rk4": {"error": "TranslationError: no"},
            "ort-cuda sod": {"right": False},
        },
        "times": {"ort-cuda vit float32": {"JAX": 1.0, "ours": 2.0}},
        "kernels": {"Abs": {"right": 3, "unlike the table": ["Abs i8 opset 21: runs"]}},
    }
    full = page(found)
    assert "Machine: device Acme." in full
    assert "| rk4 | right | refused |" in full
    assert "| sod | **wrong** | not measured |" in full
    assert "| vit, float32 | `ort-cuda` | 1.000 | 2.000 | not measured |" in full
    assert "* Abs i8 opset 21: runs" in full
    assert full.count(MISSING) < empty.count(MISSING)


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ([], ["--out", str(tmp_path), "--provider", "AcmeExecutionProvider"]):
        with pytest.raises(SystemExit):
            main(wrong)
    assert "has no AcmeExecutionProvider" in capsys.readouterr().err


def test_the_providers_of_a_target() -> None:
    assert kinds_of("CUDAExecutionProvider")[0] == "ort-cuda"
    names = [name for name, _ in providers_of("ort-tensorrt")]
    assert [name.removesuffix("ExecutionProvider") for name in names] == ["Tensorrt", "CUDA", "CPU"]

"""The tables of hlo2onnx: versions of a runtime, what they extend, their default opsets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

from hlo2onnx import translate
from hlo2onnx.cli import main
from hlo2onnx.targets import known_targets, load_target
from hlo2onnx.targets.names import ALIASES, INSTEAD
from tools.probe.__main__ import BASE, TABLES, known_table, written

F32, I64, I8 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT8
NAMES = sorted(path.stem for path in TABLES.glob("*.json"))


def test_every_file_is_a_target() -> None:
    assert known_targets() == sorted([*NAMES, "onnx"])
    assert NAMES == [
        "iree", "openvino", "ort-coreml", "ort-cpu", "ort-cpu@1.20", "ort-cpu@1.23", "ort-cpu@1.32",
        "ort-cuda", "ort-tensorrt", "ort-web", "ort-webgpu", "ort-xnnpack", "static", "tract",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, "onnx"])
def test_targets(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.about
    assert target.min_opset <= target.default_opset <= target.max_opset
    assert target.supports("MatMul", F32, target.default_opset)
    assert not target.supports("MatMul", F32, target.max_opset + 1)


def test_a_version_of_a_target() -> None:
    assert load_target("ort-cpu@1.20").runtime_version == "1.20.1"
    assert load_target("ort-cpu@1.31").supports("Add", I64, 23)
    assert load_target("ort-cpu@1.31").runtime_version == "1.31.1"
    assert load_target("ort-cpu@1.31.1").name == "ort-cpu@1.31.1"
    for unknown in ("ort-cpu@1.3", "ort-cpu@1.2", "ort-cpu@", "tpu@1"):
        with pytest.raises(ValueError, match="unknown target"):
            load_target(unknown)


def test_versions_have_kernels_of_their_own() -> None:
    supports = {name: load_target(name).supports("Add", I8, 21) for name in NAMES}
    assert supports["ort-cpu"] and supports["ort-cpu@1.23"]
    assert not supports["ort-cpu@1.20"]
    assert load_target("ort-cpu").is_wrong("Max", I64, 23)
    assert not load_target("ort-cpu@1.32").is_wrong("Max", I64, 23)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_written_as_the_prober_does(name: str) -> None:
    path = TABLES / f"{name}.json"
    table = known_table(path)
    assert written(table, extends=path != BASE) == path.read_text(encoding="utf-8")


def test_what_a_table_extends_is_left_out() -> None:
    table = {**known_table(BASE), "max_opset": 21, "loses_nan": False}
    table["ops"] = {**table["ops"], "Add": {}, "Neg": {"17-": "f32"}}
    table["wrong"] = {**table["wrong"], "Neg": {"18,20-": "f64"}}
    own = json.loads(written(table, extends=True))
    assert own["ops"] == {"Add": {}, "Neg": {"17-": "f32"}}
    assert own["wrong"] == {"Neg": {"18,20-": "f64"}}
    assert (own["max_opset"], own["loses_nan"]) == (21, False)
    assert not {"pairs", "costs", "skipped", "naive_sums", "harmful_fusions"} & own.keys()


def table(folder: Path, given: Mapping[str, Any]) -> str:
    path = folder / "acme.json"
    path.write_text(json.dumps({"extends": "ort-cpu", **given}))
    return str(path)


def test_the_default_opset_is_the_targets(tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    for target in ("ort-cpu", "ort-cpu@1.20"):
        assert translate(jnp.sin, x, target=target).report.opset == 21
    for given, opset in (({"max_opset": 19}, 19), ({"default_opset": 20}, 20)):
        assert translate(jnp.sin, x, target=table(tmp_path, given)).report.opset == opset
    assert translate(jnp.sin, x, target="ort-cpu@1.20", opset=18).report.opset == 18


def test_kernels_that_are_right_within_limits() -> None:
    target = load_target("ort-cpu")
    assert target.is_wrong("Max", I64, 23)
    assert target.is_limited("Max", I64, 23)
    assert not target.is_limited("ReduceProd", I64, 23)
    assert not target.is_limited("Add", I64, 23)


def test_the_command_lists_the_targets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--targets"])
    assert not done.value.code
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["target", *known_targets()]
    cells = {line.split()[0]: re.split("  +", line) for line in lines}
    assert cells["ort-cpu@1.20"][1:7] == [
        "onnxruntime 1.20.1", "17-21", "21", "Loop If Scan", "yes", "measured",
    ]  # fmt: skip
    assert cells["ort-coreml"][4:7] == ["none", "no", "read"]
    assert cells["ort-tensorrt"][4:7] == ["Loop If", "no", "read"]
    assert cells["ort-cuda"][4:7] == ["Loop If Scan", "yes", "asked"]
    assert all(len(row) == 8 for row in cells.values())


@pytest.mark.parametrize("name, target", sorted({**ALIASES, "CUDA": "ort-cuda"}.items()))
def test_common_names(name: str, target: str) -> None:
    assert load_target(name) is load_target(target)
    assert target in known_targets() and name not in known_targets()


@pytest.mark.parametrize("name", ["tflite", "NNAPI", "rocm", "qnn", "directml", "mps"])
def test_names_without_a_table(name: str) -> None:
    with pytest.raises(ValueError, match=rf"target '{name}'.*take ort-.*docs/runtimes.md"):
        load_target(name)
    assert INSTEAD.keys().isdisjoint({*ALIASES, *known_targets()})


def test_a_common_name_with_a_version() -> None:
    assert load_target("onnxruntime@1.20") is load_target("ort-cpu@1.20")
    report = translate(jnp.sin, np.ones(3, np.float32), target="cuda").report
    assert report.target == "ort-cuda"


def test_how_a_table_is_known(tmp_path: Path) -> None:
    assert load_target("ort-tensorrt").known == "read"
    assert load_target(table(tmp_path, {})).known == "measured"
    with pytest.raises(ValueError, match="known is 'guessed', not one of measured, asked, read"):
        load_target(table(tmp_path, {"known": "guessed"}))

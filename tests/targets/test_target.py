"""The kernel table of ONNX Runtime's CPU provider, the schema target, and the keys into both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from hlo2onnx.runtime.adapters.process import Tensor, array_of, tensor_of
from hlo2onnx.targets import Target, load_target
from hlo2onnx.targets.target import (
    VARIANT_SINCE,
    main_dtype,
    node_key,
    node_pairs,
    op_key,
    schema_target,
)
from tools.probe import table as kernel_table
from tools.probe import values
from tools.probe.value_trials import TRIALS, Trial, trials_of

ROOT = Path(__file__).parents[2]
PROBER = ("-m", "tools.probe")
TABLE = ROOT / "hlo2onnx" / "targets" / "tables" / "ort-cpu.json"
OPSET = 23
SPOT_OPS = "Abs,Add,BitwiseAnd,Conv,CumSum,MatMul,Max,Mod,Pad,ReduceSum,ScatterND,Where,Pow"
SPOT_DTYPES = "f32,f64,bf16,i64,u16"


@pytest.fixture(scope="module")
def cpu() -> Target:
    return load_target("ort-cpu")


def dtype(short_name: str) -> ir.DataType:
    return ir.DataType.from_short_name(short_name)


def run_python(*arguments: object) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    "key, short_name, runs",
    [
        ("Add", "f32", True),
        ("Add", "bf16", False),
        ("Conv", "f64", False),
        ("Max", "i64", False),  # runs, and gives wrong numbers
        ("DFT[onesided=1]", "f32", False),  # likewise
        ("LSTM", "f64", False),  # loads, refuses to run
        ("LSTM[layout=1]", "f32", False),
        ("ScatterND[add]", "f16", False),  # loads, refuses to run
        ("Mod[fmod=1]", "f32", True),
        ("Gather.indices", "i32", True),
        ("RandomUniform", "f32", False),  # until opset 21 only
        ("Cast", "f32", True),
        ("BitCast", "f32", False),  # from opset 26
        ("Loop", "f32", False),  # never probed
    ],
)
def test_known_facts(cpu: Target, key: str, short_name: str, runs: bool) -> None:
    assert cpu.supports(key, dtype(short_name), OPSET) is runs


def test_pairs(cpu: Target) -> None:
    assert cpu.supports_cast(dtype("f32"), dtype("bf16"), OPSET)
    assert cpu.supports_cast(dtype("f8e5m2"), dtype("u8"), OPSET)
    assert not cpu.supports_cast(dtype("f32"), dtype("f8e8m0"), OPSET)
    assert cpu.supports_cast(dtype("f32"), dtype("f8e8m0"), 24)
    assert cpu.supports_pair("BitCast", dtype("f32"), dtype("u32"), 26)
    assert not cpu.supports_pair("BitCast", dtype("f32"), dtype("f64"), 26)
    assert not node_pairs(ir.node("Attention", [ir.val("x", dtype("f32"))] * 3))  # without a mask
    with pytest.raises(ValueError, match="'Add' has no pair table"):
        cpu.supports_pair("Add", dtype("f32"), dtype("f32"), OPSET)
    x, n = ir.val("x", dtype("f32")), ir.val("n", dtype("i8"))
    once = ir.node("OneHot", [n, n, x])
    assert node_pairs(once) == [("OneHot", dtype("i8"), dtype("f32"))]
    q = ir.val("q", dtype("u8"))
    product = ir.node("QLinearMatMul", [q, x, q, n, x, n, x, q])
    assert node_pairs(product) == [("QLinearMatMul.b", dtype("u8"), dtype("i8"))]


def test_no_kernel_is_both_right_and_wrong(cpu: Target) -> None:
    table = json.loads(TABLE.read_text())
    for right, wrong in (("ops", "wrong"), ("pairs", "wrong_pairs")):
        facts = [
            kernel_table.decode(section, table[section], cpu.max_opset)
            for section in (right, wrong)
        ]
        assert facts[1]
        for fact, opsets in facts[1].items():
            assert not opsets & facts[0].get(fact, set()), fact


def test_sections_survive_being_written() -> None:
    table = json.loads(TABLE.read_text())
    newest = table["max_opset"]
    for section in kernel_table.SECTIONS:
        found = kernel_table.decode(section, table[section], newest)
        rows = {key: row for key, row in table[section].items() if row}
        assert kernel_table.encode(section, found, newest) == rows
    assert json.loads(kernel_table.dump(table)) == table
    assert kernel_table.dump(table) == TABLE.read_text()


def test_other_operators_survive_a_probe_of_some() -> None:
    table = json.loads(TABLE.read_text())
    rows = {section: {} for section in kernel_table.SECTIONS} | {"ops": {"Relu": {"17": "f32"}}}
    merged = kernel_table.merge(table, rows)
    assert merged["ops"].pop("Relu") == {"17": "f32"}
    for section in kernel_table.SECTIONS:
        kept = {key: row for key, row in table[section].items() if key != "Relu"}
        assert merged[section] == kept


def test_attributes_that_are_newer_than_the_operator(cpu: Target) -> None:
    for target in (cpu, load_target("onnx")):
        for key, since in VARIANT_SINCE.items():
            known = [n for n in range(17, 27) if target.supports(key, dtype("f32"), n)]
            assert known == list(range(since, 27)), key


@pytest.mark.parametrize("key", ["Bdd", "Bdd[add]", "Bdd.indices", ""])
@pytest.mark.parametrize("name", ["ort-cpu", "onnx"])
def test_names_that_are_no_operator(name: str, key: str) -> None:
    with pytest.raises(ValueError, match="no operator"):
        load_target(name).supports(key, dtype("f32"), OPSET)


def test_unknown_target_lists_the_known_ones() -> None:
    known = "iree, onnx, openvino, ort-coreml, ort-cpu, ort-cpu@1.20, ort-cpu@1.23, ort-cpu@1.32"
    with pytest.raises(ValueError, match=f"unknown target 'tpu'; known targets: {known}"):
        load_target("tpu")


def test_schema_target_allows_what_the_standard_allows() -> None:
    standard = schema_target("onnx")
    assert standard.min_opset == 17
    assert standard.supports("Add", dtype("f64"), 17)
    assert not standard.supports("Add", dtype("f64"), 16)
    assert standard.supports("Conv", dtype("f64"), OPSET)
    assert standard.supports("Conv", dtype("bf16"), 22)
    assert not standard.supports("Conv", dtype("bf16"), 21)
    assert not standard.supports("Conv", dtype("i32"), OPSET)
    assert standard.supports("ScatterND[add]", dtype("f16"), OPSET)
    assert standard.supports("Gather.indices", dtype("i32"), OPSET)
    assert not standard.supports("Gather.indices", dtype("i8"), OPSET)
    assert standard.supports_cast(dtype("f32"), dtype("f8e8m0"), 24)
    assert not standard.supports_cast(dtype("f32"), dtype("f8e8m0"), 23)
    assert not standard.supports("Upsample", dtype("f32"), OPSET)  # deprecated


def test_what_runs_is_in_the_standard(cpu: Target) -> None:
    standard = load_target("onnx")
    for key, row in json.loads(TABLE.read_text())["ops"].items():
        for name in " ".join(row.values()).split():
            for opset in range(cpu.min_opset, cpu.max_opset + 1):
                if cpu.supports(key, dtype(name), opset):
                    assert standard.supports(key, dtype(name), opset), (key, name, opset)


def test_keys() -> None:
    assert op_key("Add", {}) == "Add"
    assert op_key("ScatterND", {"reduction": "none"}) == "ScatterND"
    assert op_key("ScatterND", {"reduction": "add"}) == "ScatterND[add]"
    assert op_key("Mod", {"fmod": 1}) == "Mod[fmod=1]"
    assert op_key("Resize", {"antialias": 1, "mode": "cubic"}) == "Resize[cubic,antialias=1]"
    assert op_key("DFT", {"inverse": 0, "onesided": 0}) == "DFT"
    assert op_key("DFT", {"inverse": 1}) == "DFT[inverse=1]"
    assert op_key("DFT", {"onesided": 1}) == "DFT[onesided=1]"


def test_keys_and_types_of_nodes() -> None:
    flag, x = ir.val("flag", dtype("b8")), ir.val("x", dtype("f16"))
    where = ir.node("Where", [flag, x, x])
    assert (node_key(where), main_dtype(where)) == ("Where", dtype("f16"))
    pad = ir.node("Pad", [x, ir.val("pads", dtype("i64"))], {"mode": "edge"})
    assert (node_key(pad), main_dtype(pad)) == ("Pad[edge]", dtype("f16"))
    eye = ir.node("EyeLike", [x], outputs=[ir.val("y", dtype("i32"))])
    assert main_dtype(eye) == dtype("i32")
    assert main_dtype(ir.node("Relu", [None])) is None


@pytest.mark.wide
def test_import_leaves_the_runtime_alone() -> None:
    code = "import sys, hlo2onnx.targets; sys.exit('onnxruntime' in sys.modules)"
    assert run_python("-c", code).returncode == 0


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def test_table_is_of_the_installed_runtime_or_an_earlier_one(cpu: Target) -> None:
    assert version(ort.__version__) >= version(cpu.runtime_version)


@pytest.mark.wide
def test_spot_probe_equals_the_table() -> None:
    done = run_python(*PROBER, "--check", "--ops", SPOT_OPS, "--dtypes", SPOT_DTYPES)
    assert done.returncode == 0, done.stdout + done.stderr


def check_of(tmp_path: Path, version: str, op_type: str, *more: str) -> list[str]:
    """What the prober says of a table with mistakes."""
    table = json.loads(TABLE.read_text())
    table["runtime_version"] = version
    table["ops"]["Erf"] = {"18-26": "f32 f64"}
    table["ops"]["Pow"] = {"18-26": "f32 f64 f16 i64"}
    table["wrong"]["Pow"] = {"18-26": "f64"}
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(table))
    done = run_python(*PROBER, "--check", "--ops", op_type, "--opsets", "23", "--output", file)
    assert done.returncode == 1
    return sorted(done.stdout.splitlines())


@pytest.mark.wide
def test_check_finds_wrong_numbers(tmp_path: Path) -> None:
    found = check_of(tmp_path, ort.__version__, "Pow")
    assert [line for line in found if " f64 opset" in line or " i64 opset" in line] == [
        "Pow f64 opset 23: gives no wrong numbers, unlike in the table",
        "Pow i64 opset 23: does not run, unlike in the table",
        "Pow i64 opset 23: gives wrong numbers, unlike in the table",
    ]


# -- trials ----------------------------------------------------------------------------------------


def test_trials_are_of_operators_in_the_table(cpu: Target) -> None:
    table = json.loads(TABLE.read_text())
    assert TRIALS.keys() <= table["ops"].keys() | table["pairs"].keys()
    assert TRIALS.keys() >= table["wrong"].keys() | table["wrong_pairs"].keys()
    assert not trials_of("Gelu", (dtype("f32"),))


@pytest.mark.parametrize(
    "got, fault",
    [
        ([0.0, -0.0, 1, np.nan], ""),
        ([0.0, 0.0, 1, -np.nan], ""),
        ([0.0, 0.0, 2, np.nan], "gives 2.0, not 1.0 at (2,)"),
        ([0.0, -0.0, np.nan, np.nan], "gives nan, not 1.0 at (2,)"),
        ([0.0, -0.0, 1], "gives float32(3,), not float32(4,)"),
    ],
)
def test_verdicts(got: list[float], fault: str) -> None:
    right = np.array([0.0, -0.0, 1, np.nan], np.float32)
    trial = Trial("Identity", (right,), (right,))
    found = values.judge([trial], [tensor_of(np.array(got, np.float32))])
    assert found.partition(": ")[2].partition(", from")[0] == fault


def test_outputs_of_less_than_a_byte() -> None:
    numbers = ir.Tensor(np.array([1, -2, 7], dtype("i4").numpy()), dtype=dtype("i4"))
    packed = Tensor(int(dtype("i4")), (3,), numbers.tobytes())
    assert array_of(packed).tolist() == [1, -2, 7]

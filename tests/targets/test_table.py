"""Targets that are tables of their own: what they may hold, and what is wrong with others."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

from hlo2onnx import UsageError, translate
from hlo2onnx.cli import main
from hlo2onnx.runtime.adapters.installed import Name
from hlo2onnx.targets import load_target
from hlo2onnx.targets.costs import Costs, Flags
from hlo2onnx.targets.target import KEY_ATTRIBUTES
from tools.probe import __main__ as probe_kernels
from tools.probe.__main__ import BASE, SECTIONS
from tools.probe.flag_trials import FLAG_TRIALS
from tools.probe.prober import Limits

F32, I64, F64 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.DOUBLE
WHOLE = {
    "runtime": "acme",
    "runtime_version": "2.1",
    "min_opset": 18,
    "max_opset": 21,
    "max_ir_version": 10,
    "ops": {"Add": {"18-21": "f32 i64"}, "Tanh": {"18,20-21": "f32"}},
    "pairs": {"Cast": {"f32": {"18-21": "i64"}}},
    "wrong": {"Max": {"18-21": "i64"}},
    "skipped": {"runs graphs": "If Loop"},
    "naive_sums": True,
}
PROGRAM = """
module { func.func public @main(%x: tensor<3xi32>) -> tensor<3xi32> {
  %0 = stablehlo.add %x, %x : tensor<3xi32>
  return %0 : tensor<3xi32>
} }
"""


def written(folder: Path, table: Any, name: str = "acme_rt.json") -> str:
    path = folder / name
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return str(path)


def test_a_whole_table(tmp_path: Path) -> None:
    target = load_target(written(tmp_path, WHOLE))
    assert (target.name, target.runtime_version) == ("acme-rt", "2.1")
    assert (target.min_opset, target.max_opset, target.max_ir_version) == (18, 21, 10)
    assert target.supports("Add", I64, 21)
    assert not target.supports("Tanh", F32, 19)
    assert target.supports_cast(F32, I64, 20)
    assert target.supports("Cast", F32, 20)
    assert target.is_wrong("Max", I64, 18)
    assert target.skipped["Loop"] == "runs graphs"
    assert target.flags.naive_sums
    assert not target.flags.loses_nan


def test_what_a_table_extends(tmp_path: Path) -> None:
    """What it gives goes first, by operator; the rest is that of the other target."""
    own = {"extends": "ort-cpu", "max_opset": 21, "ops": {"Sin": {}}, "loses_nan": False}
    target, cpu = load_target(written(tmp_path, own)), load_target("ort-cpu")
    assert cpu.supports("Sin", F32, 20)
    assert not target.supports("Sin", F32, 20)
    assert target.supports("Cos", F32, 20)
    assert (target.min_opset, target.max_opset) == (cpu.min_opset, 21)
    assert (target.flags.loses_nan, cpu.flags.loses_nan) == (False, True)
    assert target.harmful_fusions == cpu.harmful_fusions
    assert target.skipped == cpu.skipped
    assert target.is_wrong("Max", I64, 20)


def test_costs_and_flags(tmp_path: Path) -> None:
    """What is not given is that of the extended table, or else the default."""
    cpu = load_target("ort-cpu")
    own = {"extends": "ort-cpu", "costs": {"unrolled_nodes": 7}, "slow_rnn": False}
    target = load_target(written(tmp_path, own))
    assert target.costs == replace(cpu.costs, unrolled_nodes=7)
    assert target.flags == replace(cpu.flags, slow_rnn=False)
    assert load_target(written(tmp_path, WHOLE)).costs == Costs()
    whole = load_target(written(tmp_path, {**WHOLE, "costs": {"unrolled_nodes": 7}}))
    assert whole.costs == Costs(unrolled_nodes=7)
    assert whole.flags == Flags(naive_sums=True)


def test_rules_ask_the_table(tmp_path: Path) -> None:
    loop = jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x) * 0.5, x))

    def nodes(nodes: int) -> list[str]:
        own = {"extends": "ort-cpu", "costs": {"unrolled_nodes": nodes}}
        program = translate(loop.lower(np.ones(3, np.float32)), target=written(tmp_path, own))
        return [node.op_type for node in program.model.graph]

    assert nodes(6) == ["Sin", "Mul"] * 3
    assert "Sin" not in nodes(5)


def test_handlers_ask_the_table(tmp_path: Path) -> None:
    def sums(terms: int) -> list[str]:
        own = {"extends": "ort-cpu", "costs": {"cumulative_sum_terms": terms}}
        lowered = jax.jit(jnp.cumsum).lower(np.ones(64, np.float32))
        model = translate(lowered, target=written(tmp_path, own)).model
        return [node.op_type for node in model.graph if node.op_type == "CumSum"]

    assert len(sums(64)) == 1
    assert len(sums(63)) == 2


def test_what_is_not_probed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {trial.flag for trial in FLAG_TRIALS}
    monkeypatch.setattr(probe_kernels, "harmful_fusions", lambda *_: {})
    monkeypatch.setattr(
        probe_kernels, "measured_flags", lambda _: [(flag, "wrong") for flag in measured]
    )
    known = json.loads(BASE.read_text())
    scattered = known["costs"]["ordered_scatter_elements"]
    monkeypatch.setattr(probe_kernels, "ordered_scatter_elements", lambda _: scattered)
    prober = SimpleNamespace(
        limits=Limits(18, 10),
        found={section: {} for section in SECTIONS},
        runtime=SimpleNamespace(version="1.0"),
        refusals=[],
    )
    table = probe_kernels.table_of(prober, Name("ort-cpu"), known)
    assert [key for key in known if key not in table] == []
    assert (table["costs"], table["slow_rnn"]) == (known["costs"], known["slow_rnn"])
    flags = {field.name for field in fields(Flags)}
    kept = {"about", "com.microsoft", "costs", "default_opset", "fallback"}
    assert kept | flags == {*measured, *probe_kernels.KEPT}


def test_the_standard_can_be_extended(tmp_path: Path) -> None:
    target = load_target(written(tmp_path, {"extends": "onnx", "ops": {"Sin": {"18-26": "f32"}}}))
    assert not target.supports("Sin", F64, 20)
    assert target.supports("Pad[wrap]", F64, 20)  # variants are not told apart there
    assert "Pad" in KEY_ATTRIBUTES


def test_pairs_replace_those_of_the_other_target(tmp_path: Path) -> None:
    pairs = {"Cast": {"f32": {"18-26": "i64"}}}
    target = load_target(written(tmp_path, {"extends": "ort-cpu", "pairs": pairs}))
    assert target.supports_cast(F32, I64, 20)
    assert not target.supports_cast(F32, F64, 20)
    assert not target.supports("Cast", F64, 20)
    assert load_target("ort-cpu").supports("Cast", F64, 20)


def test_a_model_for_it(tmp_path: Path) -> None:
    """A path is a target for `translate` and for the command; a changed file is read again."""
    path = written(tmp_path, {"extends": "ort-cpu", "ops": {"Add": {"18-26": "i64"}}})
    program = translate(PROGRAM, target=Path(path))
    assert program.report.target == "acme-rt"
    assert {node.op_type for node in program.model.graph} == {"Cast", "Add"}
    x = np.array([1, -2, 2**31 - 1], np.int32)
    np.testing.assert_array_equal(program(x), x + x)
    written(tmp_path, {"extends": "ort-cpu"})
    source = tmp_path / "model.mlir"
    source.write_text(PROGRAM)
    output = tmp_path / "model.onnx"
    assert main([str(source), "-o", str(output), "--target", path]) == 0
    assert [node.op_type for node in translate(PROGRAM, target=path).model.graph] == ["Add"]


NBITS = "com.microsoft"


def test_operators_of_the_runtime_itself(tmp_path: Path) -> None:
    def runs(table: Any, key: str = "MatMulNBits[bits=4]") -> bool:
        target = load_target(written(tmp_path, table))
        return target.has_contrib(key, ir.DataType.FLOAT)

    assert runs({"extends": "ort-cpu"}) and runs({"extends": "ort-cpu@1.32"})
    assert not runs({"extends": "ort-cpu", NBITS: {}}) and not runs({"extends": "ort-web"})
    assert not runs({"extends": "onnx"}) and not runs({"extends": "ort-cpu"}, "MatMulNBits[bits=8]")
    assert not runs({**WHOLE, NBITS: {"MatMulNBits[bits=4]": "f16"}})


MALFORMED = [
    ("{", "this is not JSON: "),
    ([1], "a table must be a JSON object, not list"),
    ({"extends": "ort-cpu", "op": {}}, "unknown key op; did you mean ops?"),
    ({"max_opset": 21}, "it lacks min_opset, max_ir_version, ops, pairs; give them, or the target"),
    ({"extends": "tpu"}, "unknown target 'tpu'"),
    ({"extends": 3}, "extends is 3, not a text"),
    ({"extends": "ort-cpu", "max_opset": True}, "max_opset is true, not a whole number"),
    ({"extends": "ort-cpu", "naive_sums": 1}, "naive_sums is 1, not true or false"),
    ({"extends": "ort-cpu", "slow_rn": True}, "unknown key slow_rn; did you mean slow_rnn?"),
    ({"extends": "ort-cpu", "costs": 3}, "costs is 3, not an object"),
    (
        {"extends": "ort-cpu", "costs": {"unroled_nodes": 3}},
        "unknown cost unroled_nodes; did you mean unrolled_nodes?",
    ),
    (
        {"extends": "ort-cpu", "costs": {"dft_stage": -1}},
        "costs: dft_stage is -1, not a whole number of at least 0",
    ),
    ({**WHOLE, "costs": {"dft_stage": 1.5}}, "costs: dft_stage is 1.5, not a whole number"),
    ({"extends": "ort-cpu", "ops": []}, "ops is [], not an object"),
    ({"extends": "ort-cpu", "max_opset": 16}, "max_opset 16 are not in order from 17 on"),
    ({"extends": "ort-cpu", "default_opset": 27}, "default_opset 27 and max_opset 26 are not in"),
    (
        {**WHOLE, "min_opset": 11},
        "min_opset 11, default_opset 21 and max_opset 21 are not in order",
    ),
    ({**WHOLE, "ops": {"Ad": {}}}, "ops: ONNX has no operator Ad; did you mean "),
    ({**WHOLE, "ops": {"Add.C": {}}}, "ops: Add has no input C"),
    ({**WHOLE, "pairs": {"Add": {}}}, "pairs: Add is not one of Attention"),
    ({**WHOLE, "ops": {"Add": ["f32"]}}, 'ops: Add: ["f32"] is not an object'),
    ({**WHOLE, "ops": {"Add": {"all": "f32"}}}, "ops: Add: 'all' is not a list of opsets"),
    ({**WHOLE, "ops": {"Add": {"18": ["f32"]}}}, "ops: Add: ['f32'] is not a text of types"),
    ({**WHOLE, "ops": {"Add": {"18": "f32 float"}}}, "ops: Add: unknown element type float;"),
    ({**WHOLE, "pairs": {"Cast": {"x": {}}}}, "pairs: Cast: unknown element type x;"),
    ({**WHOLE, "pairs": {"Cast": {"f32": {"18": "y"}}}}, "pairs: Cast: f32: unknown element"),
    (
        {**WHOLE, NBITS: {"MatMulNBit[bits=4]": "f32"}},
        f"{NBITS}: no rule makes MatMulNBit[bits=4];",
    ),
    ({**WHOLE, NBITS: {"MatMulNBits[bits=4]": 1}}, "MatMulNBits[bits=4]: 1 is not a text, such as"),
    ({**WHOLE, NBITS: {"MatMulNBits[bits=4]": "f"}}, "MatMulNBits[bits=4]: unknown element type f"),
    ({**WHOLE, "skipped": {"why": 1}}, "skipped: why: 1 is not a text"),
]


@pytest.mark.parametrize(("table", "why"), MALFORMED)
def test_malformed_tables(table: Any, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, table)
    with pytest.raises(UsageError) as caught:
        translate(PROGRAM, target=path)
    assert str(caught.value).startswith(f"target {path}: ")
    assert why in str(caught.value)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"target nowhere\.json: the file cannot be read: .*No such"
    ):
        translate(PROGRAM, target="nowhere.json")
    with pytest.raises(UsageError, match=r"'onnx' is the target of the standard; rename"):
        translate(PROGRAM, target=written(tmp_path, {"extends": "ort-cpu"}, "onnx.json"))
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="the file cannot be read: "):
        translate(PROGRAM, target=tmp_path / "x.json")

"""The command line: what it writes, what it says, how it exits."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_folder import MODEL, folder_with_models
from processes import environment, run_python

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.command.arguments import parser


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in a folder of its own."""
    return folder_with_models(tmp_path, monkeypatch)


def _stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def _child(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hlo2onnx", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, **options
    )


# -- success ----------------------------------------------------------------------------------


def test_writes_beside_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/good.mlir"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["good.onnx", "models"]
    onnx.checker.check_model(str(folder / "good.onnx"), full_check=True)
    out, err = capsys.readouterr()
    assert err == ""
    for line in (
        "  x             float32[3]",
        "  params/scale  float32[]",
        "  y             float32[3]",
        "source   good.mlir",
        "target   ort-cpu, opset 21",
    ):
        assert line in out.splitlines()
    assert "1 Tanh" in out
    assert "written  good.onnx, " in out
    assert "verdict" not in out


def test_output_and_opset(folder: Path) -> None:
    assert cli.main(["models/good.mlir", "-o", "models/other.onnx", "--opset", "21"]) == 0
    assert onnx.load(folder / "models" / "other.onnx").opset_import[0].version == 21
    assert not (folder / "good.onnx").exists()


def test_verify_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["models/good.mlir", "--verify", "--seed", "5", "--report", "report.json"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "y float32[3]" in out
    assert "random inputs, seed 5" in out
    report = json.loads((folder / "report.json").read_text())
    assert report["error"] is None
    assert report["report"]["nodes"]["Tanh"] == 1
    assert report["report"]["ops"]["stablehlo.tanh"] == 1
    assert report["verification"]["ok"] is True
    assert report["verification"]["optimized"][0]["name"] == "y"


def test_options_of_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(3, dtype=np.float32)
    np.savez(folder / "inputs.npz", **{"x": x, "params/scale": np.float32(2)})
    verify = ["models/good.mlir", "--verify", "--rtol", "1e-3", "--atol", "1e-3"]
    assert cli.main([*verify, "--samples", "2"]) == 0
    assert "2 samples" in capsys.readouterr().out
    assert cli.main([*verify, "--inputs", "inputs.npz"]) == 0
    assert "random inputs" not in capsys.readouterr().out
    np.savez(folder / "other.npz", z=np.zeros(3))
    assert cli.main([*verify, "--inputs", "other.npz"]) == 2
    assert "other.npz has no array x, params/scale" in capsys.readouterr().err
    assert cli.main([*verify, "--sizes", "b=3"]) == 2
    assert "no dimension b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "0"], "0 is not a whole number of at least 1"),
        (["--samples", "1.5"], "1.5 is not a whole number"),
        (["--seed", "-1"], "-1 is not a whole number of at least 0"),
        (["--rtol", "nan"], "nan is not a number of at least 0"),
        (["--atol=-1"], "-1 is not a number of at least 0"),
        (["--inputs", "none.npz"], "no such file: none.npz"),
        (["--inputs", "models"], "models is a folder"),
        (["--runtime", "openvino=nowhere"], "no such file or folder: nowhere"),
        (["--sizes", "b=3"], "no dimension b; its dimensions are all fixed"),
    ],
)
def test_options_of_verify_are_checked_before_the_translation(
    options: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(["models/good.mlir", "--verify", *options])
    except SystemExit as end:  # of argparse
        code = int(str(end.code))
    assert code == 2
    shown = capsys.readouterr()
    assert message in shown.err and not shown.out
    assert not list(folder.glob("*.onnx"))


@pytest.mark.parametrize(
    "option",
    [
        *(["--samples", "2"], ["--rtol", "1"], ["--atol", "1"], ["--sizes", "b=1"]),
        *(["--inputs", "a"], ["--seconds", "5"]),
    ],
)
def test_options_without_verify(
    option: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models/good.mlir", *option]) == 2
    assert f"{option[0]} has no meaning without --verify or --bisect" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04cut off", b"\x80\x04\x95pickle"])
def test_inputs_that_are_no_archive(
    content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.npz").write_bytes(content)
    assert cli.main(["models/good.mlir", "--verify", "--inputs", "a.npz"]) == 2
    assert "a.npz is not a file of numpy.savez" in capsys.readouterr().err


def test_inputs_of_other_kinds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verify = ["models/good.mlir", "--verify", "--inputs"]
    np.save(folder / "one.npy", np.zeros(3))
    assert cli.main([*verify, "one.npy"]) == 2
    assert "one.npy is not a file of numpy.savez" in capsys.readouterr().err
    objects = np.array([None, "a"], object)
    np.savez(folder / "objects.npz", **{"x": objects, "params/scale": np.float32(2)})
    assert cli.main([*verify, "objects.npz"]) == 2
    assert "objects.npz is not a file of numpy.savez" in capsys.readouterr().err


def test_outputs_that_say_little(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = MODEL.replace("stablehlo.tanh %arg0 ", "stablehlo.subtract %arg0, %arg0 ")
    (folder / "flat.mlir").write_text(flat)
    assert cli.main(["flat.mlir", "--verify"]) == 0
    shown = capsys.readouterr()
    assert "says little: all elements are equal" in shown.out
    assert "says little of y" in shown.err


def test_dump_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLO2ONNX_DUMP", str(folder / "stages"))
    assert cli.main(["models/good.mlir"]) == 0
    assert (folder / "stages" / "00_load.mlir").exists()


def test_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = MODEL + MODEL.replace("@main", "@other").replace("tanh", "negate")
    (folder / "two.mlir").write_text(two)
    assert cli.main(["two.mlir", "--function", "other"]) == 0
    assert "1 Neg" in capsys.readouterr().out
    assert cli.main(["two.mlir", "--function", "third"]) == 2
    assert "it has @main, @other" in capsys.readouterr().err


def test_options_reach_the_translation(folder: Path) -> None:
    given = ["--target", "onnx", "--nan", "xla", "--half", "fast"]
    options = parser().parse_args(["a.mlir", *given, "--without", "a", "--without", "b"])
    assert (options.target, options.nan, options.half) == ("onnx", "xla", "fast")
    assert options.without == ["a", "b"]
    assert cli.main(["models/good.mlir", *given]) == 0


@pytest.mark.parametrize("name", ["unroll-loop", "loop-unroll"], ids=["formerly", "now"])
def test_rules_are_switched_off_by_any_of_their_names(name: str, folder: Path) -> None:
    assert cli.main(["models/good.mlir", "--no-raise", name]) == 0


@pytest.mark.parametrize("binary", [False, True])
def test_standard_input(binary: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = MODEL.encode()
    if binary:
        from hlo2onnx.frontend.mlir.untrusted import rewrite

        content = rewrite(MODEL, "it")
    _stdin(monkeypatch, content)
    assert cli.main(["-", "-o", "piped.onnx"]) == 0
    assert (folder / "piped.onnx").exists()


def test_verify_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stdin(monkeypatch, MODEL.encode())
    assert cli.main(["-", "--verify"]) == 0
    assert not list(folder.glob("*.onnx"))
    assert "verdict" in capsys.readouterr().out


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/good.mlir", "--explain", "softmax", "--explain", "relu"]) == 0
    out = capsys.readouterr().out
    assert "\nsoftmax: Div(e, ReduceSum(e, a))" in out and "\nrelu: Max(x, 0) -> Relu(x)" in out
    assert cli.main(["models/good.mlir", "--explain", "softmin"]) == 2
    assert "no rule named softmin; did you mean softmax" in capsys.readouterr().err


def test_explain_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, MODEL.encode())
    assert cli.main(["-", "--explain", "softmax"]) == 0
    assert not list(folder.glob("*.onnx"))


def test_as_a_command(folder: Path) -> None:
    child = _child("-", "-o", "piped.onnx", "--verify", input=MODEL)
    assert (child.returncode, child.stderr) == (0, "")
    assert "written  piped.onnx" in child.stdout
    assert (folder / "piped.onnx").exists()


def test_sizes_may_be_given_one_by_one(folder: Path) -> None:
    text = MODEL.replace("tensor<3xf32>", "tensor<?x?xf32>")
    parts = text.partition("  %1")[0]
    (folder / "models" / "dynamic.mlir").write_text(f"{parts}  return %0 : tensor<?x?xf32>\n}}\n")
    sizes = ["--specialize", "x_dim0=2", "--specialize", "x_dim1=5"]
    assert cli.main(["models/dynamic.mlir", *sizes]) == 0
    dims = onnx.load(folder / "dynamic.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [2, 5]


# -- failure ----------------------------------------------------------------------------------


def test_unsupported_ops_come_all_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/bad.mlir", "--report", "report.json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hlo2onnx: 2 ops of this program cannot be translated to ONNX\n")
    assert err.count("(tensor<3xf32>) -> tensor<3xf32>") == 2
    assert "train.py:7" in err
    assert "train.py:9" in err
    assert "Traceback" not in err
    assert not (folder / "bad.onnx").exists()
    report = json.loads((folder / "report.json").read_text())
    assert [item["op"].partition(" @")[0] for item in report["refusals"]] == [
        "stablehlo.custom_call"
    ] * 2
    assert "2 ops" in report["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: model"),
        (["a.mlir", "b.mlir"], "unrecognized arguments"),
        (["models/good.mlir", "--nan", "maybe"], "invalid choice"),
        (["models/good.mlir", "--opset", "3"], "opset 3 is outside"),
        (["models/good.mlir", "--target", "gameboy"], "gameboy"),
        (["missing.mlir"], "no such file: missing.mlir"),
        (["models"], "models is a folder"),
        (["models/good.mlir", "-o", "models"], "cannot write to models: it is a folder"),
        (["models/good.mlir", "-o", "no/such/model.onnx"], "there is no folder no/such"),
        (["models/good.mlir", "--report", "no/report.json"], "there is no folder no"),
        (["models/good.mlir", "-o", "models/good.mlir"], "is the input itself"),
        (["-"], "needs -o FILE"),
        (["models/good.mlir", "-o", "-", "--report", "-"], "cannot be written to standard output"),
        (["models/good.mlir", "--profile", "profile.svg"], "unrecognized arguments: profile.svg"),
        (["models/good.mlir", "-q", "-v"], "not allowed with argument"),
        (["models/good.mlir", "--print-completion", "fish"], "invalid choice"),
        (["models/good.mlir", "-o", "x.onnx", "--report", "./x.onnx"], "name the same file"),
        (["models/good.mlir", "--report", "x", "--profile-svg", "models/../x"], "the same file"),
        (["models/good.mlir", "--report", "models/good.mlir"], "is the input itself"),
        (["models/good.mlir", "--profile-svg", "models/link.mlir"], "is the input itself"),
        (["models/good.mlir", "-o", "models/dangling", "--report", "r.json"], "the same file"),
        (["models/good.mlir", "--report", "good.onnx-0123456789ab.data"], "file with weights"),
        (["models/good.mlir", "--dump", ".", "--report", "rules.txt"], "--dump . could overwrite"),
        (["models/00_load.mlir", "--dump", "models"], "--dump models could overwrite models/00"),
        (["models/good.mlir", "--target", "models/t.json", "-o", "models/t.json"], "the input"),
        (["models/good.MLIR", "-o", "models/good.mlir"], "no such file: models/good.MLIR"),
        (["models/good.onnx"], "models/good.onnx is an ONNX model already"),
        (["models/good.mlir", "--opset", "x"], "invalid int value: 'x'; see hlo2onnx --help"),
        (["models/good.mlir", "--specialize", "b"], "'b' is not NAME=SIZE"),
        (["models/good.mlir", "--specialize", "b=x"], "'b=x' is not NAME=SIZE"),
        (
            ["models/good.mlir", "--specialize", "c=8"],
            "no dimension c; its dimensions are all fixed",
        ),
        (["models/good.mlir", "--dump", "models/bad.mlir"], "it is a file; name a folder"),
        (["models/good.mlir", "-o", "models/bad.mlir/x"], "there is no folder models/bad.mlir"),
    ],
)
def test_mistakes_in_the_command(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: Any = cli.main(arguments)
    except SystemExit as exit_of_argparse:
        code = exit_of_argparse.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["models"]


@pytest.mark.parametrize(("module", "package"), [("onnxruntime", "onnxruntime"), ("jax", "jax")])
def test_missing_packages(
    module: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def translate(*_: Any, **__: Any) -> None:
        raise error

    error = ModuleNotFoundError(f"No module named '{module}'", name=module)
    if module == "onnxruntime":
        error = hlo2onnx.errors.NotInstalledError("onnxruntime is not installed")
    monkeypatch.setattr("hlo2onnx.api.translate", translate)
    assert cli.main(["models/good.mlir"]) == 3
    shown = capsys.readouterr().err
    assert f"hlo2onnx: {package} is not installed" in shown and "internal error" not in shown


def test_differing_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(program: Any, *inputs: Any) -> Any:
        return [array + 1 for array in original(program, *inputs)]

    from hlo2onnx.runtime.sessions import OrtProgram

    original = OrtProgram.__call__
    monkeypatch.setattr(OrtProgram, "__call__", run)
    assert cli.main(["models/good.mlir", "--verify"]) == 1
    out, err = capsys.readouterr()
    assert "DIFFERS" in out
    judged = f"ONNX Runtime {metadata.version('onnxruntime')}"
    assert err == f"hlo2onnx: verification failed: {judged} and XLA disagree\n"
    assert f"runtime  {judged}\n" in out


def test_bugs_are_called_bugs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(hlo2onnx.api, "run_stages", broken)
    assert cli.main(["models/good.mlir"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("hlo2onnx: internal error: ZeroDivisionError: oops\n")
    assert "--debug" in err
    with pytest.raises(ZeroDivisionError):
        cli.main(["models/good.mlir", "--debug"])


def test_interruption(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hlo2onnx.api, "run_stages", interrupted)
    assert cli.main(["models/good.mlir"]) == 130
    assert capsys.readouterr().err == "hlo2onnx: interrupted\n"


def test_debug_shows_a_traceback() -> None:
    child = _child("models/bad.mlir", "--debug")
    assert child.returncode == 1
    assert child.stderr.startswith("Traceback")
    assert "TranslationError: 2 ops" in child.stderr


@pytest.mark.costly
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("output", ["/dev/full", "-"])
def test_full_disk(output: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "hlo2onnx", "models/good.mlir", "-o", output]
        child = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False
        )
    name = "standard output" if output == "-" else output
    assert child.stderr.startswith(f"hlo2onnx: cannot write {name}: No space left on device\n")
    assert child.returncode == 1 and "bug" not in child.stderr


@pytest.mark.wide
def test_closed_pipe() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "hlo2onnx", "models/good.mlir"]
    child = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, env=environment(), check=False
    )
    os.close(write)
    assert (child.returncode, child.stderr) == (1, "")


# -- start-up ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "word"), [("--help", "usage: hlo2onnx"), ("--version", "0.")])
def test_help_imports_no_jax(option: str, word: str) -> None:
    out = run_python(
        f"""
        import sys
        from hlo2onnx.cli import main
        try:
            main(["{option}"])
        except SystemExit as exit:
            print(exit.code, sorted({{"jax", "jaxlib", "onnx", "numpy"}} & sys.modules.keys()))
        """
    )
    assert word in out
    assert out.endswith("0 []\n")


def test_import_is_light() -> None:
    out = run_python(
        """
        import sys
        from hlo2onnx import OnnxProgram, Verification, translate
        heavy = {"flax", "equinox", "onnxruntime", "rich", "optax", "torch", "tensorflow"}
        print(sorted(heavy & sys.modules.keys()))
        """
    )
    assert out == "[]\n"


def test_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/calling_back.mlir"]) == 1
    assert "(--callbacks unreachable) leaves the branch out" in capsys.readouterr().err
    assert cli.main(["models/calling_back.mlir", "--callbacks", "unreachable", "--verify"]) == 0
    assert "a branch with a Python callback at input:" in capsys.readouterr().out

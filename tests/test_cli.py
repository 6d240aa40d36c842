"""The command line: what it writes, what it says, how it exits."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
from processes import environment, run_python

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.command.output import Console, summary
from hlo2onnx.targets import load_target

MODEL = """
func.func @main(%arg0: tensor<3xf32> loc("x"), %arg1: tensor<f32> loc("params['scale']"))
    -> (tensor<3xf32> {jax.result_info = "result.y"}) {
  %0 = stablehlo.tanh %arg0 : tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}
"""
UNSUPPORTED = """
#loc1 = loc("train.py":7:3)
#loc2 = loc("train.py":9:3)
func.func @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @mystery(%arg0) : (tensor<3xf32>) -> tensor<3xf32> loc(#loc1)
  %1 = stablehlo.custom_call @riddle(%0) : (tensor<3xf32>) -> tensor<3xf32> loc(#loc2)
  return %1 : tensor<3xf32>
}
"""

CALLING_BACK = """
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<i1>) -> tensor<3xf32> {
  %0 = "stablehlo.if"(%arg1) ({
    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0)
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }, {
    stablehlo.return %arg0 : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in an empty folder but for the models above."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    models = tmp_path / "models"
    models.mkdir()
    (models / "good.mlir").write_text(MODEL)
    (models / "bad.mlir").write_text(UNSUPPORTED)
    (models / "calling_back.mlir").write_text(CALLING_BACK)
    (models / "00_load.mlir").write_text(MODEL)
    (models / "link.mlir").symlink_to("good.mlir")
    (models / "hard.mlir").hardlink_to(models / "good.mlir")
    (models / "dangling").symlink_to("../r.json")
    (models / "t.json").touch()
    return tmp_path


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
        "  result/y      float32[3]",
        "source   good.mlir",
        "target   ort-cpu, opset 23",
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
    assert "result/y float32[3]" in out
    assert "random inputs, seed 5" in out
    report = json.loads((folder / "report.json").read_text())
    assert report["error"] is None
    assert report["report"]["nodes"]["Tanh"] == 1
    assert report["report"]["ops"]["stablehlo.tanh"] == 1
    assert report["verification"]["ok"] is True
    assert report["verification"]["optimized"][0]["name"] == "result/y"


def test_dump(folder: Path) -> None:
    assert cli.main(["models/good.mlir", "--dump", "stages"]) == 0
    names = sorted(path.name for path in (folder / "stages").iterdir())
    assert names[0] == "00_load.mlir"
    assert names[-2].endswith("_legalize.txt") and names[-1] == "rules.txt"


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
    options = cli._parser().parse_args(["a.mlir", *given, "--without", "a", "--without", "b"])
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
        from hlo2onnx.mlir.parse_in_subprocess import rewrite

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
    assert "no rule named softmin; the rules are" in capsys.readouterr().err


def test_explain_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, MODEL.encode())
    assert cli.main(["-", "--explain", "softmax"]) == 0
    assert not list(folder.glob("*.onnx"))


# -- standard output and files ------------------------------------------------------------------


def test_model_on_standard_output(folder: Path) -> None:
    command = [sys.executable, "-m", "hlo2onnx", "-", "-o", "-", "--verify"]
    child = subprocess.run(
        command, input=MODEL.encode(), capture_output=True, env=environment(), check=False
    )
    assert child.returncode == 0 and b"verdict" in child.stderr
    assert len(onnx.load_from_string(child.stdout).graph.node) == 2
    assert [path.name for path in folder.iterdir()] == ["models"]


def test_report_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/good.mlir", "--report", "-"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["inputs"] == {"x": "float32[3]", "params/scale": "float32[]"}
    assert report["outputs"] == {"result/y": "float32[3]"}
    assert "written  good.onnx" in err


def test_no_model_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    assert cli.main(["models/good.mlir", "-o", "-"]) == 2
    assert "would write a binary file to the terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        ("> out.onnx", "is also standard output"),
        ("< models/good.mlir > /dev/null", "standard input reads it"),
    ],
)
def test_files_that_the_shell_has_opened(redirection: str, message: str, folder: Path) -> None:
    model, output = ("models/good.mlir", "out.onnx") if "out" in redirection else ("-", "")
    output = output or "models/hard.mlir"
    child = subprocess.run(
        f"{sys.executable} -m hlo2onnx {model} -o {output} {redirection}",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert child.returncode == 2 and message in child.stderr
    assert (folder / "models" / "good.mlir").read_text() == MODEL


def test_one_device_may_take_several_outputs() -> None:
    arguments = ["-o", os.devnull, "--report", os.devnull]
    assert cli.main(["models/good.mlir", *arguments]) == 0


@pytest.mark.parametrize("what", ["model.onnx", "stages"])
def test_permissions_are_checked_first(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    option = "-o" if what == "model.onnx" else "--dump"
    assert cli.main(["models/good.mlir", "-o", os.devnull, option, what]) == 2
    assert "no permission" in capsys.readouterr().err


def test_profile_takes_no_argument(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-o", "a.onnx", "--profile", "models/good.mlir"]) == 0
    assert "ms in nodes" in capsys.readouterr().out
    assert cli.main(["--profile-svg", "a.svg", "-q", "models/good.mlir"]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "a.svg").read_text().startswith("<svg")


# -- how much it says -----------------------------------------------------------------------------


def test_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-q", "models/good.mlir", "--verify"]) == 0
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(hlo2onnx.Verification, "ok", property(lambda _: False))
    assert cli.main(["-q", "models/good.mlir", "--verify"]) == 1
    out, err = capsys.readouterr()
    assert "verdict" in out and "verification failed" in err


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-v", "models/good.mlir"]) == 0
    stages = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert stages == ["import", "load", "normalize", "lower", "raise", "legalize", "save"]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_summary_fits_a_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real one has 200 inputs and 50 rules."""
    monkeypatch.setenv("COLUMNS", str(columns))
    program = hlo2onnx.translate(lambda *x: sum(x), *[1.0] * 200)
    for name in ("rules", "nodes", "casts"):
        setattr(program.report, name, Counter({f"some-rule-{n}": n for n in range(50)}))
    program.report.notes = ["a long note " * 30] * 10
    short = summary(program, None, verbose=False).splitlines()
    assert len(short) <= 24 and max(map(len, short)) <= columns
    assert "  ... 197 more" in short and "note     ... 8 more" in short
    listed = " ".join(short).partition("rules ")[2].partition(" casts")[0]
    shown = listed.count("some-rule")
    assert f"... {50 - shown} more" in listed and shown
    whole = summary(program, None, verbose=True)
    assert all(f" {n} some-rule-{n}" in whole for n in range(50))
    assert max(map(len, whole.splitlines())) <= columns


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("seconds", [0.0, 0.6])
def test_the_stage_is_shown_on_a_terminal(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hlo2onnx.command.output.SHOWN_AFTER", 0.1)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Console(quiet=False, verbose=False, to_stderr=False) as console:
        console.begin("raise")
        time.sleep(seconds)
        console.show("the summary")
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert ("raise, 0 s" in text) == bool(seconds)
    assert text.rpartition("raise")[2].strip(" \r,0123456789s") == ""  # it is wiped out


# -- help and completion --------------------------------------------------------------------------


def test_help_has_the_opsets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    target = load_target("ort-cpu")
    text = " ".join(capsys.readouterr().out.split())
    assert f"ONNX opset, {target.min_opset} to {target.max_opset} (default: 23" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as end:
        cli.main(["--print-completion", shell])
    script = capsys.readouterr().out
    assert end.value.code == 0
    assert all(word in script for word in ("profile-svg", "layer-normalization", "drop-checks"))
    if shell == "bash" and shutil.which("bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_completion_without_its_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["--print-completion", "bash"])
    assert "pip install 'hlo2onnx[completion]'" in capsys.readouterr().err


# -- as a command ---------------------------------------------------------------------------------


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
        (["models/good.mlir", "--opset", "many"], "invalid int"),
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
        (["models/good.mlir", "--profile-svg", "-"], "cannot be written to standard output"),
        (["models/good.mlir", "--profile", "profile.svg"], "unrecognized arguments: profile.svg"),
        (["models/good.mlir", "-q", "-v"], "not allowed with argument"),
        (["models/good.mlir", "--print-completion", "fish"], "invalid choice"),
        (["models/good.mlir", "-o", "x.onnx", "--report", "./x.onnx"], "name the same file"),
        (["models/good.mlir", "--report", "good.onnx"], "-o and --report name the same file"),
        (["models/good.mlir", "--report", "x", "--profile-svg", "models/../x"], "the same file"),
        (["models/good.mlir", "--report", "models/good.mlir"], "is the input itself"),
        (["models/good.mlir", "--profile-svg", "models/link.mlir"], "is the input itself"),
        (["models/good.mlir", "-o", "models/hard.mlir"], "is the input itself"),
        (["models/good.mlir", "-o", "models/dangling", "--report", "r.json"], "the same file"),
        (["models/good.mlir", "--report", "good.onnx-0123456789ab.data"], "file with weights"),
        (["models/good.mlir", "--dump", ".", "--report", "rules.txt"], "--dump . could overwrite"),
        (["models/00_load.mlir", "--dump", "models"], "--dump models could overwrite models/00"),
        (["models/good.mlir", "--target", "models/t.json", "-o", "models/t.json"], "the input"),
        (["models/good.MLIR", "-o", "models/good.mlir"], "no such file: models/good.MLIR"),
        (["models/good.mlir", "--specialize", "b"], "'b' is not NAME=SIZE"),
        (["models/good.mlir", "--specialize", "b=x"], "'b=x' is not NAME=SIZE"),
        (["models/good.mlir", "--specialize", "b=-1"], "'b=-1' is not NAME=SIZE"),
        (["models/good.mlir", "--specialize", "c=8"], "no dimension c; it has none"),
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


def test_differing_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(program: Any, inputs: Any) -> Any:
        return [array + 1 for array in original(program, inputs)]

    from hlo2onnx.runtime.sessions import OrtProgram

    original = OrtProgram.__call__
    monkeypatch.setattr(OrtProgram, "__call__", run)
    assert cli.main(["models/good.mlir", "--verify"]) == 1
    out, err = capsys.readouterr()
    assert "DIFFERS" in out
    assert err == "hlo2onnx: verification failed: ONNX Runtime and XLA disagree\n"


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
        import sys, time
        import jax
        start = time.process_time()
        from hlo2onnx import OnnxProgram, Verification, translate
        seconds = time.process_time() - start
        heavy = {"flax", "equinox", "onnxruntime", "rich", "optax", "torch", "tensorflow"}
        print(seconds < 1, sorted(heavy & sys.modules.keys()))
        """
    )
    assert out == "True []\n"


def test_unknown_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        hlo2onnx.nonsense  # noqa: B018
    assert set(hlo2onnx.__all__) <= set(dir(hlo2onnx))
    assert all(getattr(hlo2onnx, name) is not None for name in hlo2onnx.__all__)


def test_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models/calling_back.mlir"]) == 1
    assert "(--callbacks unreachable) leaves the branch out" in capsys.readouterr().err
    assert cli.main(["models/calling_back.mlir", "--callbacks", "unreachable", "--verify"]) == 0
    assert "a branch with a Python callback at input:" in capsys.readouterr().out

"""The command line: where it writes, how much it says, help and completion."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import onnx
import pytest
from command_folder import MODEL, folder_with_models
from processes import environment

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.command.output import Console, summary
from hlo2onnx.targets import load_target


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in a folder of its own."""
    return folder_with_models(tmp_path, monkeypatch)


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
    assert report["outputs"] == {"y": "float32[3]"}
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
        ("< models/good.mlir > /dev/null", "is the input itself"),
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
    assert "a run takes " in capsys.readouterr().out
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


def test_the_stage_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Console(quiet=False, verbose=False, to_stderr=False) as console:
        console.begin("raise")
        console.show("the summary")
    text = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert text.count("raise") == 2  # again after the summary
    assert text.rpartition("raise")[2].strip(" \r") == ""  # it is wiped out


# -- help and completion --------------------------------------------------------------------------


def test_help_has_the_opsets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    target = load_target("ort-cpu")
    text = " ".join(capsys.readouterr().out.split())
    assert f"ONNX opset, {target.min_opset} to {target.max_opset} (default: the" in text


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

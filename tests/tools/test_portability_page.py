"""The page of portability keeps the columns of runtimes that are not measured again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from hlo2onnx.runtime.adapters.installed import Name
from tools import ROOT
from tools.portability import __main__ as command
from tools.portability.page import page, recorded
from tools.portability.run import Result
from tools.probe.environments import InstallError

TEXT = (ROOT / "docs" / "portability.md").read_text(encoding="utf-8")


def test_a_page_is_read_as_it_was_written() -> None:
    made = page(recorded(TEXT))
    assert made in TEXT and "| `tract@" in made


def test_what_is_not_run_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(name: Name, seconds: float) -> AbstractContextManager[None]:
        if name.kind == "tract":
            raise InstallError("no wheel")
        return nullcontext()

    path = tmp_path / "docs" / "portability.md"
    path.parent.mkdir()
    path.write_text(TEXT, encoding="utf-8")
    off = Result("wrong", "y is off", 21)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "start", start)
    monkeypatch.setattr(command, "tried", lambda *_: off)
    assert command.main(["gru", "--write", "--runtimes", "tract@0.23.9", "iree@3.13"]) == 1
    before, after = recorded(TEXT), recorded(path.read_text(encoding="utf-8"))
    before["iree@3.13"]["gru"] = off
    assert after == before

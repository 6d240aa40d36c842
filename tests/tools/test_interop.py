"""What `tools.interop` knows of other tools' faults."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tools import ROOT
from tools.interop.checks import TOOLS, Given
from tools.interop.known import REASONS
from tools.interop.worker import problem, run

PAGE = ROOT / "docs" / "interoperability.md"
FAULTS = [(name, tool) for name, reason in REASONS.items() for tool in reason.tools]


@pytest.mark.parametrize(("name", "tool"), FAULTS)
def test_a_small_model_shows_the_fault(name: str, tool: str, tmp_path: Path) -> None:
    """It is valid and runs, and the tool fails. If it does not any more, remove the reason."""
    reason, path = REASONS[name], tmp_path / "model.onnx"
    onnx.checker.check_model(reason.model(), full_check=True)
    onnx.save(reason.model(), path)
    found = problem(tool, Given(path, reason.inputs(), run(path, reason.inputs()), run))
    if found == "skipped":
        pytest.skip(f"{TOOLS[tool].package} is not installed")
    assert found
    assert reason.symptom in found


def test_the_page_is_that_of_these_tools() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for tool in TOOLS:
        assert f"| `{tool}` |" in text
    for reason in REASONS.values():
        for tool, programs in zip(reason.tools, reason.programs, strict=True):
            assert f"| `{tool}` | {reason.text} | {', '.join(programs)} |" in text

"""What `tools.interop` knows of other tools' faults."""

from __future__ import annotations

from pathlib import Path

import onnx

from tools import ROOT
from tools.interop.checks import TOOLS, Given
from tools.interop.run import problem, run

PAGE = ROOT / "docs" / "interoperability.md"
GRAPH = """<ir_version: 10, opset_import: ["": 23]>
g (float[2] x) => (float[2] y) {
  n = Constant<value_int = 2>() y = Loop(n, , x) <body = b (int64 i, bool k, float[2] s)
  => (bool j, float[2] r) {j = Identity(k) r = Exp(s)}>} """


def test_a_tool_with_a_fault(tmp_path: Path) -> None:
    """The reference makes no trip of a Loop without a condition; the others copy it rightly."""
    path, text = (
        tmp_path / "model.onnx",
        GRAPH.replace("{y = ", "{n = Constant<value_int = 2>() y = ", 1),
    )
    onnx.save(onnx.parser.parse_model(text), path)
    inputs = {"x": onnx.numpy_helper.to_array(onnx.helper.make_tensor("x", 1, [2], [1, 2]))}
    given = Given(path, inputs, run(path, inputs), run)
    assert "other numbers" in problem("onnx.reference", given)
    assert problem("onnx.compose", given) == ""


def test_the_page_is_that_of_these_tools() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for tool in TOOLS.values():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{tool.name}` |")]
        assert row.endswith(f"| {', '.join(tool.fails.split())} |")

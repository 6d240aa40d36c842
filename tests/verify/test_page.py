"""The HTML report of a program, of a verification, and of a program that is not translated."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_folder import folder_with_models

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.verify.page import VENDORED

X = np.ones((4, 4), np.float32)
HOSTILE = "x</script><img src=x onerror=alert(1)>"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> hlo2onnx.OnnxProgram:
    lowered = jax.jit(lambda x: jnp.tanh(x @ x)).lower(X)
    return hlo2onnx.translate(lowered, input_names=[HOSTILE])


class Checker(HTMLParser):
    """Elements are closed in order, and the page loads nothing."""

    VOID = frozenset({"meta", "input", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return checker


def graph_in(text: str) -> Any:
    found = re.search(r'id="graph-data">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_whole_report(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    program.save_report(
        path,
        verification=program.verify(X),
        profile=program.profile(X, runs=2),
        errors={program.model.graph[0].outputs[0].name: 0.5},
        command="make <report>",
    )
    text = path.read_text()
    assert "img" not in checked(text).seen
    for part in ("summary", "graph", "verification", "profile", "translation", "nodes"):
        assert f'id="{part}"' in text
    assert "make &lt;report&gt;" in text and "agrees" in text and "ms per run" in text
    data = graph_in(text)
    assert [node[1] for node in data["nodes"]] == ["input", "MatMul", "Tanh", "output"]
    assert [node[11] is None for node in data["nodes"]] == [True, False, False, False]
    assert data["nodes"][1][11] == 0.5 and data["nodes"][1][10][0] > 0


def test_lines_that_are_left_out_belong_to_their_list(tmp_path: Path) -> None:
    """Lists stand side by side in a grid, in which a line of its own would be a list."""

    def f(x: jax.Array) -> jax.Array:
        for _ in range(20):
            x = jnp.tanh(x @ x)
        return x

    program = hlo2onnx.translate(f, X)
    program.save_report(tmp_path / "report.html", profile=program.profile(X, runs=1))
    text = (tmp_path / "report.html").read_text()
    assert "and 25 more" in text
    assert '</div><p class="more">' not in text


def test_without_findings(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    program.save_report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "not verified" in text
    assert 'id="verification"' not in text and 'id="profile"' not in text


def test_licences_are_in_the_report(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    program.save_report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    vendor = ROOT / "hlo2onnx" / "verify" / "assets" / "vendor"
    scripts = {path.name.removesuffix(".min.js") for path in vendor.glob("*.min.js")}
    assert scripts == set(VENDORED)
    for name in VENDORED:
        assert (vendor / f"{name}.LICENSE").read_text() in text
    assert "sourceMappingURL" not in text


def test_notebooks(program: hlo2onnx.OnnxProgram) -> None:
    for item in (program, program.verify(X), program.profile(X, runs=1)):
        assert "script" not in checked(item._repr_html_()).seen
    shown = program._repr_html_()
    assert "&lt;img" in shown
    assert checked(shown).seen.count("iframe") == 1 and 'sandbox="allow-scripts"' in shown


def test_an_infinite_error_is_in_the_graph(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    names = [str(value.name) for node in program.model.graph for value in node.outputs]
    program.save_report(
        tmp_path / "report.html", errors=dict(zip(names, [np.nan, np.inf], strict=True))
    )
    data = graph_in((tmp_path / "report.html").read_text())
    assert [node[11] for node in data["nodes"][1:3]] == [1e30, 1e30]


def test_a_loaded_program(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    program.save(tmp_path / "model.onnx")
    hlo2onnx.load(tmp_path / "model.onnx").save_report(tmp_path / "report.html")
    nodes = graph_in((tmp_path / "report.html").read_text())["nodes"]
    assert [node[1] for node in nodes] == ["input", "MatMul", "Tanh", "output"]


def test_verification_alone(program: hlo2onnx.OnnxProgram, tmp_path: Path) -> None:
    found = program.verify(X)
    found.save_html(tmp_path / "v.html")
    text = (tmp_path / "v.html").read_text()
    checked(text)
    assert "<script" not in text and found.optimized[0].name in text
    with pytest.raises(hlo2onnx.UsageError, match="there is no folder"):
        found.save_html(tmp_path / "no" / "v.html")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with_models(tmp_path, monkeypatch)
    arguments = ["models/good.mlir", "-q", "--verify", "--report", "report.html"]
    assert cli.main(arguments) == 0
    text = (folder / "report.html").read_text()
    checked(text)
    assert f"hlo2onnx {' '.join(arguments)}" in text and "agrees" in text


def test_a_program_that_is_not_translated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with_models(tmp_path, monkeypatch)
    assert cli.main(["models/bad.mlir", "-q", "--report", "report.html"]) == 1
    text = (folder / "report.html").read_text()
    checked(text)
    assert "not translated" in text and "train.py:7" in text and "train.py:9" in text

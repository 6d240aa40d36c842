"""The snippets of docs/runtimes.md in other languages run, and print what the page says.

Each test skips with the reason where its toolchain is missing. `HLO2ONNX_RUNTIMES`, or the folder
where `tools.probe` makes its environments, has the runtimes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from pages import ROOT, Block, blocks_of
from processes import run_python
from toolchains import node_modules, ort_headers, ort_library, tool

from hlo2onnx.runtime.adapters.installed import CACHE

PAGE = ROOT / "docs" / "runtimes.md"
NOT_RUN = {"csharp": ".NET", "rust": "crates"}
"""Languages whose snippets no test runs, and what is missing."""

pytestmark = pytest.mark.wide


def snippet(language: str) -> tuple[str, str]:
    """The only snippet of a language, and what it prints."""
    blocks = blocks_of(PAGE)
    (place,) = [index for index, block in enumerate(blocks) if block.language == language]
    assert blocks[place + 1].language == "text"
    return blocks[place].text, blocks[place + 1].text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the page."""
    folder = tmp_path_factory.mktemp("model")
    first: Block = next(block for block in blocks_of(PAGE) if block.language == "python")
    run_python(f"import os\nos.chdir({str(folder)!r})\n{first.text}")
    return folder / "model.onnx"


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    shutil.copy(model, tmp_path / "model.onnx")
    return tmp_path


def check(command: list[str], folder: Path, printed: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


@pytest.mark.parametrize("package", ["onnxruntime-web", "onnxruntime-node"])
def test_javascript(package: str, folder: Path) -> None:
    text, printed = snippet("js")
    (folder / "node_modules").symlink_to(node_modules(package))
    (folder / "main.mjs").write_text(text.replace('"onnxruntime-web"', f'"{package}"'))
    check([tool("node"), "main.mjs"], folder, printed)


def test_cpp(folder: Path) -> None:
    """The library is that of the Python package. A package of npm has the headers."""
    text, printed = snippet("cpp")
    compiler = tool("g++")
    headers = ort_headers()
    (folder / "libonnxruntime.so.1").symlink_to(ort_library())
    (folder / "main.cc").write_text(text)
    paths = [f"-I{headers}", "libonnxruntime.so.1", f"-Wl,-rpath,{folder}"]
    check([compiler, "-std=c++17", "main.cc", *paths, "-o", "main"], folder, "")
    check([str(folder / "main")], folder, printed)


def test_openvino(folder: Path) -> None:
    text, printed = snippet("py")
    (folder / "main.py").write_text(text)
    pythons = sorted(CACHE.glob("openvino-*/bin/python"))
    if not pythons:
        pytest.skip(f"no environment of openvino in {CACHE}: python -m tools.probe makes one")
    check([str(pythons[-1]), "main.py"], folder, printed)


def test_the_page_says_what_is_not_run() -> None:
    page = PAGE.read_text(encoding="utf-8")
    known = {"python", "sh", "text", "js", "cpp", "py"}
    assert {block.language for block in blocks_of(PAGE)} == known | NOT_RUN.keys()
    for language, missing in NOT_RUN.items():
        before = page[: page.index(f"```{language}\n")].rpartition("## ")[2]
        assert (
            f"No test runs this snippet: the package registries of our CI have no {missing}."
            in (" ".join(before.split()))
        )

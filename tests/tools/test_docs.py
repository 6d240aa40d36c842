"""The documentation as a web site: links of its pages, and all of it without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pdoc")

from tools.docs.pages import read_pages, write_pages

ROOT = Path(__file__).parents[2]

PAGE = """# The `first` page

[second](docs/second.md), [its part](docs/second.md#a-part), [here](#below), [code](pkg/code.py),
[module](hlo2onnx/errors.py), [folder](docs), [out](https://onnx.ai/x.md#y)

![picture](docs/picture.svg)

## Below

| a | b |
| --- | --- |
| `x` | 1 |

```mermaid
flowchart LR
    a --> b
```
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with two pages."""
    for folder in ("docs/guides", "pkg", "hlo2onnx"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text(PAGE)
    (tmp_path / "docs" / "second.md").write_text("# Second\n\n[up](../README.md)\n\n## A part\n")
    (tmp_path / "docs" / "guides" / "third.md").write_text("# Third\n\n[back](../second.md)\n")
    (tmp_path / "docs" / "picture.svg").write_text("<svg/>")
    (tmp_path / "pkg" / "code.py").write_text("x = 1\n")
    (tmp_path / "hlo2onnx" / "errors.py").write_text("")
    site = tmp_path / "site" / "reference" / "hlo2onnx"
    site.mkdir(parents=True)
    (site / "errors.html").write_text("")
    return tmp_path


def test_links_contents_and_tables(root: Path) -> None:
    site = root / "site"
    assert write_pages(site, root) == []
    first = (site / "README.html").read_text()
    for target in (
        "docs/second.html",
        "docs/second.html#a-part",
        "#below",
        "pkg/code.py.txt",
        "reference/hlo2onnx/errors.html",
        "https://onnx.ai/x.md#y",
    ):
        assert f'<a href="{target}">' in first
    assert ">folder</a>" not in first and "folder, " in first
    assert '<img src="docs/picture.svg"' in first
    assert (site / "docs" / "picture.svg").read_text() == "<svg/>"
    assert (site / "pkg" / "code.py.txt").read_text() == "x = 1\n"
    assert '<a href="../README.html">up</a>' in (site / "docs" / "second.html").read_text()
    assert '<a href="../second.html">back</a>' in (site / "docs/guides/third.html").read_text()
    index = (site / "index.html").read_text()
    for line in (
        '<a href="README.html">The first page</a>',
        '<a href="docs/guides/third.html">Third</a>',
        '<a href="reference/hlo2onnx.html">API reference</a>',
    ):
        assert line in index
    assert '<div class="mermaid">flowchart LR' in first
    assert "<td><code>x</code></td>" in first


@pytest.mark.parametrize(
    ("link", "warning"),
    [
        ("docs/nowhere.md", "README.md: no file docs/nowhere.md"),
        ("../outside.md", "README.md: no file ../outside.md"),
        ("docs/second.md#b-part", "README.md: no heading docs/second.md#b-part"),
        ("#nowhere", "README.md: no heading #nowhere"),
    ],
)
def test_links_to_nowhere(root: Path, link: str, warning: str) -> None:
    (root / "README.md").write_text(f"# First\n\n[x]({link})\n")
    assert write_pages(root / "site", root) == [warning]


@pytest.mark.wide
def test_the_pages_of_the_repository_have_titles() -> None:
    pages = {page.path.as_posix(): page for page in read_pages()}
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md"} <= pages.keys()
    assert all(page.title != page.path.stem for page in pages.values())


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.docs", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.wide
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = run(tmp_path / "site")
    assert done.stderr == ""
    assert done.returncode == 0
    front = (tmp_path / "site" / "reference" / "hlo2onnx.html").read_text()
    for name in ("translate", "OnnxProgram", "expand_custom_call", "PluginError"):
        assert f'id="{name}"' in front
    assert (tmp_path / "site" / "reference" / "hlo2onnx" / "lowering" / "emitter.html").exists()
    assert (tmp_path / "site" / "docs" / "architecture.html").exists()
    assert run(tmp_path / "site").returncode == 0  # it is written again


@pytest.mark.wide
def test_other_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "holds something else" in done.stderr
    assert (tmp_path / "precious.txt").exists()

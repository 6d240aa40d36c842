"""What CONTRIBUTING.md shows runs as it stands, and what it names is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = re.compile(
    r"^`(?P<path>[\w./-]+)`:\n\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Example:
    """A file, or the change of a file if the language is "diff"."""

    path: str
    language: str
    text: str

    def write(self, folder: Path) -> Path:
        """Writes or changes the file below a folder; returns its path."""
        path = folder / self.path
        text = self.text if self.language != "diff" else changed(path.read_text(), self.text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it may be a link
        path.write_text(text)
        return path


def examples_of(page: Path, heading: str) -> list[Example]:
    """The files of one section."""
    sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M)
    (section,) = (part for part in sections if part.startswith(f"{heading}\n"))
    return [Example(**match.groupdict()) for match in _BLOCK.finditer(section)]


def changed(text: str, diff: str) -> str:
    """The text with lines added after others: "+line" after " line" before it."""
    position = 0
    for line in diff.splitlines():
        body = line[1:] + "\n"
        if line.startswith("+"):
            text = text[:position] + body + text[position:]
        else:
            assert body in text[position:], f"no line {line[1:]!r}"
            position = text.index(body, position)
        position += len(body)
    return text


ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")

HANDLER = examples_of(PAGE, "Add an op handler")
RULE = examples_of(PAGE, "Add a rewrite rule")
TARGET = examples_of(PAGE, "Add a target")
PLUGIN = examples_of(PAGE, "Write a plug-in")


def run(*arguments: object, folder: Path, path: Path) -> str:
    """What Python prints, which must not fail, with `path` in front of the modules it finds."""
    found = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(path), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


# -- what the page names --------------------------------------------------------------------------


def test_every_block_of_code_is_an_example() -> None:
    """No block with code is left out by a heading or path that is spelled otherwise."""
    found = [*HANDLER, *RULE, *TARGET, *PLUGIN]
    written = re.findall(r"^```(python|json|toml|diff)$", TEXT, re.M)
    assert sorted(item.language for item in found) == sorted(written)
    assert [len(part) for part in (HANDLER, RULE, TARGET, PLUGIN)] == [2, 3, 2, 3]


def test_new_files_are_new() -> None:
    for example in (*HANDLER, *RULE):
        assert (ROOT / example.path).exists() == (example.language == "diff"), example.path


def test_files_and_folders_exist() -> None:
    ours = ("hlo2onnx", "dialect_handlers", "tests", "tools", "docs", ".ci")
    new = {example.path for example in (*HANDLER, *RULE)}
    named = {
        path.removesuffix("/")
        for path in re.findall(r"[\w./-]+", TEXT)
        if path.partition("/")[0] in ours and "/" in path
    }
    missing = [path for path in sorted(named - new) if not (ROOT / path).exists()]
    assert len(named) > 15
    assert not missing


def test_names_of_the_error_exist() -> None:
    """The line numbers in the error that the page shows are those of the example."""
    source = next(item.text for item in PLUGIN if item.path.endswith("acme_onnx.py")).splitlines()
    (first, node) = (int(line) for line in re.findall(r"acme_onnx\.py:(\d+)", TEXT))
    assert source[first - 1] == '@handles_call("acme.swish")'
    assert "QuickGelu" in source[node - 1]
    use = next(item.text for item in PLUGIN if item.path == "use_acme.py").splitlines()
    (call,) = (int(line) for line in re.findall(r"use_acme\.py:(\d+)", TEXT))
    assert "acme.swish" in use[call - 1]


def test_lines_are_added_after_others() -> None:
    assert changed("a\nb\nc\nb\n", " b\n+x\n b\n+y\n") == "a\nb\nx\nc\nb\ny\n"
    with pytest.raises(AssertionError, match="no line 'd'"):
        changed("a\n", " d\n+x\n")


# -- what the page shows --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree, in links, with the files of the first two examples in it."""
    folder = tmp_path_factory.mktemp("tree")
    for package in ("hlo2onnx", "dialect_handlers"):
        for source in (ROOT / package).rglob("*"):
            if source.is_file() and source.suffix != ".pyc":
                link = folder / source.relative_to(ROOT)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)
    for name in ("pyproject.toml", "examples", "tools", "docs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "support").symlink_to(ROOT / "tests" / "support")
    for example in (*HANDLER, *RULE):
        example.write(folder)
    return folder


def paths_of_tests(examples: list[Example]) -> list[str]:
    return [item.path for item in examples if item.path.startswith("tests/")]


@pytest.mark.wide
@pytest.mark.parametrize("examples", [HANDLER, RULE], ids=["handler", "rule"])
def test_handlers_and_rules(tree: Path, examples: list[Example]) -> None:
    printed = run("-m", "pytest", "-q", *paths_of_tests(examples), folder=tree, path=tree)
    assert "passed" in printed


@pytest.mark.wide
def test_rules_are_registered(tree: Path) -> None:
    code = (
        "import hlo2onnx.raising.rules as rules; print(rules.__file__);"
        "print([rule.name for rule in rules.RULES].count('round-once'))"
    )
    assert run("-c", code, folder=tree, path=tree).split() == [
        str(tree / "hlo2onnx/raising/rules/__init__.py"),
        "1",
    ]


@pytest.mark.wide
@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_the_style_of_examples(tree: Path, command: tuple[str, ...]) -> None:
    pytest.importorskip("ruff")
    paths = [item.path for item in (*HANDLER, *RULE)]
    run("-m", "ruff", *command, *paths, folder=tree, path=tree)


@pytest.mark.wide
def test_targets(tmp_path: Path) -> None:
    *_, script = [example.write(tmp_path) for example in TARGET]
    run(script, folder=tmp_path, path=ROOT)


@pytest.mark.wide
def test_plugins(tmp_path: Path) -> None:
    project, module, script = [example.write(tmp_path) for example in PLUGIN]
    install(project, module.parent)
    paths = Path(os.pathsep.join([str(module.parent), str(ROOT)]))
    run(script, folder=tmp_path, path=paths)
    broken = module.read_text().replace(", types=types", "")
    module.write_text(broken)
    code = (
        "import runpy, hlo2onnx\n"
        "try:\n    runpy.run_path('use_acme.py')\n"
        "except hlo2onnx.TranslationError as error:\n    print(error)\n"
    )
    printed = run("-c", code, folder=tmp_path, path=paths)
    shown = re.search(r"```text\n(.*?) \.\.\.\n```", TEXT, re.S)
    assert shown is not None
    assert " ".join(shown[1].split()) in " ".join(printed.split())


def install(project: Path, folder: Path) -> None:
    """The metadata that pip would write beside the modules of a package."""
    described = tomllib.loads(project.read_text())["project"]
    name, version = described["name"], described["version"]
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = described["entry-points"].items()
    lines = [
        line
        for group, entries in groups
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")

"""The code on the documentation's pages runs, and prints what the pages say.

All Python blocks of a page run in one namespace, in a process and a folder of their own, and the
`hlo2onnx` commands of its `sh` blocks between them. A `text` block right behind another block is
what that block prints; `...` in it stands for anything.

Blocks that need a library of `EXTRAS` run if it is installed here, or in the environment of the
interpreter that HLO2ONNX_ZOO names. Otherwise the rest of the page runs with the files that the
page gives in their place; without such files the test is skipped.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import BLOCK, PAGES, ROOT, Block, blocks_of, name_of, stand_ins
from processes import run_python

EXTRAS = {
    "haiku": "dm-haiku",
    "keras": "keras",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "torchax": "torchax",
}
"""Libraries that no extra of hlo2onnx installs: the module, and the package that has it."""

END = "-- end of a block --"
CODE = [page for page in PAGES if any(block.language == "python" for block in blocks_of(page))]
QUICK = {"README.md"}

PUBLISHED = "https://github.com/hlo2onnx/hlo2onnx/blob/main/"
"""Where pages are that the README names. An index of packages shows it without this repository."""


def parameters() -> list[object]:
    return [
        pytest.param(
            page,
            id=name_of(page),
            marks=[] if name_of(page) in QUICK else [pytest.mark.wide],
        )
        for page in CODE
    ]


@pytest.mark.wide
@pytest.mark.parametrize("page", parameters())
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    python, missing = interpreter({name for block in blocks for name in libraries(block)})
    files = stand_ins(page)
    if missing and not files:
        packages = ", ".join(sorted(EXTRAS[name] for name in missing))
        pytest.skip(f"not installed, here or in the environment of HLO2ONNX_ZOO: {packages}")
    for name, path in files.items():
        shutil.copy(path, tmp_path / name)
    run = [block for block in blocks if runs(block) and not libraries(block) & missing]
    printed = run_blocks(run, page, tmp_path, python)
    for block, output in zip(run, printed, strict=True):
        check_output(block, output, blocks, page)


def runs(block: Block) -> bool:
    return block.language == "python" or bool(commands(block))


def commands(block: Block) -> list[str]:
    """The `hlo2onnx` commands of a block."""
    lines = block.text.splitlines() if block.language == "sh" else []
    return [line for line in lines if line.startswith("hlo2onnx ")]


def libraries(block: Block) -> set[str]:
    """The modules of `EXTRAS` that a block imports."""
    if block.language != "python":
        return set()
    names: list[str] = []
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            names += [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names} & EXTRAS.keys()


def interpreter(wanted: set[str]) -> tuple[str, set[str]]:
    """The interpreter that has the most of some modules, and those that it does not have."""
    here = {name for name in wanted if importlib.util.find_spec(name) is None}
    given = os.environ.get("HLO2ONNX_ZOO")
    if not here or given is None:
        return sys.executable, here
    code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    found = subprocess.run([given, "-c", code, *wanted], capture_output=True, text=True, check=True)
    there = wanted - set(found.stdout.split())
    return (given, there) if len(there) < len(here) else (sys.executable, here)


def run_blocks(
    blocks: list[Block], page: Path, folder: Path, python: str = sys.executable
) -> list[str]:
    """What each block prints."""
    code = []
    for block in blocks:
        if block.language == "python":
            # Line numbers of the page, so that a failure names the line.
            code.append(["python", "\n" * (block.line - 1) + block.text])
        else:
            code.append(["sh", "\n".join(commands(block))])
    (folder / "blocks.json").write_text(json.dumps(code), encoding="utf-8")
    out = run_python(
        f"""
        import json, os, pathlib, shlex
        os.chdir({str(folder)!r})
        namespace = {{"__name__": "__main__"}}
        for language, text in json.loads(pathlib.Path("blocks.json").read_text()):
            if language == "python":
                exec(compile(text, {str(page)!r}, "exec"), namespace)
            else:
                from hlo2onnx.cli import main
                for line in text.splitlines():
                    assert main(shlex.split(line, comments=True)[1:]) == 0, line
            print({END!r}, flush=True)
        """,
        python,
        JAX_PLATFORMS="cpu",
        KERAS_BACKEND="jax",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    return out.split(f"{END}\n")[:-1]


def check_output(block: Block, printed: str, blocks: list[Block], page: Path) -> None:
    """Compares what a block prints with the `text` block behind it, if there is one."""
    place = blocks.index(block) + 1
    if place == len(blocks) or blocks[place].language != "text":
        return
    wanted = blocks[place]
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(wanted.text, printed, flags)
    assert same, (
        f"{name_of(page)}:{wanted.line} says\n{wanted.text}\nbut the code prints\n{printed}"
    )


# -- the pages themselves -------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"(?:\]\(|^\[[\w-]+\]: )([^)\s]+)", prose, re.MULTILINE):
        own = link.removeprefix(PUBLISHED)
        if "://" in own:
            continue
        name, _, heading = own.partition("#")
        target = (page.parent if own == link else ROOT) / name if name else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if heading and target.suffix == ".md":
            assert heading in anchors_of(target), f"{name_of(page)}: {link}"


def anchors_of(page: Path) -> set[str]:
    """What links to the headings of a page lead to, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_index_and_the_site_list_every_page() -> None:
    index = PAGES[0].parent / "docs" / "index.md"
    listed = set(re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", index.read_text(encoding="utf-8")))
    pages = {page.relative_to(index.parent).as_posix() for page in PAGES[1:]} - {"index.md"}
    assert pages <= listed, f"docs/index.md does not list {sorted(pages - listed)}"
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    shown = set(re.findall(r"^ +- (?:.*: )?(\S+\.md)$", navigation, re.MULTILINE))
    assert pages <= shown, f"mkdocs.yml does not list {sorted(pages - shown)}"


def test_the_commands_of_the_readme() -> None:
    """Users and CI run these as they are."""
    lines = PAGES[0].read_text(encoding="utf-8").splitlines()
    assert (
        "    pip install '.[ort]' && hlo2onnx examples/mlir/vit.mlir -o vit.onnx --verify" in lines
    )
    assert "    pip install '.[dev]' && python -m pytest -n 2" in lines


def test_quoted_messages_exist() -> None:
    """The first columns of the troubleshooting tables quote texts of the program."""
    sources = [*ROOT.glob("hlo2onnx/**/*.py"), *ROOT.glob("dialect_handlers/**/*.py")]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    texts = re.sub(r'"\s*\n\s*f?"', "", texts)
    page = ROOT / "docs" / "guides" / "troubleshooting.md"
    rows = re.findall(r"^\| ([^|]+) \| .* \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    quoted = [row for row in rows if row not in ("the message says", "you see", "---")]
    assert len(quoted) > 8
    for row in quoted:
        phrase = re.sub(r" @X$|^N | in the \w+ run( only)?$", "", row)
        assert phrase in texts, f"no message says {phrase!r}"


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    page = PAGES[0]
    blocks = [Block("python", "print(1 + 1)\n", 1), Block("text", "3\n", 4)]
    (printed,) = run_blocks(blocks[:1], page, tmp_path)
    assert printed == "2\n"
    with pytest.raises(AssertionError, match="the code prints"):
        check_output(blocks[0], printed, blocks, page)

"""The pages of the repository, from Markdown to HTML, with their links checked."""

from __future__ import annotations

import html
import posixpath
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import markdown2

from tools import ROOT

FRONT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""The pages beside docs/."""

EXTRAS = ["code-friendly", "cuddled-lists", "fenced-code-blocks", "header-ids", "mermaid", "tables"]

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ display: flex; margin: 0; font: 16px/1.5 system-ui, sans-serif; }}
nav {{ flex: 0 0 15em; padding: 1em; background: #f4f4f4; min-height: 100vh; }}
nav a {{ display: block; }}
main {{ padding: 1em 2em; max-width: 60em; min-width: 0; }}
pre, table {{ overflow-x: auto; display: block; }}
pre {{ background: #f4f4f4; padding: .6em; }}
th, td {{ padding: .2em .6em; border-bottom: 1px solid #ddd; vertical-align: top; }}
.mermaid {{ background: none; }}
</style>
</head>
<body>
<nav>{navigation}</nav>
<main>{content}</main>
{script}</body>
</html>
"""

MERMAID = """<script type="module">
import mermaid from "https://cdn.jsdelivr.net/npm/mermaid@11/dist/mermaid.esm.min.mjs";
mermaid.initialize({ startOnLoad: true });
</script>
"""
"""Draws the diagrams; without a network their text is shown."""

_LINK = re.compile(r'<a href="(?P<target>[^"]*)">(?P<text>.*?)</a>', re.S)
_IMAGE = re.compile(r'<img src="(?P<target>[^"]*)"')
_ID = re.compile(r'\bid="([^"]*)"')
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


@dataclass
class Page:
    """A page of the repository.

    Attributes:
        path: Of the Markdown file, below the root.
        content: Its HTML.
        title: Its first heading.
        anchors: What links can lead to within it.
    """

    path: Path
    content: str
    title: str = ""
    anchors: set[str] = field(default_factory=set)

    @property
    def address(self) -> str:
        """Its path in the site."""
        return self.path.with_suffix(".html").as_posix()


def read_pages(root: Path = ROOT) -> list[Page]:
    """The pages, those in front first."""
    paths = [root / name for name in FRONT if (root / name).exists()]
    paths += sorted((root / "docs").rglob("*.md"))
    pages = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        content = str(markdown2.markdown(text, extras=EXTRAS))
        heading = re.search(r"^# (.*)$", text, re.M)
        title = heading[1].replace("`", "") if heading else path.stem
        pages.append(Page(path.relative_to(root), content, title, set(_ID.findall(content))))
    return pages


def write_pages(folder: Path, root: Path = ROOT) -> list[str]:
    """Writes the pages, an index, and the files that they show; returns warnings."""
    site = Site(folder, root, read_pages(root))
    for page in site.pages:
        site.write(page)
    site.write_index()
    return site.warnings


class Site:
    """The site as it is written.

    Attributes:
        warnings: Links that lead nowhere.
    """

    def __init__(self, folder: Path, root: Path, pages: list[Page]) -> None:
        self.folder = folder
        self.root = root
        self.pages = pages
        self.warnings: list[str] = []
        self._by_path = {page.path.as_posix(): page for page in pages}

    def write(self, page: Page) -> None:
        """Writes a page whose links lead to pages and files of the site."""

        def link(match: re.Match[str]) -> str:
            target = self._target(page, html.unescape(match["target"]))
            return match["text"] if target is None else _anchor(target, match["text"])

        def image(match: re.Match[str]) -> str:
            target = self._target(page, html.unescape(match["target"]))
            return f'<img src="{html.escape(target or "")}"'

        content = _IMAGE.sub(image, _LINK.sub(link, page.content))
        self._write(page.address, page.title, content)

    def write_index(self) -> None:
        """Writes the page that leads to all others."""
        links = "".join(f"<li>{link}</li>" for link in self._navigation("index.html"))
        self._write("index.html", "hlo2onnx", f"<h1>hlo2onnx</h1><ul>{links}</ul>")

    def _write(self, address: str, title: str, content: str) -> None:
        path = self.folder / address
        path.parent.mkdir(parents=True, exist_ok=True)
        text = TEMPLATE.format(
            title=html.escape(title),
            navigation="\n".join(self._navigation(address)),
            content=content,
            script=MERMAID if 'class="mermaid"' in content else "",
        )
        path.write_text(text, encoding="utf-8")

    def _navigation(self, address: str) -> Iterator[str]:
        yield _anchor(_relative("index.html", address), "Contents")
        yield _anchor(_relative("reference/hlo2onnx.html", address), "API reference")
        for page in self.pages:
            yield _anchor(_relative(page.address, address), html.escape(page.title))

    def _target(self, page: Page, target: str) -> str | None:
        """Where a link of a page leads in the site; None for a folder, which the site has not."""
        if _ELSEWHERE.match(target):
            return target
        path, _, fragment = target.partition("#")
        full = posixpath.normpath(posixpath.join(page.path.parent.as_posix(), path))
        other = self._by_path.get(full) if path else page
        if other is not None:
            if fragment and fragment not in other.anchors:
                self.warnings.append(f"{page.path}: no heading {target}")
            address = _relative(other.address, page.address) if path else ""
            return f"{address}#{fragment}" if fragment else address
        source = self.root / full
        if full.startswith("..") or not source.exists():
            self.warnings.append(f"{page.path}: no file {target}")
            return None
        return None if source.is_dir() else _relative(self._file(full), page.address)

    def _file(self, path: str) -> str:
        """The address of a file of the repository: the reference of a module, or a copy."""
        module = path.removesuffix(".py").removesuffix("/__init__") + ".html"
        if (self.folder / "reference" / module).exists():
            return f"reference/{module}"
        suffix = Path(path).suffix
        copied = path if suffix in (".svg", ".png", ".json") else f"{path}.txt"
        place = self.folder / copied
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.root / path, place)
        return copied


def _anchor(address: str, text: str) -> str:
    return f'<a href="{html.escape(address)}">{text}</a>'


def _relative(address: str, start: str) -> str:
    return posixpath.relpath(address, posixpath.dirname(start) or ".")

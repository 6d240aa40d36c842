"""Hooks of MkDocs: pages from outside of docs/, and the parts of pages that are made at build time.

A page says where such a part belongs: `<!-- site: gallery -->`. GitHub shows the rest of the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import ROOT
from tools.site.benchmarks import benchmarks
from tools.site.gallery import gallery
from tools.site.live import demo, demo_frame, report_list, reports
from tools.site.tutorials import executed

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
PAGES = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"docs/tutorials/{x.name}": f"tutorials/{x.stem}.md" for x in TUTORIALS},
}
"""Files that become pages, and their names on the site."""

PARTS = {"gallery": gallery, "benchmarks": benchmarks, "reports": report_list, "demo": demo_frame}
"""What takes the place of a comment `<!-- site: NAME -->`."""

_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_PART = re.compile(r"<!-- site: (\w+) -->")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside of docs/, the reports and the page with programs."""
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        content = executed(text) if source.endswith(".py") else text
        files.append(File.generated(config, name, content=content))
    for name, page in reports().items():
        files.append(File.generated(config, name, content=page))
    for name, path in demo():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fills in the parts, and makes links to and from pages outside of docs/ work."""
    markdown = _PART.sub(lambda found: PARTS[found[1]](), markdown)
    source = next((x for x, name in PAGES.items() if name == page.file.src_uri), "")
    here = source or f"docs/{page.file.src_uri}"
    return _LINK.sub(lambda found: _link(found, here, page.file.src_uri, config), markdown)


def _link(found: re.Match[str], here: str, uri: str, config: MkDocsConfig) -> str:
    """A link as it works on the site.

    Args:
        found: The link in Markdown.
        here: The file of the page, in the repository.
        uri: The page's name on the site.
    """
    target = os.path.normpath(Path(here).parent / found["path"])
    if not (ROOT / target).exists():
        return found[0]
    name = PAGES.get(target) or target.removeprefix("docs/") * target.startswith("docs/")
    if name:
        path = os.path.relpath(name, Path(uri).parent)
        return f"[{found['text']}]({path}{found['anchor'] or ''})"
    if config.repo_url:
        return f"[{found['text']}]({config.repo_url.rstrip('/')}/blob/main/{target})"
    return found["text"]

"""Puts a page together: one file that needs no other, and no network.

`failure_page` is that of a program that was not translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from hlo2onnx.report import versions_text
from hlo2onnx.runtime.paths import output_file, writing
from hlo2onnx.verify.markup import facts, json_for_script, section, table

VENDORED = (
    "dagre-3.1.3",
    "d3-color-3.1.1",
    "d3-dispatch-3.0.2",
    "d3-ease-3.0.2",
    "d3-timer-3.0.2",
    "d3-interpolate-3.0.2",
    "d3-selection-3.0.1",
    "d3-drag-3.0.1",
    "d3-transition-3.0.2",
    "d3-zoom-3.0.1",
)
"""Libraries from the npm registry, in the order in which they need one another."""

_SCRIPTS = (
    "graph_model",
    "graph_columns",
    "graph_layout",
    "graph_colours",
    "graph_details",
    "graph",
)
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.M)


@cache
def asset(name: str) -> str:
    """The text of a file in the folder `assets`."""
    return (files("hlo2onnx.verify") / "assets" / name).read_text(encoding="utf-8")


def page(title: str, header: str, content: str, graph: object = None) -> str:
    """A complete HTML page.

    Args:
        title: The title, as plain text.
        header: HTML at the top.
        content: HTML of the sections.
        graph: Data of the graph, if `content` has a drawing.
    """
    style = asset("report.css") + (asset("graph.css") if graph is not None else "")
    return filled(
        asset("page.html"),
        title=escape(title),
        style=style,
        header=f"<header>{header}</header>" if header else "",
        content=content,
        scripts="" if graph is None else _scripts(graph),
    )


def fragment(content: str) -> str:
    """HTML for a notebook: content with the styles that it needs, and without JavaScript."""
    return f'<style>{asset("report.css")}</style><div class="hlo2onnx">{content}</div>'


def frame(text: str) -> str:
    """A page within a notebook. Its scripts reach nothing outside."""
    return (
        f'<iframe srcdoc="{escape(text)}" sandbox="allow-scripts" loading="lazy" title="Graph" '
        'style="width:100%;height:720px;border:0"></iframe>'
    )


def save_page(path: str | Path, text: str) -> None:
    """Writes a page.

    Raises:
        UsageError: The path is no file, or its folder does not exist.
        WriteError: The file cannot be written.
    """
    path = output_file(path, "report.html")
    with writing(path):
        path.write_text(text, encoding="utf-8")


def filled(template: str, **parts: str) -> str:
    """A template with its parts. A part may contain "{{"."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _scripts(graph: object) -> str:
    data = f'<script type="application/json" id="graph-data">{json_for_script(graph)}</script>'
    libraries = [
        f"/* {name}\n{asset(f'vendor/{name}.LICENSE')}*/\n"
        + _SOURCE_MAP.sub("", asset(f"vendor/{name}.min.js"))
        for name in VENDORED
    ]
    own = [asset(f"{name}.js") for name in _SCRIPTS]
    return data + "".join(f"\n<script>{text}</script>" for text in (*libraries, *own))


_COLUMNS = ("op", "types", "where", "why", "next")


def failure_page(
    source: str, error: str, refusals: Sequence[Mapping[str, object]], command: str
) -> str:
    """The whole page.

    Args:
        source: The program.
        error: The message.
        refusals: The attributes of each `hlo2onnx.Refusal`.
        command: The command that made the report.
    """
    parts = [section("error", "Error", f"<pre>{escape(error)}</pre>")]
    if refusals:
        rows = [[item.get(name, "") for name in _COLUMNS] for item in refusals]
        parts.append(section("refusals", "What is not translated", table(_COLUMNS, rows)))
    summary = facts({"command": command, "versions": versions_text()})
    parts.append(section("summary", "Summary", summary))
    header = f'<h1>{escape(source)}</h1><p><span class="badge bad">not translated</span></p>'
    return page(source, header, "".join(parts))

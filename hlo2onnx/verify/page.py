"""Puts a page together: one file that needs no other, and no network.

Every text of a value is escaped: names of users may hold HTML. `failure_page` is the page of a
program that was not translated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from hlo2onnx.errors import NotInstalledError
from hlo2onnx.report import versions_text
from hlo2onnx.runtime.paths import output_file, writing

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµun]?s|bytes)(?!\w))")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    more: int = 0,
) -> str:
    """A table.

    Args:
        columns: Their titles.
        rows: The texts or numbers of the rows.
        numbers: Places of the columns that are aligned to the right.
        more: Count of the rows that are left out. If positive, a line below the table says it.
    """
    kinds = [' class="n"' if place in numbers else "" for place in range(len(columns))]
    titles = "".join(
        f"<th{kind}>{escape(text)}</th>" for kind, text in zip(kinds, columns, strict=True)
    )
    lines = [
        "".join(f"<td{kind}>{text_of(item)}</td>" for kind, item in zip(kinds, row, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    head = f"<thead><tr>{titles}</tr></thead>"
    rest = f'<p class="more">and {more:,} more</p>' if more > 0 else ""
    return f'<div class="table"><table>{head}<tbody>{body}</tbody></table>{rest}</div>'


def facts(items: Mapping[str, object]) -> str:
    """A list of names and their values."""
    pairs = "".join(
        f"<dt>{escape(name)}</dt><dd>{text_of(item)}</dd>" for name, item in items.items() if item
    )
    return f'<dl class="facts">{pairs}</dl>'


def bullets(items: Iterable[str]) -> str:
    """A list of texts. The lines of a text after its first stay lines: they may be a table."""
    return f"<ul>{''.join(f'<li>{_lines(item)}</li>' for item in items)}</ul>"


def _lines(text: str) -> str:
    first, _, rest = text.partition("\n")
    return text_of(first) + (f'<pre class="lines">{escape(rest)}</pre>' if rest else "")


def section(name: str, title: str, content: str, *, is_open: bool = True) -> str:
    """A part of the page that can be closed, without JavaScript."""
    state = " open" if is_open else ""
    return (
        f'<details class="section" id="{escape(name)}"{state}>'
        f"<summary><h2>{escape(title)}</h2></summary>{content}</details>"
    )


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text_of(item: object) -> str:
    """A value as HTML. There is no line break between a number and its unit."""
    if isinstance(item, Markup):
        return str(item)
    if isinstance(item, float):
        return f"{item:.3g}"
    return _UNIT.sub("\u00a0", escape(str(item)))


def bar(part: float) -> Markup:
    """A bar that shows a part, 0 to 1, with its percentage."""
    width = 100 * min(max(part, 0.0), 1.0)
    return Markup(
        f'<span class="part"><span class="bar"><span style="width:{width:.1f}%"></span></span>'
        f"{text_of(f'{100 * part:.1f} %')}</span>"
    )


def json_for_script(data: object) -> str:
    """Data as JSON that a script element can hold: it has no "<", and no NaN or infinity."""
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _finite(data: object) -> object:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(item) for item in data]
    return data


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
        UsageError: The path is not a file, or its folder does not exist.
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
    try:
        libraries = [
            f"/* {name}\n{asset(f'vendor/{name}.LICENSE')}*/\n"
            + _SOURCE_MAP.sub("", asset(f"vendor/{name}.min.js"))
            for name in VENDORED
        ]
    except FileNotFoundError as error:
        raise NotInstalledError(
            "the libraries that draw graphs are not installed: pip install 'hlo2onnx[report]'"
        ) from error
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

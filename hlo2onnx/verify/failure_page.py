"""The report of a program that was not translated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from hlo2onnx.report import versions_text
from hlo2onnx.verify.markup import facts, section, table
from hlo2onnx.verify.page import page

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

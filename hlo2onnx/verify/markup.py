"""HTML from plain values. Every text is escaped: names of users may hold HTML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

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

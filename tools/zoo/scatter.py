"""The picture of estimated and measured times: a dot for each program of the zoo."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.zoo.worker import Result

SIZE, MARGIN = 480, 48
DECADES = (-6, 0)
"""The exponents of 10 between which times in seconds are shown."""


def write_picture(rows: Iterable[Result], docs: Path) -> None:
    """Writes images/estimates.svg of the programs that have both times into a folder."""
    folder = docs / "images"
    folder.mkdir(exist_ok=True)
    text = picture([row for row in rows if row.ort and row.estimate])
    (folder / "estimates.svg").write_text(text, encoding="utf-8")


def picture(rows: Iterable[Result]) -> str:
    """The picture as SVG: lines where the estimate is right, half, and twice the time."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" font-size="12"'
    parts = [f'{head} font-family="sans-serif" fill="#6b7785">', *_axes()]
    for factor, dash in ((1, ""), (0.5, "4"), (2, "4")):
        low, high = (10.0**exponent for exponent in DECADES)
        start = _at(max(low, low / factor), max(low, low * factor))
        end = _at(min(high, high / factor), min(high, high * factor))
        parts.append(_line(start, end, f'stroke-dasharray="{dash}"'))
    for row in rows:
        x, y = _at(row.ort, row.expected)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#3b82c4"><title>'
            f"{html.escape(row.name)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> Iterator[str]:
    low, high = DECADES
    for exponent, text in zip(range(low, high + 1), _LABELS, strict=True):
        x, y = _at(10.0**exponent, 10.0**exponent)
        yield f'<text x="{x:.0f}" y="{SIZE - MARGIN + 18}" text-anchor="middle">{text}</text>'
        yield f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{text}</text>'
    middle = SIZE / 2
    yield f'<text x="{middle}" y="{SIZE - 8}" text-anchor="middle">measured</text>'
    yield (
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
        "estimated</text>"
    )


_LABELS = ("1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s")


def _line(start: tuple[float, float], end: tuple[float, float], style: str) -> str:
    (x, y), (u, v) = start, end
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" stroke="#9aa5b1" {style}/>'


def _at(measured: float, estimated: float) -> tuple[float, float]:
    """The place of two times in seconds."""
    low, high = DECADES
    room = (SIZE - 2 * MARGIN) / (high - low)
    x, y = (max(math.log10(time) - low, 0) * room for time in (measured, estimated))
    return MARGIN + x, SIZE - MARGIN - y

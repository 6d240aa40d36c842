"""A picture of growth: a panel for each group, with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, COLUMNS = 250, 210, 4
LEFT, TOP, RIGHT, BOTTOM = 46, 30, 8, 34
LINES = ("ours", "xla")

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>Milliseconds of a call by elements: hlo2onnx in ONNX Runtime, and XLA</title>
<style>text {{ font: 11px system-ui, sans-serif; fill: #59636e; }}
.head {{ font-weight: 600; font-size: 13px; fill: #1f2328; }}
.grid {{ stroke: #d1d9e0; stroke-width: 0.5; }}
.line {{ fill: none; stroke-width: 2; }}
.ours {{ stroke: #0969da; fill: #0969da; }}
.xla {{ stroke: #bc4c00; fill: #bc4c00; }}
text.ours, text.xla {{ stroke: none; }}</style>
<rect width="{width}" height="{height}" fill="#ffffff"/>"""


@dataclass(frozen=True)
class Point:
    """Seconds of a call on so many elements."""

    elements: int
    ours: float
    xla: float


def picture(groups: Mapping[str, Sequence[Point]]) -> str:
    """The SVG. All panels have the same axes, from the least to the largest decade of any group."""
    points = [point for found in groups.values() for point in found]
    across = _decades(point.elements for point in points)
    upwards = _decades(1e3 * getattr(point, line) for point in points for line in LINES)
    rows = math.ceil((len(groups) + 1) / COLUMNS)
    lines = [HEAD.format(width=COLUMNS * WIDTH, height=rows * HEIGHT)]
    for place, (name, found) in enumerate(groups.items()):
        corner = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT
        lines += _panel(name, found, corner, across, upwards)
    left, top = len(groups) % COLUMNS * WIDTH + LEFT, len(groups) // COLUMNS * HEIGHT + TOP + 20
    lines.append(f'<text class="ours" x="{left}" y="{top}">hlo2onnx in ONNX Runtime</text>')
    lines.append(f'<text class="xla" x="{left}" y="{top + 18}">XLA on the CPU</text>')
    lines.append(f'<text x="{left}" y="{top + 36}">ms of a call, by elements</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _decades(numbers: Iterable[float]) -> range:
    """Exponents of the powers of ten around some numbers."""
    logs = [math.log10(number) for number in numbers]
    return range(math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1) + 1)


def _panel(
    name: str, points: Sequence[Point], corner: tuple[int, int], across: range, upwards: range
) -> list[str]:
    left, top = corner[0] + LEFT, corner[1] + TOP
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(number: float) -> float:
        return left + width * (math.log10(number) - across[0]) / (across[-1] - across[0])

    def y(number: float) -> float:
        return top + height * (upwards[-1] - math.log10(number)) / (upwards[-1] - upwards[0])

    lines = [f'<text class="head" x="{left}" y="{top - 10}">{escape(name)}</text>']
    for exponent in across:
        at = f"{x(10.0**exponent):.1f}"
        lines.append(f'<path class="grid" d="M{at} {top}V{top + height}"/>')
        lines.append(f'<text text-anchor="middle" x="{at}" y="{top + height + 14}">')
        lines[-1] += f'10<tspan dy="-4" font-size="8">{exponent}</tspan></text>'
    for exponent in upwards:
        at = f"{y(10.0**exponent):.1f}"
        lines.append(f'<path class="grid" d="M{left} {at}H{left + width}"/>')
        lines.append(f'<text text-anchor="end" x="{left - 4}" y="{at}">{10.0**exponent:g}</text>')
    for line in LINES:
        places = [(x(p.elements), y(1e3 * getattr(p, line))) for p in points]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        lines.append(f'<path class="line {line}" style="fill: none" d="M{path}"/>')
        lines += [f'<circle class="{line}" cx="{a:.1f}" cy="{b:.1f}" r="2"/>' for a, b in places]
    return lines

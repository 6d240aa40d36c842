"""Draws a profile: a flame graph of the scopes above bars of the operators (SVG)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

from hlo2onnx.runtime.profiling.results import Profile

WIDTH = 1180
_LEFT, _ROW, _BARS = 20, 20, 25
_LETTER = 7.2
"""Mean width of a letter in pixels."""


@dataclass
class Frame:
    """A box of the flame graph.

    Attributes:
        name: Last part of a scope, or an operator.
        path: The whole scope.
        milliseconds: Time, with its children.
        children: The boxes below it.
    """

    name: str
    path: str = ""
    milliseconds: float = 0.0
    is_operator: bool = False
    children: dict[str, Frame] = field(default_factory=dict)

    def child(self, name: str, is_operator: bool = False) -> Frame:
        """A box below this one, made when first asked for."""
        key = f"{'op ' if is_operator else ''}{name}"
        if key not in self.children:
            path = f"{self.path}/{name}" if self.path else name
            self.children[key] = Frame(name, path, is_operator=is_operator)
        return self.children[key]

    @property
    def ordered(self) -> list[Frame]:
        """The boxes below it, the longest first."""
        return sorted(self.children.values(), key=lambda child: -child.milliseconds)


def flame(profile: Profile) -> Frame:
    """The times by scope as a tree; the operators are its leaves."""
    root = Frame(profile.title)
    for node in profile.nodes:
        frame = root
        frame.milliseconds += node.milliseconds
        for part in node.scope:
            frame = frame.child(part)
            frame.milliseconds += node.milliseconds
        frame.child(node.operator, is_operator=True).milliseconds += node.milliseconds
    return root


def picture(profile: Profile) -> str:
    """The whole picture."""
    top = 76
    boxes, depth = flame_boxes(profile, _LEFT, top, WIDTH - 2 * _LEFT)
    below = top + _ROW * depth + 40
    shares = profile.operators[:_BARS]
    bars = [f'<text x="{_LEFT}" y="{below - 10}" font-weight="bold">Time by operator</text>']
    for row, share in enumerate(shares):
        y = below + 22 * row
        label = escape(
            f"{share.name}  {share.milliseconds:.3f} ms  {100 * share.part:.1f} %"
            f"  (quartiles {share.low:.3f} to {share.high:.3f})"
        )
        bars.append(
            f'<rect x="{_LEFT}" y="{y}" width="{max(1100 * share.part, 1):.1f}" height="18" '
            f'fill="#8ab4d8"/><text x="{_LEFT + 4}" y="{y + 13}">{label}</text>'
        )
    title = escape(profile.title)
    texts = [
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{title}</text>',
        f'<text x="{_LEFT}" y="43">{escape(profile.setting)}</text>',
        f'<text x="{_LEFT}" y="61">{escape(profile.summary)}</text>',
    ]
    height = below + 22 * len(shares) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(texts)}{''.join(boxes)}{''.join(bars)}</svg>\n"
    )


def flame_svg(profile: Profile) -> str:
    """The flame graph alone."""
    boxes, depth = flame_boxes(profile, 0, 0, WIDTH)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_ROW * depth + 2}" '
        f'font-family="sans-serif" font-size="12">{"".join(boxes)}</svg>'
    )


def flame_boxes(profile: Profile, left: float, top: float, width: float) -> tuple[list[str], int]:
    """The boxes of the flame graph as SVG, and the count of its rows."""
    root = flame(profile)
    total = max(root.milliseconds, 1e-9)
    found, depth = [], 0
    for frame, start, level in _placed(root):
        wide = width * frame.milliseconds / total
        if wide < 0.4:
            continue
        depth = max(depth, level + 1)
        share = 100 * frame.milliseconds / total
        label = f"{frame.path or frame.name}: {frame.milliseconds:.3f} ms, {share:.1f} %"
        letters = int((wide - 8) / _LETTER)
        text = frame.name if len(frame.name) <= letters else f"{frame.name[: letters - 1]}…"
        x, y = left + width * start / total, top + _ROW * level
        shown = ""
        if letters > 2:
            shown = f'<text x="{x + 4:.1f}" y="{y + 14}">{escape(text)}</text>'
        found.append(
            f'<g><title>{escape(label)}</title><rect x="{x:.1f}" y="{y}" width="{wide:.1f}" '
            f'height="{_ROW - 1}" fill="{_colour(frame)}" stroke="white"/>{shown}</g>'
        )
    return found, depth


def _placed(root: Frame) -> Iterator[tuple[Frame, float, int]]:
    """Each box with the time at which it starts, and its row."""
    pending = [(root, 0.0, 0)]
    while pending:
        frame, start, level = pending.pop()
        yield frame, start, level
        for child in frame.ordered:
            pending.append((child, start, level + 1))
            start += child.milliseconds


def _colour(frame: Frame) -> str:
    """Warm colours for scopes, the same for the same name; grey blue for operators."""
    shade = crc32(frame.name.encode())
    if frame.is_operator:
        return f"hsl(208 42% {74 + shade % 10}%)"
    return f"hsl({22 + shade % 30} 82% {66 + shade // 64 % 12}%)"

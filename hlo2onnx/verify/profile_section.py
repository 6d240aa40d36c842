"""The section of a profile: a flame graph of the scopes, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from hlo2onnx.runtime.profiling.picture import flame_svg
from hlo2onnx.runtime.profiling.results import Profile, Share
from hlo2onnx.verify.markup import bar, bullets, table, text_of

_ROWS = 15


def profile_section(found: Profile) -> str:
    """The summary, the flame graph and the tables."""
    parts = [f"<p>{text_of(found.summary)}<br>{text_of(found.setting)}</p>"]
    if found.notes:
        parts.append(bullets(found.notes))
    parts.append(f'<div class="flame">{flame_svg(found)}</div>')
    tables = [
        _shares("operator", found.operators),
        _shares("scope", found.scopes),
        _shares("source line", found.lines),
    ]
    parts += [f'<div class="tables wide">{"".join(tables)}</div>', _nodes(found)]
    return "".join(parts)


def _shares(title: str, shares: Sequence[Share]) -> str:
    rows = [
        (share.name, share.milliseconds, bar(share.part), share.nodes, _quartiles(share))
        for share in shares[:_ROWS]
    ]
    head = (title, "ms", "part", "nodes", "quartiles")
    return table(head, rows, (1, 3, 4), len(shares) - _ROWS)


def _nodes(found: Profile) -> str:
    rows = [
        (node.name, node.operator, node.milliseconds, bar(node.part), node.trips,
         1000 * node.per_trip)
        for node in found.nodes[:_ROWS]
    ]  # fmt: skip
    head = ("node", "operator", "ms", "part", "trips", "µs per trip")
    return table(head, rows, (2, 4, 5), len(found.nodes) - _ROWS)


def _quartiles(share: Share) -> str:
    return f"{share.low:.3g} to {share.high:.3g}"

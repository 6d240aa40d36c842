"""The sections of a verification and of a profile: tables, and a flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hlo2onnx.runtime.profiling.results import Profile, Share, flame_svg
from hlo2onnx.verify.compare import Comparison, Verification
from hlo2onnx.verify.page import bar, bullets, table, text_of

_SHOWN = 20
"""Outputs whose worst elements are listed."""


def verification_section(found: Verification) -> str:
    """The outcome, the table, and the worst elements of each output."""
    rows = [_row(item, label) for label, items in found.runs for item in items]
    head = ("output", "type", "run", "max abs", "max rel", "ULP", "verdict")
    runtime = escape(found.runtime) or "the model"
    parts = [
        f"<p>{badge(found)}: {runtime} against XLA on the CPU</p>",
        table(head, rows, (3, 4, 5)),
    ]
    if found.fallback:
        parts.append(f"<p>Not the runtime of the target: {escape(found.fallback)}</p>")
    if found.left_out:
        parts.append(f"<p>No time for {escape(', '.join(found.left_out))}</p>")
    if found.notes:
        parts.append(bullets(found.notes))
    parts += [_worst(item) for item in found.optimized[:_SHOWN] if item.worst]
    if len(found.optimized) > _SHOWN:
        parts.append(f"<p>and {len(found.optimized) - _SHOWN} more outputs</p>")
    return "".join(parts)


def badge(found: Verification) -> str:
    """The outcome in a word."""
    outcome, kind = ("DIFFERS", "bad") if found.differing else ("cannot be judged", "unsure")
    if found.ok:
        outcome, kind = "agrees", "good"
    return f'<span class="badge {kind}">{outcome}</span>'


def _row(item: Comparison, label: str) -> tuple[object, ...]:
    dims = ", ".join(map(str, item.shape))
    numbers = (item.max_abs, item.max_rel, item.max_ulp)
    return (item.name, f"{item.dtype}[{dims}]", label, *map(float, numbers), item.verdict)


def _worst(item: Comparison) -> str:
    """The elements of an output with the largest errors."""
    rows = [
        ("[" + ", ".join(map(str, each.index)) + "]", each.actual, each.expected, each.error)
        for each in item.worst
    ]
    worst = table(("index", "model", "XLA", "error"), rows, (1, 2, 3))
    return f"<h3>{escape(item.name)}</h3>{worst}"


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

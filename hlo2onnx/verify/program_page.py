"""The report of a program: graph, verification, profile and tables on one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

import onnx_ir as oir

from hlo2onnx.report import Report, versions_text
from hlo2onnx.runtime.profiling.results import Profile, Share, flame_svg
from hlo2onnx.verify.compare import Comparison, Verification
from hlo2onnx.verify.graph import graph_data, type_text
from hlo2onnx.verify.page import (
    Markup,
    asset,
    bar,
    bullets,
    facts,
    fragment,
    frame,
    page,
    section,
    table,
    text_of,
)

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


_PORTS = 200
"""Inputs and outputs in a table."""
_OPEN = 8
"""A table with more of them is closed at first."""
_INFINITE = 1e30
"""What stands for infinite errors and NaN, which JSON does not have."""
_DRAWN = 1000
"""Graphs with more nodes are not drawn in notebooks."""
_NODES = 300
"""Nodes in the table for readers without JavaScript."""


def program_page(
    model: oir.Model,
    report: Report,
    *,
    verification: Verification | None = None,
    profile: Profile | None = None,
    errors: Mapping[str, float] | None = None,
    command: str = "",
) -> str:
    """The whole page. See `OnnxProgram.save_report`."""
    graph = graph_data(model)
    parts = [section("summary", "Summary", _summary(model, report, command))]
    if report.notes:
        parts.append(section("notes", "Notes", bullets(report.notes)))
    parts.append(section("graph", "Graph", asset("graph.html")))
    if verification is not None:
        parts.append(section("verification", "Verification", verification_section(verification)))
    if profile is not None:
        parts.append(section("profile", "Profile", profile_section(profile)))
    parts.append(section("translation", "Translation", _translation(report)))
    nodes = _node_table(graph.nodes, graph.texts)
    parts.append(section("nodes", "Nodes", nodes, is_open=False))
    data = graph.as_dict(times_of(profile), errors_of(errors or {}, verification))
    return page(report.source, _header(report, verification, profile), "".join(parts), data)


def program_fragment(model: oir.Model, report: Report) -> str:
    """The summary, the graph and the translation, for a notebook."""
    content = f"<h3>{escape(report.source)}</h3>{_summary(model, report)}"
    if report.notes:
        content += bullets(report.notes)
    graph = graph_data(model)
    if len(graph.nodes) <= _DRAWN:
        drawn = section("graph", "Graph", asset("graph.html"))
        content += frame(page(report.source, "", drawn, graph.as_dict({}, {})))
    translation = section("translation", "Translation", _translation(report), is_open=False)
    return fragment(content + translation)


def _header(report: Report, verification: Verification | None, profile: Profile | None) -> str:
    counts = (
        f"{sum(report.ops.values()):,} StableHLO ops, {sum(report.nodes.values()):,} ONNX nodes"
    )
    parts = [counts, f"target {report.target}", f"opset {report.opset}"]
    if profile is not None:
        parts.append(f"{profile.run.median:.3f} ms per run")
    outcome = '<span class="badge">not verified</span>'
    if verification is not None:
        outcome = badge(verification)
    texts = text_of(" · ".join(parts))
    return f"<h1>{escape(report.source)}</h1><p>{outcome} {texts}</p>"


def _summary(model: oir.Model, report: Report, command: str = "") -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    items: dict[str, object] = {
        "weights": _weights(report),
        "translated in": f"{sum(report.seconds.values()):.2f} s" if report.seconds else "",
        "command": command,
        "versions": versions_text(),
        "report made": made if command else "",
    }
    ports = [_ports("input", model.graph.inputs), _ports("output", model.graph.outputs)]
    return f'{facts(items)}<div class="tables">{"".join(ports)}</div>'


def _weights(report: Report) -> str:
    items = report.weights.items()
    if not items:
        return ""
    sizes, *reasons = items
    return Markup(text_of(sizes) + (bullets(reasons) if reasons else ""))


def _ports(kind: str, values: Sequence[oir.Value]) -> str:
    rows = []
    for value in values[:_PORTS]:
        note = (value.doc_string or "").partition(": ")[2]
        rows.append((value.name, type_text(value), note))
    count = 3 if any(note for _, _, note in rows) else 2
    shown = table(
        (kind, "type", "note")[:count],
        [row[:count] for row in rows],
        more=len(values) - _PORTS,
    )
    if len(values) <= _OPEN:
        return shown
    title = f"{len(values)} {kind}s"
    return f"<details><summary>{title}</summary>{shown}</details>"


def _translation(report: Report) -> str:
    tables = [
        _counted("StableHLO op", report.ops),
        _counted("ONNX operator", report.nodes),
        _counted("rewrite rule", report.rules),
        _counted("cast for", report.casts),
        _counted("rules across roundings", report.relaxed),
        _counted("expanded for the target", report.expanded),
    ]
    seconds = table(("stage", "seconds"), report.seconds.items(), (1,)) if report.seconds else ""
    return f'<div class="tables">{"".join(tables)}{seconds}</div>'


def _counted(title: str, counts: Counter[str]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return table((title, "count"), ordered, (1,)) if ordered else ""


def times_of(found: Profile | None) -> dict[str, tuple[float, float]]:
    """Milliseconds and trips of each node of the model, with what the runtime added to it."""
    times: dict[str, tuple[float, float]] = {}
    for node in found.nodes if found is not None else ():
        before, trips = times.get(node.name, (0.0, 0.0))
        times[node.name] = (before + node.milliseconds, max(trips, node.trips))
    return times


def errors_of(given: Mapping[str, float], found: Verification | None) -> dict[str, float]:
    """Errors of intermediate values, and of the outputs."""
    outputs = [] if found is None else found.optimized
    errors = {item.name: float(item.max_rel) for item in outputs} | dict(given)
    return {name: error if error < _INFINITE else _INFINITE for name, error in errors.items()}


def _node_table(nodes: Iterable[Sequence[Any]], texts: Sequence[str]) -> str:
    listed = [node for node in nodes if node[1] not in ("input", "output")]
    rows = [
        (node[1], node[2], ", ".join(texts[place] for place in node[4]), texts[node[7]])
        for node in listed[:_NODES]
    ]
    return table(("operator", "name", "type", "source"), rows, more=len(listed) - _NODES)

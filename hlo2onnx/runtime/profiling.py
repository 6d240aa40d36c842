"""Measures the time of a run by operator and by JAX scope."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hlo2onnx.errors import UsageError
from hlo2onnx.runtime.output_paths import output_file, writing
from hlo2onnx.runtime.sessions import OrtProgram, Providers

WARM_UP = 2
_SUFFIX = "_kernel_time"
_ROWS = 25
"""Lines of a table, and bars of a picture."""

Event: TypeAlias = Mapping[str, Any]
"""One event of the runtime's profile, from JSON."""


@dataclass(frozen=True)
class Share:
    """The time of some nodes.

    Attributes:
        name: Operator or scope.
        milliseconds: Time in one run. Time in a Loop, Scan or If belongs to the nodes of its body.
        part: Part of the time of all nodes, 0 to 1.
        nodes: Count after the runtime's optimization. Nodes in a loop count once per trip.
    """

    name: str
    milliseconds: float
    part: float
    nodes: float


@dataclass(frozen=True)
class Profile:
    """The time of one run, as ONNX Runtime measures it.

    Attributes:
        milliseconds: Time of all nodes, the mean of some runs.
        operators: Time by operator, with the runtime's fused operators, the longest first.
        scopes: Time by JAX scope (module or `jax.named_scope`), to some depth, the longest first.
    """

    milliseconds: float
    operators: Sequence[Share]
    scopes: Sequence[Share]

    def __str__(self) -> str:
        parts = [f"{self.milliseconds:.3f} ms in nodes"]
        parts += [_table("operator", self.operators), _table("scope", self.scopes)]
        return "\n\n".join(parts)

    def save(self, path: str | Path) -> None:
        """Writes both tables as a picture with bars (SVG).

        Raises:
            UsageError: The path is no file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        path = output_file(path, "profile.svg")
        with writing(path):
            path.write_text(_picture(self), encoding="utf-8")


def profile(
    model: bytes | str,
    feeds: Mapping[str, np.ndarray],
    *,
    runs: int = 10,
    threads: int = 0,
    depth: int = 2,
    libraries: Sequence[str] = (),
    denormals: str = "keep",
    providers: Providers | None = None,
) -> Profile:
    """Runs a model several times with the runtime's profiler.

    Args:
        model: Serialized model, or the path of a model with external data.
        feeds: An array for each input.
        runs: Count of runs to average, after two to warm up.
        threads: Count of intra-op threads; 0 for the runtime's default.
        depth: Scopes are grouped by this many leading components.
        libraries: Shared libraries with custom operators.
        denormals: "keep" or "flush", as in `hlo2onnx.options.Options`.
        providers: Execution providers of the runtime. Default: the CPU.

    Raises:
        UsageError: `runs` or `depth` is less than 1.
        VerificationError: ONNX Runtime is not installed, or does not run the model.
    """
    for name, count in (("runs", runs), ("depth", depth)):
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"{name}={count!r} is not a number of at least 1")
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "profile")
        program = OrtProgram(
            model,
            threads=threads,
            libraries=libraries,
            profile=prefix,
            denormals=denormals,
            providers=providers,
        )
        for _ in range(WARM_UP + runs):
            program(feeds)
        written = Path(program.session.end_profiling())
        events = json.loads(written.read_text(encoding="utf-8"))
    return _summary(_runs(events)[WARM_UP:], depth)


def _runs(events: Iterable[Event]) -> list[list[Event]]:
    """The events of the nodes of each run."""
    ordered = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    starts = [event for event in ordered if event["name"] == "model_run"]
    found: list[list[Event]] = [[] for _ in starts]
    for event in ordered:
        if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
            for index, run in enumerate(starts):
                if run["ts"] <= event["ts"] < run["ts"] + run["dur"]:
                    found[index].append(event)
    return found


def _own_times(events: Sequence[Event]) -> list[float]:
    """The microseconds of each event without the events inside it."""
    own = [float(event["dur"]) for event in events]
    open_events: list[int] = []
    for index, event in enumerate(events):
        while open_events and _end(events[open_events[-1]]) <= event["ts"]:
            open_events.pop()
        if open_events:
            own[open_events[-1]] -= event["dur"]
        open_events.append(index)
    return own


def _end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def _summary(runs: Sequence[Sequence[Event]], depth: int) -> Profile:
    operators: dict[str, list[float]] = defaultdict(list)
    scopes: dict[str, list[float]] = defaultdict(list)
    for events in runs:
        for event, time in zip(events, _own_times(events), strict=True):
            operators[event["args"]["op_name"]].append(time)
            scopes[_scope(event["name"].removesuffix(_SUFFIX), depth)].append(time)
    total = sum(map(sum, operators.values())) / len(runs)
    return Profile(
        total / 1e3, _shares(operators, total, len(runs)), _shares(scopes, total, len(runs))
    )


def _scope(node_name: str, depth: int) -> str:
    parts = node_name.split("/")[:-1]
    return "/".join(parts[:depth]) or "(none)"


def _shares(times: Mapping[str, Sequence[float]], total: float, runs: int) -> list[Share]:
    shares = [
        Share(
            name, sum(found) / runs / 1e3, sum(found) / runs / max(total, 1e-9), len(found) / runs
        )
        for name, found in times.items()
    ]
    return sorted(shares, key=lambda share: -share.milliseconds)


def _table(title: str, shares: Sequence[Share]) -> str:
    width = max(len(title), *(len(share.name) for share in shares)) if shares else len(title)
    lines = [f"{title:{width}}        ms      %  nodes"]
    for share in shares[:_ROWS]:
        numbers = f"{share.milliseconds:8.3f}  {100 * share.part:5.1f}  {share.nodes:5g}"
        lines.append(f"{share.name:{width}}  {numbers}")
    if len(shares) > _ROWS:
        lines.append(f"and {len(shares) - _ROWS} more")
    return "\n".join(lines)


def _picture(found: Profile) -> str:
    """Two columns of bars."""
    bars: list[str] = []
    rows = 0
    for column, (title, shares) in enumerate(
        (("by operator", found.operators), ("by scope", found.scopes))
    ):
        left = 20 + 480 * column
        bars.append(f'<text x="{left}" y="40" font-weight="bold">{title}</text>')
        for row, share in enumerate(shares[:_ROWS]):
            y = 56 + 22 * row
            label = escape(f"{share.name}  {share.milliseconds:.3f} ms  {100 * share.part:.1f} %")
            bars.append(
                f'<rect x="{left}" y="{y}" width="{max(440 * share.part, 1):.1f}" height="18" '
                f'fill="#8ab4d8"/><text x="{left + 4}" y="{y + 13}">{label}</text>'
            )
        rows = max(rows, len(shares[:_ROWS]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="980" height="{76 + 22 * rows}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="20">{found.milliseconds:.3f} ms in nodes</text>{"".join(bars)}</svg>\n'
    )

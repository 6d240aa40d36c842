"""The result of a profile: its tables as text, and its picture (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from hlo2onnx.runtime.paths import output_file, writing

_ROWS, _FEW = 25, 10
"""Lines of a table."""

UNKNOWN = "(none)"
"""The scope and the source line of nodes that the runtime has added, if nothing is known."""


@dataclass(frozen=True)
class Spread:
    """Milliseconds in some runs: their median and their quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """The time of some nodes.

    Attributes:
        name: Operator, scope or source line.
        milliseconds: Time in one run, the sum of the medians of the nodes. Time in a Loop, Scan or
            If belongs to the nodes of its body.
        part: Part of the time of all nodes, 0 to 1.
        nodes: Count after the runtime's optimization. Nodes in a loop count once per trip.
        low, high: Sums of the quartiles of the nodes.
    """

    name: str
    milliseconds: float
    part: float
    nodes: float
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class NodeTime:
    """The time of one node that the runtime runs.

    Attributes:
        name: The node of the model: itself, or a node that the runtime has fused into it, or the
            nearest one. If unknown, the runtime's name.
        operator: The operator that runs, perhaps a fused one of the runtime.
        scope: The JAX scope, the outermost part first.
        source: The source line; "" if unknown.
        milliseconds: Time in one run, the median. It is without the nodes of a body.
        low, high: Quartiles of the time in the runs.
        part: Part of the time of all nodes, 0 to 1.
        trips: How often it runs in one run of the model: 1 outside of loops.
    """

    name: str
    operator: str
    scope: tuple[str, ...]
    source: str
    milliseconds: float
    low: float
    high: float
    part: float
    trips: float

    @property
    def per_trip(self) -> float:
        """Milliseconds of one execution."""
        return self.milliseconds / self.trips if self.trips else 0.0


@dataclass(frozen=True)
class Profile:
    """The time of one run, as ONNX Runtime measures it.

    Attributes:
        milliseconds: Time of all nodes: the sum of their medians.
        operators: Time by operator, with the runtime's fused operators, the longest first.
        scopes: Time by JAX scope (module, `jax.named_scope` or function), to some depth.
        lines: Time by source line.
        nodes: Time of each node.
        title: Name of the program.
        device: Execution providers and processor.
        threads: Intra-op threads. 0 is the runtime's default, a thread per physical core.
        runtime: Name and version of the runtime.
        runs: Count of measured runs.
        warm_up: Count of runs before them.
        run: Milliseconds of a whole run without the profiler.
        run_with_profiler: The same with the profiler.
        added: Microseconds that the profiler adds to each execution of a node. They are subtracted.
        notes: Restrictions of this profile.
    """

    milliseconds: float
    operators: Sequence[Share]
    scopes: Sequence[Share]
    lines: Sequence[Share] = ()
    nodes: Sequence[NodeTime] = ()
    title: str = ""
    device: str = ""
    threads: int = 0
    runtime: str = ""
    runs: int = 0
    warm_up: int = 0
    run: Spread = Spread(0.0, 0.0, 0.0)
    run_with_profiler: Spread = Spread(0.0, 0.0, 0.0)
    added: float = 0.0
    notes: Sequence[str] = ()

    @property
    def setting(self) -> str:
        """Runtime, device and threads."""
        threads = "default threads" if not self.threads else f"{self.threads} threads"
        threads = "1 thread" if self.threads == 1 else threads
        return f"{self.runtime}, {self.device}, {threads}"

    @property
    def summary(self) -> str:
        """The time of a run, and how it was measured."""
        return (
            f"a run takes {self.run.median:.3f} ms (quartiles {self.run.low:.3f} to"
            f" {self.run.high:.3f}), its nodes {self.milliseconds:.3f} ms: medians of {self.runs}"
            f" runs after {self.warm_up} to warm up. With the profiler a run takes"
            f" {self.run_with_profiler.median:.3f} ms; its {self.added:.1f} us per node are"
            " subtracted"
        )

    def __str__(self) -> str:
        parts = [f"{self.title}\n{self.setting}\n{self.summary}"]
        parts += [f"note     {note}" for note in self.notes]
        parts += [_table("operator", self.operators, _ROWS), _table("scope", self.scopes, _ROWS)]
        parts += [_table("source line", self.lines, _FEW), _node_table(self.nodes)]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return f"{flame_svg(self)}<pre>{escape(str(self))}</pre>"

    def save(self, path: str | Path) -> None:
        """Writes the profile as a picture (SVG): a flame graph of the scopes and operators.

        Raises:
            UsageError: The path is not a file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        path = output_file(path, "profile.svg")
        with writing(path):
            path.write_text(
                flame_svg(self, (self.title, self.setting, self.summary)), encoding="utf-8"
            )


def _table(title: str, shares: Sequence[Share], rows: int) -> str:
    width = max([len(title), *(len(share.name) for share in shares[:rows])])
    lines = [f"{title:{width}}        ms      %  nodes      quartiles (ms)"]
    for share in shares[:rows]:
        numbers = f"{share.milliseconds:8.3f}  {100 * share.part:5.1f}  {share.nodes:5g}"
        lines.append(f"{share.name:{width}}  {numbers}  {share.low:8.3f} to {share.high:.3f}")
    return "\n".join([*lines, *_others(len(shares), rows)])


def _node_table(nodes: Sequence[NodeTime]) -> str:
    shown = nodes[:_FEW]
    width = max([4, *(len(node.name) for node in shown)])
    lines = [f"{'node':{width}}        ms      %  trips   us/trip  operator"]
    for node in shown:
        numbers = f"{node.milliseconds:8.3f}  {100 * node.part:5.1f}  {node.trips:5g}"
        trip = f"{1000 * node.per_trip:8.1f}"
        lines.append(f"{node.name:{width}}  {numbers}  {trip}  {node.operator}")
    return "\n".join([*lines, *_others(len(nodes), _FEW)])


def _others(count: int, rows: int) -> list[str]:
    return [f"and {count - rows} more"] if count > rows else []


_WIDTH, _ROW, _LINE = 1180, 20, 18
_LETTER = 7.2
"""Mean width of a letter in pixels."""
_OPERATOR = "op "
"""What marks an operator in a path of the flame graph."""

_Path: TypeAlias = tuple[str, ...]


def flame(profile: Profile) -> dict[_Path, float]:
    """Milliseconds by scope, with all that is in it; `()` is the program. Operators come last."""
    times: dict[_Path, float] = {(): 0.0}
    for node in profile.nodes:
        path = (*node.scope, f"{_OPERATOR}{node.operator}")
        for end in range(len(path) + 1):
            times[path[:end]] = times.get(path[:end], 0.0) + node.milliseconds
    return times


def flame_svg(profile: Profile, heading: Sequence[str] = ()) -> str:
    """The flame graph as SVG, the longest part of each scope on the left.

    Args:
        heading: Lines of text above it.
    """
    times, depth, top = flame(profile), 0, _LINE * len(heading)
    scale = _WIDTH / max(times[()], 1e-9)
    found = [
        f'<text x="4" y="{_LINE * line + 13}">{escape(text)}</text>'
        for line, text in enumerate(heading)
    ]
    starts: dict[_Path, float] = {}
    for path in sorted(times, key=lambda path: _order(path, times)):
        start = starts.get(path[:-1], 0.0)
        starts[path[:-1]] = start + times[path]  # where the next part of the same scope starts
        starts[path] = start
        if times[path] * scale >= 0.4:
            depth = max(depth, len(path) + 1)
            place = (start * scale, top + _ROW * len(path))
            found.append(_box(path or (profile.title,), times[path], scale, place))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + _ROW * depth + 2}" '
        f'font-family="sans-serif" font-size="12">{"".join(found)}</svg>'
    )


def _order(path: _Path, times: Mapping[_Path, float]) -> list[tuple[float, _Path]]:
    """Puts scopes before their parts, and long parts before short ones."""
    return [(-times[path[:end]], path[:end]) for end in range(len(path) + 1)]


def _box(path: _Path, time: float, scale: float, place: tuple[float, int]) -> str:
    """A scope or operator as SVG, with its name if there is room."""
    (x, y), wide = place, time * scale
    name = path[-1].removeprefix(_OPERATOR)
    share = 100 * wide / _WIDTH
    label = f"{'/'.join((*path[:-1], name))}: {time:.3f} ms, {share:.1f} %"
    letters = int((wide - 8) / _LETTER)
    text = name if len(name) <= letters else f"{name[: letters - 1]}…"
    shown = f'<text x="{x + 4:.1f}" y="{y + 14}">{escape(text)}</text>' if letters > 2 else ""
    return (
        f'<g><title>{escape(label)}</title><rect x="{x:.1f}" y="{y}" width="{wide:.1f}" '
        f'height="{_ROW - 1}" fill="{_colour(path[-1])}" stroke="white"/>{shown}</g>'
    )


def _colour(name: str) -> str:
    """Warm colours for scopes, the same for the same name; grey blue for operators."""
    shade = crc32(name.encode())
    if name.startswith(_OPERATOR):
        return f"hsl(208 42% {74 + shade % 10}%)"
    return f"hsl({22 + shade % 30} 82% {66 + shade // 64 % 12}%)"

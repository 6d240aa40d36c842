"""The result of a profile: its tables as text, and its picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
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
        """Writes the profile as a picture (SVG): scopes as a flame graph, and operators as bars.

        Raises:
            UsageError: The path is no file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        path = output_file(path, "profile.svg")
        with writing(path):
            path.write_text(picture(self), encoding="utf-8")


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

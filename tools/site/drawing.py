"""A small picture of a model's graph: a dot for each node, by layers from left to right.

Nodes in bodies of Loop, Scan and If are between what the node reads and the node itself.
`python -m tools.zoo --envs DIR --write` draws the programs that it runs into docs/images/zoo.
"""

from __future__ import annotations

import re
from collections import defaultdict

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from tools import ROOT

PICTURES = ROOT / "docs" / "images" / "zoo"
WIDTH, HEIGHT, MARGIN = 640, 360, 12
KINDS = {
    "matrix product, convolution": (
        "#e8703a",
        r"MatMul|Gemm|Conv|Einsum|\w*Attention|LSTM|GRU|Det|DFT",
    ),
    "normalization, activation": (
        "#4fa64f",
        r"\w*Norm|\w*Softmax|\w*elu$|\w*Elu|\w*Relu|\w*Sigmoid|Tanh|Softplus|Swish|Mish|Erf",
    ),
    "control flow": ("#d6336c", r"(Loop|If|Scan)$"),
    "reduction, sort, pooling": (
        "#8e63c7",
        r"Reduce|Arg|TopK|CumSum|\w*Pool|Unique|NonZero|Compress",
    ),
    "data movement": (
        "#9aa5b1",
        r"Reshape|Transpose|Slice|Concat|Gather|Scatter|Split|Squeeze|Unsqueeze|Expand|Pad|Tile"
        r"|Cast|Identity|Constant|Shape|Resize|Range|DepthToSpace|SpaceToDepth|Flatten|Reverse",
    ),
    "arithmetic and other": ("#3b82c4", ""),
}
"""Kinds of operators: colours, and what the names begin with. The first that fits counts."""

Edges = dict[tuple[oir.Node, oir.Node], None]
"""Pairs of a node and one that reads it, each once."""


def draw(name: str, graph: oir.Graph) -> None:
    """Writes the picture of a program of the zoo."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(picture(graph), encoding="utf-8")


def picture(graph: oir.Graph) -> str:
    """The graph as SVG."""
    layers, edges = _layers(graph)
    places = _places(layers, edges)
    rows = max(map(len, layers), default=1)
    size = max(3.0, min(12.0, WIDTH / (len(layers) + 1), HEIGHT / rows))
    lines = dict.fromkeys(_line(places[maker], places[reader]) for maker, reader in edges)
    dots: dict[str, list[str]] = defaultdict(list)
    for node, (x, y) in places.items():
        dots[_colour(node.op_type)].append(f"M{x} {y}h0")
    paths = "".join(f'<path stroke="{c}" d="{"".join(d)}"/>' for c, d in dots.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" fill="none">'
        f'<path stroke="#8a94a6" stroke-opacity=".35" d="{"".join(lines)}"/>'
        f'<g stroke-width="{size:.1f}" stroke-linecap="round">{paths}</g></svg>\n'
    )


def _layers(graph: oir.Graph) -> tuple[list[list[oir.Node]], Edges]:
    """The nodes of each layer, and the edges between them."""
    depth: dict[oir.Node, int] = {}
    given: dict[oir.Value, oir.Value] = {}  # what a body's input is at first
    edges: Edges = {}

    def visit(graph: oir.Graph, lowest: int) -> None:
        for node in graph:
            read = [given.get(value, value) for value in node.inputs if value is not None]
            for body in subgraphs(node):
                given.update(zip(body.inputs[::-1], read[::-1], strict=False))
                visit(body, max([lowest, *(depth[x] + 1 for x in _makers(read))]))
                read += [*body.outputs]
            depth[node] = max([lowest, *(depth[x] + 1 for x in _makers(read))])
            edges.update(((maker, node), None) for maker in _makers(read))

    visit(graph, 0)
    layers: list[list[oir.Node]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node, layer in depth.items():
        layers[layer].append(node)
    return layers, edges


def _makers(values: list[oir.Value]) -> list[oir.Node]:
    return [maker for value in values if (maker := value.producer()) is not None]


def _places(layers: list[list[oir.Node]], edges: Edges) -> dict[oir.Node, tuple[int, int]]:
    """Where each node is. In a layer, nodes are in the order of what they read."""
    places: dict[oir.Node, tuple[int, int]] = {}
    heights: dict[oir.Node, list[int]] = defaultdict(list)
    readers: dict[oir.Node, list[oir.Node]] = defaultdict(list)
    for maker, reader in edges:
        readers[maker].append(reader)
    step = (WIDTH - 2 * MARGIN) / max(len(layers) - 1, 1)
    gap = min(40.0, (HEIGHT - 2 * MARGIN) / max(1, *(len(layer) - 1 for layer in layers), 1))
    for index, layer in enumerate(layers):
        means = {x: sum(heights[x]) / len(heights[x]) if heights[x] else 0.0 for x in layer}
        for place, node in enumerate(sorted(layer, key=means.__getitem__)):
            y = round(HEIGHT / 2 + (place - (len(layer) - 1) / 2) * gap)
            places[node] = (round(MARGIN + index * step), y)
            for reader in readers[node]:
                heights[reader].append(y)
    return places


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    return f"M{start[0]} {start[1]}l{end[0] - start[0]} {end[1] - start[1]}"


def _colour(operator: str) -> str:
    return next(colour for colour, names in KINDS.values() if re.match(names, operator))

"""Draws the README's picture: a JAX function, its ONNX graph and the verified numbers.

    python -m tools.docs.picture            print the picture
    python -m tools.docs.picture --write    write docs/images/overview.svg

Its content comes from a translation: the function's source, the nodes of the model, and the errors
that `verify` measured.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from tools import ROOT

PICTURE = ROOT / "docs" / "images" / "overview.svg"

Params = Mapping[str, Any]


def classify(params: Params, x: jax.Array) -> jax.Array:
    # LayerNorm, written out
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    x = (x - mean) * jax.lax.rsqrt(variance + 1e-6)
    x = x * params["scale"] + params["bias"]
    # a layer
    x = jax.nn.gelu(x) @ params["kernel"]
    return jax.nn.softmax(x)


def translated() -> hlo2onnx.OnnxProgram:
    """The function as a model: its weights bound, its batch free."""
    rng = np.random.default_rng(0)
    shapes = {"scale": (64,), "bias": (64,), "kernel": (64, 10)}
    params = {name: jnp.asarray(rng.normal(size=n) / 4, "f4") for name, n in shapes.items()}
    return hlo2onnx.translate(classify, params, "b, 64", bind={"params": params})


# -- drawing --------------------------------------------------------------------------------------

WIDTH, HEIGHT = 1120, 372
TOP, LINE = 84, 21
GRAPH, NUMBERS = 500, 800
_STYLE = """\
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; }
.head { font: 600 15px system-ui, sans-serif; }
.small { font-size: 12px; fill: #59636e; }
.good { font-weight: 600; fill: #1a7f37; }
.panel { fill: #f6f8fa; stroke: #d1d9e0; }
.node { fill: #ddf4ff; stroke: #0969da; }
.arrow { stroke: #59636e; stroke-width: 1.5; fill: none; }"""


def picture(program: hlo2onnx.OnnxProgram, verification: hlo2onnx.Verification) -> str:
    """The SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>A JAX function, its ONNX graph and the verified numbers</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *_panel(16, 468, "A JAX function"),
        *_code(32),
        *_panel(GRAPH, 284, "its ONNX graph"),
        *_graph(program),
        *_panel(NUMBERS, 304, "ONNX Runtime beside XLA"),
        *_numbers(program, verification),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(x: int, width: int, head: str) -> Iterator[str]:
    yield f'<rect class="panel" x="{x}" y="48" width="{width}" height="{HEIGHT - 64}" rx="8"/>'
    yield _text(x, 32, head, "head")


def _text(x: int, y: int, content: str, style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{named} xml:space="preserve">{escape(content)}</text>'


def _code(x: int) -> Iterator[str]:
    lines = inspect.getsource(classify).splitlines()
    lines[0] = "def classify(params, x):"
    for number, line in enumerate(lines):
        style = "small" if line.lstrip().startswith("#") else ""
        yield _text(x, TOP + LINE * number, line, style)


def _graph(program: hlo2onnx.OnnxProgram) -> Iterator[str]:
    """The nodes in a column, each with the weights it reads."""
    graph = program.model.graph
    (given,), (result,) = graph.inputs, graph.outputs
    middle, y = GRAPH + 142, TOP
    yield _centred(middle, y, f"{given.name}: float32[{', '.join(map(str, given.shape or ()))}]")
    for node in graph:
        weights = [str(value.name) for value in node.inputs if value and value.is_initializer()]
        yield _arrow(middle, y + 6)
        yield f'<rect class="node" x="{GRAPH + 16}" y="{y + 19}" width="252" height="34" rx="6"/>'
        yield _centred(middle, y + (33 if weights else 41), node.op_type)
        if weights:
            yield _centred(middle, y + 48, ", ".join(weights), "small")
        y += 54
    yield _arrow(middle, y + 2)
    yield _centred(middle, y + 28, str(result.name))


def _arrow(x: int, y: int) -> str:
    return f'<path class="arrow" d="M{x} {y}v12m-4 -5l4 5l4 -5"/>'


def _centred(x: int, y: int, content: str, style: str = "") -> str:
    return _text(x, y, content, style).replace("<text", '<text text-anchor="middle"', 1)


def _numbers(program: hlo2onnx.OnnxProgram, verification: hlo2onnx.Verification) -> Iterator[str]:
    report, x = program.report, NUMBERS + 16
    ops, nodes = sum(report.ops.values()), sum(report.nodes.values())
    lines = [("program.verify()", "")]
    for label, items in (("optimized", verification.optimized), ("plain", verification.plain)):
        for item in items:
            lines += [
                ("", ""),
                (f"ORT, {label} graph", "small"),
                (f"  max abs error  {item.max_abs:.2e}", ""),
                (f"  max rel error  {item.max_rel:.2e}", ""),
                (f"  {'ok' if item.ok else 'DIFFERS'}", "good" if item.ok else ""),
            ]
    lines += [("", ""), (f"{ops} StableHLO ops -> {nodes} nodes", "small")]
    for number, (line, style) in enumerate(lines):
        yield _text(x, TOP + LINE * number, line, style)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs.picture", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help=f"write {PICTURE.name}")
    options = parser.parse_args()
    program = translated()
    text = picture(program, program.verify())
    if options.write:
        PICTURE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()

"""The HTML report in headless Chromium: it draws, expands, finds and colours, at three sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as oir
import pytest
from browser import in_browser, screenshot

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.report import Report
from hlo2onnx.verify.page import save_page
from hlo2onnx.verify.program_page import program_page

pytestmark = pytest.mark.wide

EXAMPLES = Path(__file__).parents[2] / "examples" / "mlir"

LIMITS = {"mlp": 0.4e6, "vit": 1.5e6, "scopes": 5e6, "flat": 5e6}
"""Bytes of a report."""

CHECKS = """
const boxes = () => [...document.querySelectorAll("#view .box")];
const rectOf = (box) => box.querySelector(":scope > rect").getBoundingClientRect();
const overlaps = () => {
  const groups = new Map();
  for (const box of boxes()) {
    const list = groups.get(box.parentNode) || [];
    groups.set(box.parentNode, list.concat([[box.dataset.id, rectOf(box)]]));
  }
  const found = [];
  for (const list of groups.values()) {
    list.sort((one, two) => one[1].top - two[1].top);
    for (let i = 0; i < list.length; i += 1) {
      for (let j = i + 1; j < list.length && list[j][1].top < list[i][1].bottom - 0.01; j += 1) {
        const one = list[i][1], two = list[j][1];
        if (one.left < two.right - 0.01 && two.left < one.right - 0.01) {
          found.push([list[i][0], list[j][0]]);
        }
      }
    }
  }
  return found;
};
const tooWide = () => boxes().filter((box) => {
  const width = Number(box.querySelector(":scope > rect").getAttribute("width"));
  return [...box.querySelectorAll(":scope > text")].some((text) => {
    const { x, width: own } = text.getBBox();
    return x + own > width;
  });
}).length;
const wide = () => { // small letters are drawn with rounded widths
  const view = document.getElementById("view"), transform = view.getAttribute("transform");
  view.removeAttribute("transform");
  const count = tooWide();
  view.setAttribute("transform", transform);
  return count;
};
const state = () => ({ boxes: boxes().length, overlaps: overlaps(), wide: wide() });
const cut = () => { // the sides at which boxes in sight are cut off, and what the page says
  const frame = document.getElementById("canvas").getBoundingClientRect();
  const inSight = boxes().map(rectOf).filter(({ top }) => top < frame.bottom);
  const sides = Object.entries({
    left: ({ left }) => left < frame.left - 1,
    right: ({ right }) => right > frame.right + 1,
    above: ({ top }) => top < frame.top - 1,
    below: ({ bottom }) => bottom > frame.bottom + 1,
  }).filter(([, isCut]) => inSight.some(isCut)).map(([side]) => side);
  return [sides, document.getElementById("beyond").textContent];
};
const press = (id) => click(document.getElementById(id));
"""

USE = f"""{CHECKS}
const found = {{ first: state(), fills: {{}} }};
const closed = document.querySelector("#view .box.group:not(.open) .toggle");
if (closed) {{
  click(closed);
  found.toggled = state();
  click(document.querySelector("#view .box.picked .toggle"));
  found.again = state();
}}
const began = performance.now();
press("expand");
found.all = state();
found.milliseconds = performance.now() - began;
for (const mode of ["operator", "time", "error"]) {{
  const select = document.getElementById("colour");
  found.fills[mode] = null;
  if ([...select.options].find((each) => each.value === mode).disabled) continue;
  select.value = mode;
  select.dispatchEvent(new Event("change"));
  const rects = [...document.querySelectorAll("#view .box.node > rect")];
  found.fills[mode] = new Set(rects.map((each) => each.getAttribute("fill"))).size;
}}
const search = document.getElementById("search");
const labels = document.querySelectorAll("#view .box.node > text");
const names = [...labels].map((each) => each.textContent);
found.operator = names.includes("MatMul") ? "MatMul" : "Gemm";
search.value = found.operator.toLowerCase();
search.dispatchEvent(new Event("input"));
search.dispatchEvent(new KeyboardEvent("keydown", {{ key: "Enter" }}));
found.details = document.getElementById("details").innerText;
found.shown = document.getElementById("found").textContent;
press("collapse");
found.collapsed = state();
found.cut = [300, 700, 1300].flatMap((width) => {{
  document.getElementById("canvas").style.width = `${{width}}px`;
  return ["collapse", "fit"].map((button) => {{ press(button); return [button, ...cut()]; }});
}});
return found;
"""


@pytest.fixture(scope="module", params=LIMITS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name: str = request.param
    path = tmp_path_factory.mktemp("report") / f"{name}.html"
    if name in ("mlp", "vit"):
        program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
        errors = {str(value.name): 1e-6 for node in program.model.graph for value in node.outputs}
        program.save_report(
            path, verification=program.verify(), profile=program.profile(runs=3), errors=errors
        )
        return path
    model = large_model(has_scopes=name == "scopes")
    assert len(list(all_nodes(model.graph))) == 5000
    save_page(path, program_page(model, Report(source=name)))
    return path


def large_model(*, has_scopes: bool) -> oir.Model:
    """5,000 nodes: 50 layers with two modules each, or all in one function."""
    shape, dtype = oir.Shape([16, 16]), oir.DataType.FLOAT
    first = last = oir.val("x", dtype, shape)
    nodes = []
    for index, operator in zip(range(5000), operators(), strict=False):
        scope = f"net/layer_{index // 100}/{'mlp' if index % 100 > 60 else 'attention'}/"
        node = oir.node(operator, [last] if operator == "Tanh" else [last, nodes[-1].outputs[0]]
                        if nodes else [last, last])  # fmt: skip
        node.name = f"{scope if has_scopes else ''}{operator.lower()}_{index}"
        stack = f"net.py:{index} in block_{index % 7}\nnet.py:3 in net"
        node.metadata_props.update({"jax.source": f"net.py:{index}", "jax.stack": stack})
        if not has_scopes:
            node.metadata_props["jax.stack"] = "net.py:3 in net"
        node.outputs[0].name = node.name
        node.outputs[0].type, node.outputs[0].shape = oir.TensorType(dtype), shape
        nodes.append(node)
        last = node.outputs[0] if index % 3 else last
    graph = oir.Graph([first], [last], nodes=nodes, opset_imports={"": 23}, name="main")
    return oir.Model(graph, ir_version=10)


def operators() -> Iterator[str]:
    while True:
        yield from ("MatMul", "Add", "Tanh", "Mul")


@pytest.fixture(scope="module")
def used(report: Path) -> Any:
    return in_browser(report, USE)


def test_the_report_in_a_browser(report: Path, used: Any) -> None:
    assert report.stat().st_size < LIMITS[report.stem]
    found = used
    for name in ("first", "toggled", "again", "all", "collapsed"):
        if name in found:
            assert found[name]["overlaps"] == [], name
            assert found[name]["wide"] == 0, name
    assert 4 <= found["first"]["boxes"] <= 100
    if report.stem == "mlp":  # everything is open at first
        assert found["first"]["boxes"] == found["all"]["boxes"]
    else:
        assert found["toggled"]["boxes"] > found["first"]["boxes"] == found["again"]["boxes"]
        assert found["all"]["boxes"] > 2 * found["first"]["boxes"]
    assert found["collapsed"] == found["first"]
    assert found["all"]["boxes"] <= 1700 and found["milliseconds"] < 20000
    assert found["fills"]["operator"] >= 2
    if report.stem in ("mlp", "vit"):
        assert found["fills"]["time"] >= 2 and found["fills"]["error"] >= 2
    else:
        assert found["fills"]["time"] is None and found["fills"]["error"] is None


def test_the_first_view_begins_at_the_upper_left(used: Any) -> None:
    """What is cut off at the right and below is named; "Fit" cuts nothing off."""
    for button, sides, said in used["cut"]:
        assert not {"left", "above"} & set(sides)
        assert all(side in said for side in sides)
        assert button == "collapse" or (sides == [] and said == "")


def test_search_and_details(used: Any) -> None:
    assert used["shown"].startswith("1 of ")
    assert used["details"].startswith(used["operator"])
    for text in ("name", "type", "float32[", "source", "inputs", "read by"):
        assert text in used["details"], text


def test_the_picture_is_not_empty(report: Path, tmp_path: Path) -> None:
    screenshot(report, tmp_path / "report.png")
    content = (tmp_path / "report.png").read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 40_000


def test_tables_work_without_javascript(report: Path) -> None:
    """The graph says that it needs JavaScript; the rest of the page is plain HTML."""
    text = report.read_text(encoding="utf-8")
    plain = text[: text.index("<script")]
    assert "<noscript>" in plain and "Works" not in plain
    assert all(f'id="{name}"' in plain for name in ("summary", "translation", "nodes"))

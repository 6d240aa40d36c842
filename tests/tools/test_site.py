"""The parts of the site that are made of recorded figures, and the pictures of graphs."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
import hlo2onnx.runtime
from tools import ROOT
from tools.site.benchmarks import benchmarks, speeds, zoo
from tools.site.drawing import PICTURES, picture
from tools.site.gallery import gallery

DOCS = ROOT / "docs"
RESULTS = json.loads((DOCS / "zoo.json").read_text(encoding="utf-8"))


def test_the_gallery_has_every_program_with_its_picture() -> None:
    page = gallery()
    for name in RESULTS:
        assert page.count(f"images/zoo/{name}.svg") == 1
        assert (PICTURES / f"{name}.svg").exists()
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 1.5e6


def test_the_benchmarks_have_every_figure() -> None:
    text = (DOCS / "speed.md").read_text(encoding="utf-8")
    groups = speeds(text)
    assert len(groups) == 4
    sections = text.split("\n## ")
    newest = "\n## ".join(x for x in sections if "jaxlib 0.10" not in x.partition("\n")[0])
    assert sum(map(len, groups.values())) == len(re.findall(r"e[+-]\d\d \|$", newest, re.M))
    assert len(zoo()) == sum(bool(item["xla"]) for item in RESULTS.values())
    page = benchmarks()
    for name, ratio in {**zoo(), **{k: v for x in groups.values() for k, v in x.items()}}.items():
        assert f"{name}</th><td>{ratio:.2f}</td>" in page
    assert page.count('class="loss"') + page.count('class="win"') == page.count("<tr>")


def test_a_picture_has_a_dot_for_each_node() -> None:
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda i, x: jnp.sin(x) @ x * i, x).sum()

    program = hlo2onnx.translate(loop, np.ones((4, 4), np.float32))
    assert picture(program.model.graph).count("h0") == program.report.nodes.total()


def test_a_graph_without_nodes_has_a_picture() -> None:
    program = hlo2onnx.translate(lambda x: x, np.ones(3, np.float32))
    assert picture(program.model.graph).startswith("<svg")


def test_the_reference_has_every_public_name() -> None:
    page = (DOCS / "api" / "hlo2onnx.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: hlo2onnx\.(\w+)$", page, re.M))
    assert named == set(hlo2onnx.__all__) - {"__version__"}
    page = (DOCS / "api" / "runtime.md").read_text(encoding="utf-8")
    assert set(hlo2onnx.runtime.__all__) <= set(re.findall(r"\w+", page))

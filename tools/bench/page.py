"""docs/speed.md: a section for each version of jaxlib that was measured."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path

from tools.bench.timing import THREADS

HEAD = """\
# Speed

Written by `python -m tools.bench --table --twins DIR --peer PYTHON --write`; do not edit. Medians
of one run for each jaxlib.

* *ours*: the model of hlo2onnx in ONNX Runtime.
* *twin*: the same architecture written in PyTorch (`tools/twins`), exported by torch.onnx and run
  in the same ONNX Runtime.
* *peer*: the model that jax2onnx makes of the same JAX function.
* *XLA*: its CPU backend. Its times vary by tens of percent from run to run, and by factors from
  version to version. For dense programs the ratio to the twin is the one to look at.
* *limit*: the ratio that the project wants to keep. The limits for XLA were set with jaxlib 0.10.
"""

_SECTION = re.compile(r"^## jaxlib (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write_section(page: Path, rows: str) -> None:
    """Writes the table into the section of the installed jaxlib; other sections stay.

    Args:
        rows: The table, in Markdown.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {name: text.strip() for name, text in _SECTION.findall(old)}
    runtime = f"{os.cpu_count()} cores, {THREADS} threads, onnxruntime {version('onnxruntime')}"
    sections[version("jaxlib")] = f"{runtime}:\n\n{rows.strip()}"
    in_order = sorted(sections, key=lambda name: [int(part) for part in name.split(".")])
    parts = [HEAD, *(f"## jaxlib {name}\n\n{sections[name]}\n" for name in in_order)]
    page.write_text("\n".join(parts), encoding="utf-8")

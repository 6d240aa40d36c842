"""docs/speed.md: a section for each version of jaxlib that was measured, and for each group."""

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


_JAXLIB = "jaxlib "
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write_section(page: Path, rows: str) -> None:
    """Writes the table into the section of the installed jaxlib; other sections stay.

    Args:
        rows: The table, in Markdown.
    """
    _write(page, f"{_JAXLIB}{version('jaxlib')}", rows)


def write_group(page: Path, group: str, text: str) -> None:
    """Writes the table of a group of small programs; other sections stay."""
    command = f"`python -m tools.bench.groups {group} --write`, jaxlib {version('jaxlib')}, "
    _write(page, group.replace("_", " ").capitalize(), text, command)


def write_growth(page: Path, text: str) -> None:
    """Writes the section about growth; other sections stay."""
    command = f"`python -m tools.bench.growth --write`, jaxlib {version('jaxlib')}, "
    _write(page, "How cost grows", text, command)


def _write(page: Path, title: str, text: str, command: str = "") -> None:
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {name: body.strip() for name, body in _SECTION.findall(old)}
    runtime = f"{os.cpu_count()} cores, {THREADS} threads, onnxruntime {version('onnxruntime')}"
    sections[title] = f"{command}{runtime}:\n\n{text.strip()}"
    in_order = sorted(sections, key=_rank)
    parts = [HEAD, *(f"## {name}\n\n{sections[name]}\n" for name in in_order)]
    page.write_text("\n".join(parts), encoding="utf-8")


def _rank(title: str) -> tuple[bool, list[int], str]:
    """Versions of jaxlib in order, then the groups."""
    is_version = title.startswith(_JAXLIB)
    numbers = [int(part) for part in title.removeprefix(_JAXLIB).split(".")] if is_version else []
    return not is_version, numbers, title

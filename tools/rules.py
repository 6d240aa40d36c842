"""Writes docs/rules.md: the rewrite rules with what they do and when that is legal.

python tools/rules.py            print the page
python tools/rules.py --write    write it
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.match.activations import ACTIVATIONS
from hlo2onnx.raising.rules import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rules.md"

HEAD = """\
# Rewrite rules

The rewrite rules turn plain ONNX into idiomatic ONNX. This page lists them in the order in which
they are tried on a node. Users switch a rule off by its name:
`translate(..., without=["softmax"])` or `hlo2onnx --no-raise softmax`. Former names stay valid.
`program.report.rules` counts how often each rule fired; `program.explain("softmax")` or
`hlo2onnx --explain softmax` says why a rule did not fire. `tools/rules.py` writes this page.
"""


def section(rule: Rule) -> str:
    """The name of a rule, its first line as code, its condition, and its former names."""
    text = inspect.getdoc(type(rule)) or ""
    first, _, rest = text.partition("\n\n")
    condition = f"\n\n{rest}" if rest else ""
    names = ", ".join(f"`{name}`" for name in rule.formerly)
    former = f"\n\nFormerly {names}." if names else ""
    return f"### {rule.name}\n\n```\n{first}\n```{condition}{former}\n"


def page() -> str:
    """The whole page."""
    operators = ", ".join(dict.fromkeys(activation.op_type for activation in ACTIVATIONS))
    parts = [HEAD, f"The activation functions of rule `activations`: {operators}.\n"]
    files: dict[str, list[Rule]] = {}
    for rule in RULES:
        files.setdefault(type(rule).__module__, []).append(rule)
    for name, rules in files.items():
        title = (inspect.getdoc(sys.modules[name]) or "").partition("\n")[0]
        parts.append(f"## {title.rstrip('.')}\n")
        parts += map(section, rules)
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())

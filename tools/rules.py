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

What makes idiomatic ONNX of plain ONNX, in the order in which the rules are tried on a node. Each
can be switched off by its name: `translate(..., without=["softmax"])` or
`hlo2onnx --no-raise softmax`. `program.report.rules` says how often each one fired. Written by
`tools/rules.py`.
"""


def section(rule: Rule) -> str:
    """The name of a rule, its first line as code, and its condition."""
    text = inspect.getdoc(type(rule)) or ""
    first, _, rest = text.partition("\n\n")
    condition = f"\n\n{rest}" if rest else ""
    return f"### {rule.name}\n\n```\n{first}\n```{condition}\n"


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

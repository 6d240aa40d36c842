"""The page docs/rules.md, rendered from the rules and from the record."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.match.activations import ACTIVATIONS
from hlo2onnx.raising.rules import RULES
from tools import ROOT
from tools.rules.measure import OTHER_OPTIONS
from tools.rules.record import LEAST_PERCENT, Collection, Witness, load, matters

PAGE = ROOT / "docs" / "rules.md"

HEAD = """\
# Rewrite rules

The rewrite rules turn plain ONNX into idiomatic ONNX. This page lists them in the order in which
they are tried on a node. Users switch a rule off by its name:
`translate(..., without=["softmax"])` or `hlo2onnx --no-raise softmax`. Former names stay valid.
`program.report.rules` counts how often each rule fired; `program.explain("softmax")` or
`hlo2onnx --explain softmax` says why a rule did not fire.

The witness of a rule is the program in which it saves most nodes: the model has so many more when
the rule is switched off. If a rule saves no nodes, node runs decide: a call runs the nodes of a
loop's body once a trip. Then the nodes count that ONNX Runtime has after its own fusions, then
time, then the results that equal XLA's bit for bit. The programs are those of `examples/mlir` and
`tests/producers` and, for rules that save nothing there, of the [zoo](zoo.md). Their counts are in
[rules.json](rules.json). `tools.rules` writes this page.
"""


def page() -> str:
    """The whole page."""
    record = load()
    operators = ", ".join(dict.fromkeys(activation.op_type for activation in ACTIVATIONS))
    parts = [HEAD, f"The activation functions of rule `activations`: {operators}.\n"]
    files: dict[str, list[Rule]] = {}
    for rule in RULES:
        files.setdefault(type(rule).__module__, []).append(rule)
    for name, rules in files.items():
        title = (inspect.getdoc(sys.modules[name]) or "").partition("\n")[0]
        parts.append(f"## {title.rstrip('.')}\n")
        parts += [section(rule, record) for rule in rules]
    return "\n".join(parts)


def section(rule: Rule, record: Mapping[str, Collection]) -> str:
    """The name of a rule, its first line as code, its condition, its former names, and its
    witness."""
    first, _, rest = rule.doc.partition("\n\n")
    parts = [f"### {rule.name}", f"```\n{first}\n```", rest]
    if rule.formerly:
        parts.append(f"Formerly {', '.join(f'`{name}`' for name in rule.formerly)}.")
    parts.append(f"{_fires(rule.name, record)} {_saves(rule.name, witness_of(rule.name, record))}")
    return "\n\n".join(filter(None, parts)) + "\n"


def witness_of(rule: str, record: Mapping[str, Collection]) -> tuple[str, Witness] | None:
    """The collection and the program in which a rule saves most: an example, if one matters."""
    found = [
        (name, item.witnesses[rule]) for name, item in record.items() if rule in item.witnesses
    ]
    return next((item for item in found if matters(item[1])), found[0] if found else None)


def _fires(rule: str, record: Mapping[str, Collection]) -> str:
    counts = []
    for name, what in (("examples", "examples"), ("zoo", "programs of the zoo")):
        fired = record[name].fired
        if fired:
            counts.append(f"{sum(rule in item for item in fired.values())} of {len(fired)} {what}")
    return f"Fires in {' and '.join(counts)}." if counts else ""


def _saves(rule: str, found: tuple[str, Witness] | None) -> str:
    if found is None:
        return "No witness."
    collection, witness = found
    where = f"`{witness.program}`" + " of the zoo" * (collection == "zoo")
    if not matters(witness):
        return "No witness: it saves nothing where it fires."
    counts = [(witness.nodes, "node")]
    if not witness.nodes:
        counts.append((witness.kernels, "node after ONNX Runtime's fusions"))
    if witness.runs != witness.nodes:
        counts.insert(1, (witness.runs, "node run"))
    saved = [_count(number, what) for number, what in counts if number > 0]
    if witness.percent >= LEAST_PERCENT:
        saved.append(f"{witness.percent} % of the time")
    costs = " and ".join(_count(-number, what) for number, what in counts if number < 0)
    verdict = f"saves {' and '.join(saved)}"
    if not saved:
        verdict = f"makes {_count(witness.exact, 'more result')} equal to XLA's"
    options = [f"`{name}={item!r}`" for name, item in OTHER_OPTIONS.get(rule, {}).items()]
    return (
        f"Witness: {where}, where it {verdict}{f' and costs {costs}' if costs else ''}"
        f"{f' with {options[0]}' if options else ''}."
    )


def _count(number: int, what: str) -> str:
    noun, _, rest = what.partition(" after ")
    return f"{number:,} {noun}{'s' * (number != 1)}{f' after {rest}' if rest else ''}"

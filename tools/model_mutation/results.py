"""The results of mutants, and docs/verification_score.md."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

DISTINGUISHABLE = ("caught", "survived")
COLUMNS = ("caught", "survived", "alike", "invalid")


@dataclass
class Result:
    """What was found about a mutant.

    Attributes:
        status: "caught" by `verify`. "survived": it passes, and another input shows the difference.
            "alike": no input shows a difference that `verify` does not call rounding. "invalid":
            ONNX Runtime does not load the model, or a run does not end.
        inputs: The input that shows the difference: kind of numbers, and small arrays.
        excess: The largest difference beyond the tolerance, relative to the output's scale.
    """

    model: str
    operator: str
    status: str
    graph: str = ""
    node: str = ""
    op: str = ""
    source: str = ""
    detail: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    excess: float = 0.0


def share(results: Iterable[Result]) -> float:
    """The caught ones of those that are distinguishable, in percent."""
    counts = Counter(result.status for result in results)
    total = sum(counts[status] for status in DISTINGUISHABLE)
    return 100 * counts["caught"] / total if total else 100.0


def table(results: Sequence[Result], key: str, title: str) -> str:
    """Counts by status, as Markdown.

    Args:
        key: The attribute of a result that groups them.
    """
    head = f"| {title} | share | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (len(COLUMNS) + 1)}\n"
    groups = sorted({getattr(result, key) for result in results})
    rows = [(group, [r for r in results if getattr(r, key) == group]) for group in groups]
    return head + "".join(_row(name, members) for name, members in [*rows, ("all", results)])


def _row(name: str, members: Sequence[Result]) -> str:
    counts = Counter(result.status for result in members)
    distinguishable = any(counts[status] for status in DISTINGUISHABLE)
    shown = f"{share(members):.1f} %" if distinguishable else ""
    return f"| {name} | {shown} | {' | '.join(str(counts[item]) for item in COLUMNS)} |\n"


def described(result: Result) -> str:
    """A survivor, with the input that distinguishes it."""
    where = f"{result.graph}/{result.node}" if result.graph else result.node
    lines = [f"{result.model}: {result.operator}: {result.op} {where} ({result.source})"]
    lines += [f"    {result.detail}; differs by {result.excess:.1e} of the scale"]
    lines += [f"    {name} = {text}" for name, text in result.inputs.items()]
    return "\n".join(lines)


def page(results: Sequence[Result], given: argparse.Namespace) -> str:
    """The page below its prose."""
    distinguishable = [r for r in results if r.status in DISTINGUISHABLE]
    text = f"`python -m tools.model_mutation --count {given.count} --seed {given.seed} --write`,\n"
    text += f"onnxruntime {version('onnxruntime')}, jaxlib {version('jaxlib')}:\n\n"
    text += f"`verify()` catches {share(results):.1f} % of {len(distinguishable)} distinguishable"
    text += f" mutants of {len({result.model for result in results})} programs.\n\n"
    text += "## By operator of mutation\n\n" + table(results, "operator", "operator")
    text += "\n## By program\n\n" + table(results, "model", "program")
    survivors = [described(result) for result in results if result.status == "survived"]
    if survivors:
        text += "\n## Survivors\n\n```text\n" + "\n".join(survivors) + "\n```\n"
    return text

"""docs/verification_score.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version

from tools import ROOT
from tools import write_page as write_text
from tools.model_mutation.results import described, share, table
from tools.model_mutation.trial import Result

PAGE = ROOT / "docs" / "verification_score.md"
HEAD = """\
`python -m tools.model_mutation --count {count} --seed {seed} --write`,
onnxruntime {onnxruntime}, jaxlib {jaxlib}:

`verify()` catches {share:.1f} % of {distinguishable} distinguishable mutants of {models} programs.

"""


def page(results: Sequence[Result], given: argparse.Namespace) -> str:
    """The page as Markdown."""
    distinguishable = [r for r in results if r.status in ("caught", "survived")]
    head = HEAD.format(
        count=given.count,
        seed=given.seed,
        onnxruntime=version("onnxruntime"),
        jaxlib=version("jaxlib"),
        share=share(results),
        distinguishable=len(distinguishable),
        models=len({result.model for result in results}),
    )
    text = head + "## By operator of mutation\n\n" + table(results, _operator, "operator")
    text += "\n## By program\n\n" + table(results, _model, "program")
    survivors = [described(result) for result in results if result.status == "survived"]
    if survivors:
        text += "\n## Survivors\n\n```text\n" + "\n".join(survivors) + "\n```\n"
    return text


def write_page(results: Sequence[Result], given: argparse.Namespace) -> None:
    """Writes the page."""
    write_text(PAGE, page(results, given))


def _operator(result: Result) -> str:
    return result.operator


def _model(result: Result) -> str:
    return result.model

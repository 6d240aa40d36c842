"""docs/verification_score.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from textwrap import fill

from tools import ROOT
from tools.model_mutation.planted import FAULTS
from tools.model_mutation.results import described, share, table
from tools.model_mutation.trial import Result

PAGE = ROOT / "docs" / "verification_score.md"
WIDTH = 99
"""Columns of the text."""
HEAD = """\
# What `verify()` catches

Written by `python -m tools.model_mutation --count {count} --seed {seed} --write`; do not edit.

The tool makes single changes in translated models: a constant changed, operands swapped, an
attribute flipped, a guard bypassed, an operand rewired, a comparison, a branch or a loop changed.
Then it verifies each changed model. Measured with onnxruntime {onnxruntime} and jaxlib {jaxlib}.

`verify()` catches {share:.1f} % of {distinguishable} distinguishable mutants of {models} programs.

* *Caught*: `verify()` says that the model differs, or that it does not run.
* *Survived*: `verify()` passes, and an input of a large adversarial search shows the difference:
  `verify(*input)` says that the mutant differs and that the unchanged model is right.
* *Rounding*: some results are beyond the tolerance, and `verify(*input)` accepts them as rounding.
  They are as near to the results in f64 as XLA's own, or XLA's results move as much if the inputs
  change in the last place.
* *Within tolerance*: all results of the search are within the tolerance of `verify()`.
* *Equivalent*: all results of the search are identical.
* *Invalid*: ONNX Runtime does not load the changed model, or a run does not end.
* *Share*: the caught ones among those that are caught or survived.

`tests/verify/test_planted_faults.py` plants {planted} named faults in models of small
programs. `verify()` has to find each:
{faults}.

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
        planted=len(FAULTS),
        faults=fill(", ".join(fault.name for fault in FAULTS), WIDTH),
    )
    text = head + "## By operator of mutation\n\n" + table(results, _operator, "operator")
    text += "\n## By program\n\n" + table(results, _model, "program")
    survivors = [described(result) for result in results if result.status == "survived"]
    if survivors:
        text += "\n## Survivors\n\n```text\n" + "\n".join(survivors) + "\n```\n"
    return text


def write_page(results: Sequence[Result], given: argparse.Namespace) -> None:
    """Writes the page."""
    PAGE.write_text(page(results, given), encoding="utf-8")


def _operator(result: Result) -> str:
    return result.operator


def _model(result: Result) -> str:
    return result.model

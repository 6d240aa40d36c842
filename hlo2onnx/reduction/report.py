"""The report of a reduction: Markdown that can be pasted into an issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hlo2onnx.reduction.outcome import TITLES, Outcome, Run
from hlo2onnx.report import versions

SHOWN_ELEMENTS = 24
"""Arrays of more elements are shortened."""

SHOWN_TEXT = 30_000
"""Characters of the program. GitHub takes 65,536 in an issue."""

SHOWN_MESSAGE = 6_000


def markdown(
    text: str,
    failure: Outcome,
    run: Run | None,
    ops: tuple[int, int],
    steps: Mapping[str, int],
    options: Sequence[str],
) -> str:
    """The report.

    Args:
        text: The reduced program.
        failure: How it fails.
        run: Inputs and results; None where the program is not run.
        ops: Counts of ops before and after.
        steps: How often each transformation was applied.
        options: Options of the translation that are not the default.
    """
    parts = [
        f"# {_title(failure)}",
        f"Reduced from {ops[0]:,} ops to {ops[1]:,} by `hlo2onnx --reduce`.",
        "## Program",
        _fenced(_shortened(text.strip(), SHOWN_TEXT), "mlir"),
        "## Failure",
        _fenced(_shortened(failure.message or str(failure), SHOWN_MESSAGE)),
    ]
    if options:
        parts.append(f"Options: {', '.join(f'`{option}`' for option in options)}.")
    if run is not None:
        parts += _run(run)
    parts += [
        "## Versions",
        "| package | version |\n| --- | --- |\n"
        + "\n".join(f"| {name} | {version} |" for name, version in versions().items()),
        "## Reduction",
        "\n".join(f"* {name}: {count}" for name, count in steps.items())
        or "No step made the program smaller.",
    ]
    return "\n\n".join(parts) + "\n"


def _title(failure: Outcome) -> str:
    cause = f": {failure.causes[0]}" if failure.causes else ""
    return f"{TITLES[failure.kind].capitalize()}{cause}"


def _run(run: Run) -> list[str]:
    parts = ["## Inputs", _arrays(run.inputs) if run.inputs else "The program has no inputs."]
    if run.expected:
        parts += ["## Outputs of XLA", _arrays(run.expected)]
    if run.actual is not None:
        names = [name for name, _ in run.expected]
        pairs = list(zip(names, run.actual, strict=True)) if len(names) == len(run.actual) else []
        parts += ["## Outputs of the model", _arrays(pairs)]
    if run.verification:
        parts += ["## Comparison", _fenced(run.verification)]
    return parts


def _arrays(arrays: Sequence[tuple[str, np.ndarray]]) -> str:
    return _fenced("\n".join(f"{name} = {_array(array)}" for name, array in arrays))


def _array(array: np.ndarray) -> str:
    head = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    with np.printoptions(threshold=SHOWN_ELEMENTS, edgeitems=3, precision=9):
        text = str(array).replace("\n", "\n  ")
    return f"{head} {text}"


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-most // 2 :]}"

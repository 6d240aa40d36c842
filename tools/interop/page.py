"""docs/interoperability.md: which tool works with which example."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from tools.interop.checks import NEXT_OPSET, TOOLS
from tools.interop.known import REASONS, reason_of

Results = Mapping[str, Mapping[str, str]]
"""The problem of each tool with each program; an empty text if it has none."""

HEAD = f"""\
# Tools of other projects

Written by `python -m tools.interop --write`; do not edit.

Each tool is applied to each example of `examples/mlir`. The result must load in ONNX Runtime, and
must compute the same:

* `onnx.utils.extract_model` extracts the model between all of its inputs and outputs. The result
  gives the same bits.
* `onnx.compose` puts a prefix before the names of two copies (`add_prefix`) and merges them
  (`merge_models`): an output of the first is an input of the second, if one fits. Same bits.
* `onnx.version_converter` converts models of older opsets to {NEXT_OPSET}. Same bits.
* `onnx.reference`, onnxslim and onnxsim may round in another way: up to 0.1 % of the largest
  element.
* The conversions to float16 (with `keep_io_types=True`) and the dynamic quantization promise no
  numbers. Their results must run.

Constants that bodies of loops and branches read are in these bodies, since some of the tools do not
look for them outside: constants of fewer than 4 KB in each body, larger ones only if no other graph
reads them. No large weight is stored twice.

`onnx.compose.merge_models` refuses two models with different values of one metadata property. Save
models with different states (`hlo2onnx.states`) with `strip=True` before.

"""


def page(results: Results) -> str:
    """The page as Markdown."""
    names = list(TOOLS)
    text = HEAD + "| tool | version | pass | fail |\n| --- | --- | --- | --- |\n"
    for tool in names:
        found = [result[tool] for result in results.values()]
        failed = sum(map(bool, found))
        cells = [f"`{tool}`", _version(tool), f"{len(found) - failed} of {len(found)}"]
        text += f"| {' | '.join([*cells, str(failed or '')])} |\n"
    text += "\n## Failures\n\nEach has a small model in `tools/interop/known.py`, written by hand,"
    text += " that the tool fails on in the same way.\n\n"
    text += "| tool | reason | examples |\n| --- | --- | --- |\n"
    for (tool, reason), programs in _failures(results).items():
        why = REASONS[reason].text if reason else "unknown"
        text += f"| `{tool}` | {why} | {', '.join(programs)} |\n"
    return text


def _failures(results: Results) -> dict[tuple[str, str], list[str]]:
    """The programs by tool and reason, also of reasons that no example meets."""
    found: dict[tuple[str, str], list[str]] = {
        (tool, name): []
        for tool in TOOLS
        for name, reason in REASONS.items()
        if tool in reason.tools
    }
    for program, result in results.items():
        for tool, problem in result.items():
            if problem:
                found.setdefault((tool, reason_of(tool, program, problem)), []).append(program)
    return found


def _version(tool: str) -> str:
    try:
        return version(TOOLS[tool].package)
    except PackageNotFoundError:
        return ""

"""docs/portability.md: which example runs right in which runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tools.portability.harnesses import FAILED, VERDICTS, Found
from tools.portability.run import INEXACT, REFUSED, RIGHT, WRONG, Result

Results = Mapping[str, Mapping[str, Result]]
"""By runtime and program."""

HEAD = """\
# Portability

Written by `python -m tools.portability --write`; do not edit.

Each example of `examples/mlir` is translated for the target of a runtime (see
`hlo2onnx --targets`), runs in that runtime on random inputs, and is compared with XLA on the CPU,
as `program.verify()` does it:

* **right**: every output is within the tolerances of `verify`, with and without graph optimization
  where the runtime can be told to.
* **inexact**: floats are off by more than that, and by less than a thousandth of the largest.
* **wrong**: an output is off by more, and the runtime gives no error.
* **refused**: the translation lists operators that the target has no right kernel for, or the
  runtime gives an error.

`ort-cpu` is ONNX Runtime on the CPU, `ort-web` is onnxruntime-web (WebAssembly) in Node,
`ort-webgpu` is onnxruntime-web on WebGPU in headless Chromium with a software adapter
(SwiftShader), and `reference` is `onnx.reference`.

"""
_VERDICTS = (RIGHT, INEXACT, WRONG, REFUSED)
_SHORT = {RIGHT: "right", INEXACT: "inexact", WRONG: "**wrong**", REFUSED: "refused"}


HARNESSES = """\
JAX's own tests of its operations, every third case of each group:
`python -m tools.portability.harnesses`. Refused cases are those for which the translation names an
operator that the target has no right kernel for. A case fails if the runtime gives an error or does
not answer.

"""


def page(results: Results, harnesses: Sequence[Found] = ()) -> str:
    """The page as Markdown, with a section about the harnesses if there are any."""
    runtimes = list(results)
    lines = [f"| | {' | '.join(_VERDICTS)} | opsets |", "| --- | --- | --- | --- | --- | --- |"]
    for runtime, done in results.items():
        counts = [sum(r.verdict == v for r in done.values()) for v in _VERDICTS]
        opsets = sorted({r.opset for r in done.values() if r.opset})
        cells = [f"`{runtime}`", *map(str, counts), ", ".join(map(str, opsets))]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Examples", ""]
    lines += [f"| example | {' | '.join(f'`{name}`' for name in runtimes)} |"]
    lines += [f"| --- |{' --- |' * len(runtimes)}"]
    for program in sorted({name for done in results.values() for name in done}):
        found = [results[runtime].get(program) for runtime in runtimes]
        cells = ["" if r is None else _SHORT[r.verdict] for r in found]
        lines.append(f"| {program} | {' | '.join(cells)} |")
    lines += ["", "## What is not right", "", "| runtime | example | why |", "| --- | --- | --- |"]
    for runtime, done in results.items():
        for program, result in sorted(done.items()):
            if result.verdict != RIGHT:
                why = _in_a_cell(result.why)
                lines.append(f"| `{runtime}` | {program} | {result.verdict}: {why} |")
    return HEAD + "\n".join(lines) + "\n" + (_about_harnesses(harnesses) if harnesses else "")


def _about_harnesses(found: Sequence[Found]) -> str:
    lines = [f"| | {' | '.join(VERDICTS)} |", f"| --- |{' --- |' * len(VERDICTS)}"]
    for runtime in dict.fromkeys(item.runtime for item in found):
        counts = Counter(item.verdict for item in found if item.runtime == runtime)
        lines.append(f"| `{runtime}` | {' | '.join(str(counts[v]) for v in VERDICTS)} |")
    bad = [item for item in found if item.verdict in (WRONG, FAILED)]
    groups = Counter((item.runtime, item.group, item.verdict) for item in bad)
    if groups:
        lines += ["", "| runtime | group | cases | for example |", "| --- | --- | --- | --- |"]
    for (runtime, group, verdict), count in sorted(groups.items()):
        whys = [i.why for i in bad if (i.runtime, i.group, i.verdict) == (runtime, group, verdict)]
        why = _in_a_cell(whys[0][:120])
        lines.append(f"| `{runtime}` | {group} | {count} {verdict} | {why} |")
    return f"\n## JAX's harnesses\n\n{HARNESSES}" + "\n".join(lines) + "\n"


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

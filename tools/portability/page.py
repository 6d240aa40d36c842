"""docs/portability.md: which example runs right in which runtime."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import ROOT
from tools.conformance.known import read_known, side_of
from tools.conformance.outcome import Outcome
from tools.portability.run import INEXACT, REFUSED, RIGHT, WRONG, Result

Results = Mapping[str, Mapping[str, Result]]
"""By runtime and program."""

KNOWN = ROOT / "tests" / "conformance" / "known_failures.txt"
FAILED = "failed"
VERDICTS = (RIGHT, REFUSED, FAILED, WRONG)
"""Of a harness. One that the translation refuses names the operator; one that fails has an error of
the runtime, or of hlo2onnx."""
_VERDICTS = (RIGHT, INEXACT, WRONG, REFUSED)
_SHORT = {RIGHT: "right", INEXACT: "inexact", WRONG: "**wrong**", REFUSED: "refused"}


def page(results: Results, harnesses: Sequence[Path] = ()) -> str:
    """The page as Markdown, with a section about JAX's harnesses if there are results of
    `tools.conformance --json`, a file for each runtime."""
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
    return "\n".join(lines) + "\n" + (_about_harnesses(harnesses) if harnesses else "")


def recorded(text: str) -> dict[str, dict[str, Result]]:
    """The results that a page has. Of the opsets of a runtime it has only the set: the examples
    share them."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    opsets = {row[0]: row[5] for row in rows if len(row) == 6 and row[1].isdigit()}
    whys = {(row[0], row[1]): row[2].partition(": ")[2] for row in rows if len(row) == 3}
    verdicts = {short: verdict for verdict, short in _SHORT.items()}
    names = next(row for row in rows if row[0] == "example")[1:]
    found: dict[str, dict[str, Result]] = {}
    for name, of_name in ((name.strip("`"), name) for name in names):
        numbers = [int(n) for n in opsets[of_name].split(", ")]
        done = found.setdefault(name, {})
        for row in (row for row in rows if len(row) == len(names) + 1 and row[1] in verdicts):
            why = whys.get((of_name, row[0]), "").replace("&lt;", "<").replace("\\|", "|")
            opset = numbers[len(done) % len(numbers)]
            done[row[0]] = Result(verdicts[row[1 + names.index(of_name)]], why, opset)
    return found


def _about_harnesses(paths: Sequence[Path]) -> str:
    lines = [f"| | {' | '.join(VERDICTS)} |", f"| --- |{' --- |' * len(VERDICTS)}"]
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for path in paths:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = read_known(KNOWN, side_of(found["jax"]))
        counts: Counter[str] = Counter()
        for case in found["cases"]:
            outcome = Outcome(case["name"], case["status"], case["reason"])
            if outcome.counts and outcome.status != "jax-error":
                verdict = verdict_of(outcome, known)
                counts[verdict] += 1
                groups[found["runtime"], case["group"], verdict].append(outcome.line)
        lines.append(f"| `{found['runtime']}` | {' | '.join(str(counts[v]) for v in VERDICTS)} |")
    lines += ["", "| runtime | group | cases | for example |", "| --- | --- | --- | --- |"]
    for (runtime, group, verdict), whys in sorted(groups.items()):
        if verdict in (WRONG, FAILED):
            why = _in_a_cell(whys[0][:120])
            lines.append(f"| `{runtime}` | {group} | {len(whys)} {verdict} | {why} |")
    return "\n## JAX's harnesses\n\n" + "\n".join(lines) + "\n"


def verdict_of(outcome: Outcome, known: Mapping[str, str]) -> str:
    """What an outcome says about a runtime.

    Args:
        known: Cases that the program does not decide, with the reasons.
    """
    if outcome.status == "mismatch" and outcome.name in known:
        return RIGHT
    return {"pass": RIGHT, "refused": REFUSED, "mismatch": WRONG}.get(outcome.status, FAILED)


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

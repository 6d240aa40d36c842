"""Measures which fusions ONNX Runtime makes when it loads a model, and which change the numbers.

    python -m tools.probe.fusions            print the page
    python -m tools.probe.fusions --write    write docs/runtime_fusions.md

Each graph of `fusion_trials` runs with all optimizations and with all but one. The remaining
operators show whether the fusion was made. It is harmful if a number is finite or not 0 in only one
of the results, or if they differ by more than 1e-5 of the largest number (f64: 1e-12, integers: at
all). `tools.probe` writes the harmful fusions into the target's table as `harmful_fusions`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from tools import ROOT
from tools.probe.fusion_trials import EXEMPT, TRIALS, Trial

PAGE = ROOT / "docs" / "runtime_fusions.md"

NOT_MADE = "not made"
SAME = "same numbers"
DIGITS = "loses digits"
RANGE = "leaves the range"
REFUSED = "does not load"
_SEVERITY = (NOT_MADE, SAME, DIGITS, RANGE, REFUSED)

_LEVELS = ("", "L1", "L2", "_CPUExecutionProvider")
"""What the runtime adds to the names of those that it tries at several levels."""

ANSWERS: Mapping[str, str] = {
    "ConvMulFusion": "Swaps the operands of the Mul if a weight or bias would not stay a normal"
    " number or would lose digits: ORT expects the constant in second place.",
    "ConvAddFusion": "Swaps the operands if the sum of the biases is not finite.",
    "ConvBNFusion": "Under the condition of ConvMulFusion, writes the BatchNormalization as"
    " (x - m) * s + b.",
    "MatMul_BatchNormalization_Fusion": "The same as for ConvBNFusion.",
    "MatMulScaleFusion": "Writes the factor as a row if it is far from 1 (2^24), or if it is an f64"
    " that is no power of two.",
    "DivMulFusion": "Writes 1 / x of integers as (x == 1) - (x == -1) if a Mul reads it.",
    "Pad_Fusion": "Names the axes of a Pad before a MaxPool: ORT leaves such a Pad alone.",
    "QDQSelectorActionTransformer": "Dequantizes weights of float products by Cast and Mul.",
    "SkipLayerNormFusion": "Nothing. The fused sums lose digits if the mean of a row is many times"
    " its deviation, and no constant shows that. For rows around 0 both are equally exact.",
    "DoubleQDQPairsRemover": "Nothing. The result is off by less than one step of either scale.",
    "WeightBiasQuantization": "Adds a bias in a node of its own if it is at least 2^31 times the"
    " product of both scales.",
}
"""What hlo2onnx does about the harmful ones."""


@dataclass(frozen=True)
class Verdict:
    """What a fusion does to a graph.

    Attributes:
        kind: One of those above.
        difference: The largest difference, relative to the largest number.
    """

    kind: str
    difference: float = 0.0


def judge(trial: Trial) -> Verdict:
    """Run a trial with and without the fusion."""
    apart, nodes = run(trial, [trial.fusion + level for level in _LEVELS])
    try:
        fused, fused_nodes = run(trial, [])
    except Exception:  # noqa: BLE001  (that the runtime refuses is the result)
        return Verdict(REFUSED)
    if nodes == fused_nodes:
        return Verdict(NOT_MADE)
    if fused.dtype.kind != "f":
        return Verdict(SAME if np.array_equal(fused, apart) else RANGE)
    gone = np.isfinite(apart) & (~np.isfinite(fused) | ((fused == 0) & (apart != 0)))
    if gone.any():
        return Verdict(RANGE)
    finite = np.isfinite(apart)
    size = np.abs(apart[finite].astype(np.float64)).max(initial=np.finfo(np.float64).tiny)
    with np.errstate(all="ignore"):
        errors = np.abs(fused[finite].astype(np.float64) - apart[finite]) / size
    worst = float(errors.max(initial=0))
    limit = 1e-12 if apart.dtype == np.float64 else 1e-5
    return Verdict(DIGITS if worst > limit else SAME, worst)


def run(trial: Trial, disabled: list[str]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The result of a trial without some fusions, and the operators that are left."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        session = ort.InferenceSession(
            model_of(trial).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=disabled,
        )
        optimized = onnx.load(options.optimized_model_filepath)
    (result,) = session.run(None, dict(trial.inputs))
    return np.asarray(result), [node.op_type for node in optimized.graph.node]


def model_of(trial: Trial) -> onnx.ModelProto:
    """The model of a trial. A Neg stands behind, as some fusions spare outputs."""
    graph = onnx.parser.parse_graph("trial () => () {" + trial.nodes + "}")
    last = graph.node[-1].output[-1]
    graph.node.append(helper.make_node("Neg", [last], ["result"]))
    for name, array in trial.inputs.items():
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
    graph.output.append(helper.make_tensor_value_info("result", trial.element, None))
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in trial.constants.items()
        if any(name in node.input for node in graph.node)
    )
    opsets = [helper.make_opsetid("", trial.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def verdicts() -> dict[str, Verdict]:
    """The worst verdict of each fusion."""
    found: dict[str, Verdict] = {}
    for trial in TRIALS:
        known, new = found.get(trial.fusion, Verdict(NOT_MADE)), judge(trial)
        worse = max(known, new, key=lambda v: (_SEVERITY.index(v.kind), v.difference))
        found[trial.fusion] = worse
    return found


def harmful_fusions() -> dict[str, str]:
    """Those that change the numbers, in order, and how."""
    found = sorted(verdicts().items())
    return {name: v.kind for name, v in found if v.kind not in (NOT_MADE, SAME)}


def page() -> str:
    """The text of docs/runtime_fusions.md."""
    found = verdicts()
    rows = []
    for name, verdict in found.items():
        shows = next(trial.shows for trial in TRIALS if trial.fusion == name and trial.shows)
        measured = verdict.kind
        if verdict.difference:
            measured += f" ({verdict.difference:.0e})"
        answer = ANSWERS.get(name, "") if verdict.kind not in (NOT_MADE, SAME) else ""
        rows.append(f"| {name} | {shows} | {measured} | {answer} |")
    others = [f"* {names}: {reason}." for names, reason in EXEMPT.items()]
    return "\n".join([_HEAD.format(version=ort.__version__), *rows, "", _OTHERS, *others, ""])


_HEAD = """\
# Fusions of the runtime

Written by `python -m tools.probe.fusions --write`; do not edit. Measured with ONNX Runtime
{version}.

ONNX Runtime (ORT) fuses nodes when it loads a model. In exact arithmetic a fusion changes nothing.
In floats the fused constants can leave the range of their type, or lose digits.

For each fusion the tool runs a graph whose numbers are hard to get right, with the fusion and
without it. "Same numbers" allows for rounding. "Not made" means that ORT left the graph alone.

hlo2onnx prevents a harmful fusion only if the constants of the program show that it would do harm.
Ordinary networks stay fused. ORT merges only constants, and values that it computes from constants.
It does so in the bodies of If, Loop and Scan as well.

hlo2onnx folds such constants itself, under the same conditions. See `fold-scale-into-conv` in
[the rules](rules.md), and `hlo2onnx/analysis/weight_scaling.py` for the bound.

| fusion | what it does | measured | what hlo2onnx does |
| --- | --- | --- | --- |"""

_OTHERS = """\
## Not measured
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.probe.fusions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())


if __name__ == "__main__":
    main()

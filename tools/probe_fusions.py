"""Measure which fusions ONNX Runtime makes when it loads a model, and which change the numbers.

    python tools/probe_fusions.py            print the page
    python tools/probe_fusions.py --write    write docs/runtime_fusions.md

Each graph of `fusion_trials` runs with all optimizations, and with all but one. The operators that
are left tell whether the fusion was made, the results whether it is harmful: a number that is
finite or not 0 in one of them only, or a difference of more than 1e-5 of the largest number (of f64
1e-12, of integers any). `probe_kernels.py` writes the names of the harmful ones into the target's
table as `harmful_fusions`.
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
from fusion_trials import EXEMPT, TRIALS, Trial
from onnx import helper, numpy_helper

PAGE = Path(__file__).resolve().parents[1] / "docs" / "runtime_fusions.md"

NOT_MADE = "not made"
SAME = "same numbers"
DIGITS = "loses digits"
RANGE = "leaves the range"
REFUSED = "does not load"
_SEVERITY = (NOT_MADE, SAME, DIGITS, RANGE, REFUSED)

_LEVELS = ("", "L1", "L2", "_CPUExecutionProvider")
"""What the runtime adds to the names of those that it tries at several levels."""

ANSWERS: Mapping[str, str] = {
    "ConvMulFusion": "Where a weight or bias would not stay a normal number, or digits would be"
    " lost, the operands of the Mul are swapped: ORT looks for a constant in second place.",
    "ConvAddFusion": "Where the sum of the biases is not finite, the operands are swapped.",
    "ConvBNFusion": "As for ConvMulFusion; the BatchNormalization becomes (x - m) * s + b.",
    "MatMul_BatchNormalization_Fusion": "As for ConvBNFusion.",
    "MatMulScaleFusion": "A factor far from 1 (2^24), and of f64 one that is no power of two, is"
    " written as a row.",
    "DivMulFusion": "1 / x of integers that a Mul reads becomes (x == 1) - (x == -1).",
    "Pad_Fusion": "Before a MaxPool the Pad names its axes, which ORT leaves alone.",
    "QDQSelectorActionTransformer": "Weights that floats are multiplied with are dequantized by"
    " Cast and Mul.",
    "SkipLayerNormFusion": "Nothing: its sums lose digits where the mean of a row is many times its"
    " deviation, which no constant tells. For rows around 0 both are as exact.",
    "DoubleQDQPairsRemover": "Nothing: the result is off by less than one step of either scale.",
    "WeightBiasQuantization": "A bias that is 2^31 times the product of both scales or more is"
    " added by a node of its own.",
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

Written by `python tools/probe_fusions.py --write`; do not edit. Measured with ONNX Runtime
{version}.

When ONNX Runtime (ORT) loads a model, it fuses nodes. In exact arithmetic that changes nothing. In
floats the fused constants can leave the range of their type, or lose digits. Each fusion was
made of a graph whose numbers are hard to get right, and compared with the same graph without it.
"Same numbers" allows for rounding. A harmful fusion is prevented only where the constants of a
program show that it would do harm; ordinary networks stay fused. ORT fuses constants alone, those
that it computes from constants too, and fuses in the bodies of If, Loop and Scan as well.

`hlo2onnx` folds such constants itself, under the same conditions: see `fold-scale-into-conv` in
[the rules](rules.md), and `hlo2onnx/analysis/weight_scaling.py` for the bound.

| fusion | what it does | measured | what hlo2onnx does |
| --- | --- | --- | --- |"""

_OTHERS = """\
## Not measured
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())


if __name__ == "__main__":
    main()

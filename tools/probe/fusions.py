"""Measures which fusions ONNX Runtime makes when it loads a model, and which change the numbers.

    python -m tools.probe.fusions            print the page
    python -m tools.probe.fusions --write    write docs/runtime_fusions.md

Each graph of `fusion_trials` runs with all optimizations and with all but one. The remaining
operators show whether the fusion was made. It is harmful if a number is finite or not 0 in only one
of the results, if they differ by more than 1e-5 of the largest number (f64: 1e-12, integers: at
all), or if the shape differs where an array of one element has more axes than all others.
`tools.probe` writes the harmful fusions into the target's table as `harmful_fusions`.

Where a runtime cannot leave out single fusions, its numbers are compared with those that it, or
onnxruntime, gives without optimizations.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hlo2onnx.runtime.adapters.installed import KINDS, Kind, Name
from hlo2onnx.runtime.adapters.process import Answer, Runtime, array_of, tensor_of
from tools import ROOT, write_page
from tools.probe.environments import start
from tools.probe.fusion_trials import TRIALS, Trial

PAGE = ROOT / "docs" / "runtime_fusions.md"

Array = np.ndarray[Any, np.dtype[Any]]

NOT_MADE = "not made"
SAME = "same numbers"
DIGITS = "loses digits"
RANGE = "leaves the range"
AXES = "loses axes"
REFUSED = "does not load"
_SEVERITY = (NOT_MADE, SAME, AXES, DIGITS, RANGE, REFUSED)

_LEVELS = ("", "L1", "L2", "_CPUExecutionProvider")
"""What the runtime adds to the names of those that it tries at several levels."""

_AXES = (
    "Gives axes of 1 that only a constant of one number has to the other operand: the fusion drops"
    " the constant, and its axes."
)

ANSWERS: Mapping[str, str] = {
    "ConvMulFusion": "Swaps the operands of the Mul if a weight or bias would not stay a normal"
    " number or would lose digits: ORT expects the constant in second place.",
    "ConvAddFusion": "Swaps the operands if the sum of the biases is not finite.",
    "ConvBNFusion": "Under the condition of ConvMulFusion, writes the BatchNormalization as"
    " (x - m) * s + b.",
    "MatMul_BatchNormalization_Fusion": "The same as for ConvBNFusion.",
    "MatMulScaleFusion": "Writes the factor as a row if it is far from 1 (2^24), or if it is an f64"
    " that is no power of two.",
    "DivMulFusion": "Writes 1 / x of integers as (x == 1) - (x == -1) if a Mul reads it. " + _AXES,
    "FastGeluFusion": _AXES,
    "GeluFusion": _AXES,
    "MatMulIntegerToFloatFusion": _AXES,
    "QuickGeluFusion": _AXES,
    "SimplifiedLayerNormFusion": _AXES,
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


class RefusedError(Exception):
    """The runtime does not run a trial."""


def judge(trial: Trial, runtime: Runtime, kind: Kind) -> Verdict:
    """Run a trial with and without the fusion."""
    if kind.has_fusions:
        apart, nodes = run(trial, runtime, [trial.fusion + level for level in _LEVELS])
    else:
        apart, nodes = _unoptimized(trial, runtime, kind), []
    try:
        fused, fused_nodes = run(trial, runtime, [], wants_graph=kind.has_fusions)
    except RefusedError:
        return Verdict(REFUSED)
    if nodes and nodes == fused_nodes:
        return Verdict(NOT_MADE)
    if fused.shape != apart.shape:
        return Verdict(AXES)
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


def run(
    trial: Trial, runtime: Runtime, disabled: list[str], *, wants_graph: bool = True
) -> tuple[Array, list[str]]:
    """The result of a trial without some fusions, and the operators that are left."""
    answer = _answer(trial, runtime, optimize=True, disabled=disabled, wants_graph=wants_graph)
    (result,) = answer.outputs
    optimized = onnx.load_from_string(answer.graph) if wants_graph else onnx.ModelProto()
    return array_of(result), [node.op_type for node in optimized.graph.node]


def _unoptimized(trial: Trial, runtime: Runtime, kind: Kind) -> Array:
    if kind.has_levels:
        return array_of(_answer(trial, runtime, optimize=False).outputs[0])
    with start(Name("ort-cpu")) as other:
        return array_of(_answer(trial, other, optimize=False).outputs[0])


def _answer(trial: Trial, runtime: Runtime, **options: Any) -> Answer:
    feeds = {name: tensor_of(np.asarray(array)) for name, array in trial.inputs.items()}
    answer = runtime.run(
        model_of(trial).SerializeToString(), feeds, f"fusion {trial.fusion}", **options
    )
    if isinstance(answer, str):
        raise RefusedError(answer)
    return answer


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


def verdicts(runtime: Runtime, kind: Kind) -> dict[str, Verdict]:
    """The worst verdict of each fusion. Trials that the runtime does not run unoptimized show
    nothing."""
    found: dict[str, Verdict] = {}
    wider = [*with_more_axes(TRIALS)]
    for trial, is_wider in [*zip(TRIALS, repeat(False)), *zip(wider, repeat(True))]:
        known = found.get(trial.fusion, Verdict(NOT_MADE))
        try:
            new = judge(trial, runtime, kind)
        except RefusedError:
            new = known
        if is_wider:  # its numbers are no harder
            new = Verdict(AXES) if new.kind in (AXES, REFUSED) else known
        worse = max(known, new, key=lambda v: (_SEVERITY.index(v.kind), v.difference))
        found[trial.fusion] = worse
    return found


def with_more_axes(trials: Iterable[Trial]) -> Iterator[Trial]:
    """Each trial with one of its arrays of one element having the most axes: as it is, and with
    scalars as inputs."""
    for trial in trials:
        scalars = {name: np.asarray(array).reshape(-1)[0] for name, array in trial.inputs.items()}
        for inputs in (trial.inputs, scalars):
            arrays = {**inputs, **trial.constants}
            shape = (1,) * (1 + max(map(np.ndim, arrays.values())))
            for name, array in arrays.items():
                if np.size(array) == 1:
                    wider = {name: np.reshape(array, shape)}
                    yield replace(
                        trial,
                        inputs={**inputs, **(wider if name in inputs else {})},
                        constants={**trial.constants, **(wider if name not in inputs else {})},
                    )


def harmful_fusions(runtime: Runtime, kind: Kind) -> dict[str, str]:
    """Those that change the numbers, in order, and how."""
    found = sorted(verdicts(runtime, kind).items())
    return {name: v.kind for name, v in found if v.kind not in (NOT_MADE, SAME)}


def page(runtime: Runtime) -> str:
    """The text of docs/runtime_fusions.md."""
    found = verdicts(runtime, KINDS["ort-cpu"])
    rows = []
    for name, verdict in found.items():
        shows = next(trial.shows for trial in TRIALS if trial.fusion == name and trial.shows)
        measured = verdict.kind
        if verdict.difference:
            measured += f" ({verdict.difference:.0e})"
        answer = ANSWERS.get(name, "") if verdict.kind not in (NOT_MADE, SAME) else ""
        rows.append(f"| {name} | {shows} | {measured} | {answer} |")
    return "\n".join([_HEAD.format(version=runtime.version), *rows])


_HEAD = """\
Measured with ONNX Runtime {version}.

| fusion | what it does | measured | what hlo2onnx does |
| --- | --- | --- | --- |"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.probe.fusions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    is_written = parser.parse_args().write
    with start(Name("ort-cpu")) as runtime:
        text = page(runtime)
    if is_written:
        write_page(PAGE, text)
    else:
        print(text)


if __name__ == "__main__":
    main()

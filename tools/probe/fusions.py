"""Measures which fusions of ONNX Runtime change the numbers.

Each graph of `fusion_trials` runs with all optimizations and with all but one. A fusion is harmful
if a number is finite or not 0 in only one of the results, if they differ by more than 1e-5 of the
largest number (f64: 1e-12, integers: at all), or if the shape differs where an array of one element
has more axes than all others. `tools.probe` writes the harmful fusions into the target's table as
`harmful_fusions`; docs/runtime_fusions.md says what hlo2onnx does about them.

Where a runtime cannot leave out single fusions, its numbers are compared with those that it, or
onnxruntime, gives without optimizations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hlo2onnx.runtime.adapters.installed import Kind, Name
from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of
from tools.probe.environments import start
from tools.probe.fusion_trials import TRIALS, Trial

Array = np.ndarray[Any, np.dtype[Any]]

SAME = "same numbers"
DIGITS = "loses digits"
RANGE = "leaves the range"
AXES = "loses axes"
REFUSED = "does not load"
_SEVERITY = (SAME, AXES, DIGITS, RANGE, REFUSED)

_LEVELS = ("", "L1", "L2", "_CPUExecutionProvider")
"""What the runtime adds to the names of those that it tries at several levels."""


class RefusedError(Exception):
    """The runtime does not run a trial."""


def judge(trial: Trial, runtime: Runtime, kind: Kind) -> str:
    """What the fusion does to the numbers of a trial: one of those above. A trial that the runtime
    does not run unoptimized shows nothing."""
    disabled = [trial.fusion + level for level in _LEVELS]
    try:
        if kind.has_fusions:
            apart = _answer(trial, runtime, optimize=True, disabled=disabled)
        elif kind.has_levels:
            apart = _answer(trial, runtime, optimize=False)
        else:
            with start(Name("ort-cpu")) as plain:
                apart = _answer(trial, plain, optimize=False)
    except RefusedError:
        return SAME
    try:
        fused = _answer(trial, runtime, optimize=True)
    except RefusedError:
        return REFUSED
    if fused.shape != apart.shape:
        return AXES
    if fused.dtype.kind != "f":
        return SAME if np.array_equal(fused, apart) else RANGE
    finite = np.isfinite(apart)
    if (finite & (~np.isfinite(fused) | ((fused == 0) & (apart != 0)))).any():
        return RANGE
    one, other = fused[finite].astype(np.float64), apart[finite].astype(np.float64)
    size = np.abs(other).max(initial=np.finfo(np.float64).tiny)
    with np.errstate(all="ignore"):
        worst = (np.abs(one - other) / size).max(initial=0)
    return DIGITS if worst > (1e-12 if apart.dtype == np.float64 else 1e-5) else SAME


def _answer(trial: Trial, runtime: Runtime, **options: Any) -> Array:
    feeds = {name: tensor_of(np.asarray(array)) for name, array in trial.inputs.items()}
    model = model_of(trial).SerializeToString()
    answer = runtime.run(model, feeds, f"fusion {trial.fusion}", **options)
    if isinstance(answer, str):
        raise RefusedError(answer)
    return array_of(answer.outputs[0])


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


def harmful_fusions(runtime: Runtime, kind: Kind) -> dict[str, str]:
    """Those that change the numbers, in order, and how at worst."""
    found = {trial.fusion: SAME for trial in TRIALS}
    for trial in TRIALS:
        new = judge(trial, runtime, kind)
        found[trial.fusion] = max(found[trial.fusion], new, key=_SEVERITY.index)
    for trial in with_more_axes(TRIALS):  # their numbers are no harder
        if judge(trial, runtime, kind) in (AXES, REFUSED):
            found[trial.fusion] = max(found[trial.fusion], AXES, key=_SEVERITY.index)
    return {name: verdict for name, verdict in sorted(found.items()) if verdict != SAME}


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

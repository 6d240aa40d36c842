"""Where a model's time goes: seconds by operator, as ONNX Runtime's profiler counts them."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from tools.bench.timing import THREADS

WARM_UP = 10
CALLS = 50


@dataclass
class Operator:
    """How many nodes of one operator ORT runs in a call, and the seconds these take."""

    nodes: float = 0.0
    seconds: float = 0.0


def operators(model: bytes, feeds: Mapping[str, np.ndarray]) -> dict[str, Operator]:
    """The operators that remain after ORT's own optimisation, the slowest first.

    A loop's body is counted by the nodes it runs, beside the Loop itself, which includes them.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = THREADS
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for _ in range(WARM_UP + CALLS):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    starts = [event["ts"] for event in events if event["name"] == "model_run"][WARM_UP:]
    found: dict[str, Operator] = defaultdict(Operator)
    for event in events:
        is_kernel = event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
        if is_kernel and event["ts"] >= starts[0]:
            operator = found[event["args"]["op_name"]]
            operator.nodes += 1 / len(starts)
            operator.seconds += 1e-6 * event["dur"] / len(starts)
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds))


def optimized(model: bytes) -> onnx.ModelProto:
    """The model as ORT runs it."""
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def operator_table(ours: dict[str, Operator], twin: dict[str, Operator]) -> str:
    """Milliseconds and nodes of each operator, ours beside the twin's."""
    names = sorted(
        {*ours, *twin},
        key=lambda name: -max(found.get(name, Operator()).seconds for found in (ours, twin)),
    )
    lines = ["| operator | ours ms | nodes | twin ms | nodes |", "| --- | --- | --- | --- | --- |"]
    for name in names:
        cells = [f"{name}"]
        for found in (ours, twin):
            operator = found.get(name, Operator())
            cells += [f"{1e3 * operator.seconds:.3f}", f"{operator.nodes:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    totals = [1e3 * sum(item.seconds for item in found.values()) for found in (ours, twin)]
    lines.append(f"| all | {totals[0]:.3f} | | {totals[1]:.3f} | |")
    return "\n".join(lines)

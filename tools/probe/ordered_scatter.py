"""Probe of the updates that a ScatterND surely takes in order, in one thread.

A runtime may split the updates of a ScatterND over threads. If all updates have the same target, it
then loses sums, and another update than the last one stays. Below some cost it does not split them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx

from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of

THREADS = 4
REPEATS = 48
"""Scatters of one run: not each shows that it was split."""
MARGIN = 2
SIZES = tuple(1 << power for power in range(12, 21))
TYPES = {"float": "f4", "double": "f8", "int32": "i4", "int64": "i8", "uint8": "u1"}
WIDTHS = (1, 16)

UPDATES: dict[str, Callable[[int], np.ndarray]] = {
    "none": np.arange,
    "add": np.ones,
    "mul": lambda count: np.full(count, 255),
}
"""By reduction, updates whose result tells if one is lost or comes too late. The others, max and
min, work in the same frame, and lose little."""

_MODEL = """<ir_version: 8, opset_import: ["": 18]>
g ({kind}[1,{width}] x, int64[{count},1] i, {kind}[{count},{width}] u, float[{repeats},1] trips)
  => ({kind}[{repeats},1,{width}] y)
{{
  _, y = Scan <num_scan_inputs = 1, body = step ({kind}[1,{width}] s, float[1] trip)
    => ({kind}[1,{width}] t, {kind}[1,{width}] v)
    {{t = Identity(s) v = ScatterND <reduction = "{reduction}"> (x, i, u)}}> (x, trips)
}}"""


def ordered_scatter_elements(runtime: Runtime) -> int:
    """Elements of updates that are in order in every element type, with a factor of two in hand; 0
    if the runtime cannot be given threads."""
    if not runtime.has_threads:
        return 0
    ordered = itertools.takewhile(lambda size: keeps_order(runtime, size), SIZES)
    return max(ordered, default=0) // MARGIN


def keeps_order(runtime: Runtime, size: int) -> bool:
    """Whether all scatters of so many elements give what they give in order."""
    cases = itertools.product(TYPES, UPDATES, WIDTHS)
    return all(_keeps_order(runtime, size, *case) for case in cases)


def _keeps_order(runtime: Runtime, size: int, kind: str, reduction: str, width: int) -> bool:
    count = size // width
    updates = UPDATES[reduction](count).astype(TYPES[kind])
    if reduction == "mul" and updates.dtype.kind == "f":
        updates[:] = -1
    start = np.ones(1, TYPES[kind])
    names = {"kind": kind, "width": width, "count": count, "repeats": REPEATS}
    model = onnx.parser.parse_model(_MODEL.format(reduction=reduction, **names))
    feeds = {
        "x": np.tile(start, (1, width)),
        "i": np.zeros((count, 1), np.int64),
        "u": np.tile(updates[:, None], (1, width)),
        "trips": np.zeros((REPEATS, 1), np.float32),
    }
    tensors = {name: tensor_of(array) for name, array in feeds.items()}
    answer = runtime.run(model.SerializeToString(), tensors, "ordered scatter", threads=THREADS)
    if isinstance(answer, str):
        return False
    with np.errstate(over="ignore"):
        right = {
            "none": lambda: updates[-1],
            "add": lambda: (start + updates.sum(dtype=start.dtype))[0],
            "mul": lambda: (start * updates.prod(dtype=start.dtype))[0],
        }[reduction]()
    return bool((array_of(answer.outputs[0]) == right).all())

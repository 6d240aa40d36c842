"""Checks of the numbers of a kernel.

All trials of an operator key on its element types (see `value_trials`) are the nodes of one model.
Its outputs are compared bit by bit; all NaN are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from tools.probe.recipes import takes_axes_as_attribute
from tools.probe.value_trials import Trial
from tools.probe.value_trials.data import Array, is_float

RIGHT, ZEROS, WRONG = "right", "zeros", "wrong"
"""Verdicts: the right bits; the right numbers, but not -0; other numbers."""


class Output(NamedTuple):
    """A tensor as the runtime holds it."""

    dtype: int
    shape: tuple[int, ...]
    content: bytes


def graph_of(trials: Sequence[Trial], schema: Any) -> Any:
    """Give a graph with one node a trial, whose inputs are all initializers."""
    nodes, initializers, results = [], [], []
    for number, trial in enumerate(trials):
        names: list[str] = []
        inputs, given = trial.inputs, dict(trial.attributes)
        if takes_axes_as_attribute(schema) and len(inputs) > 1:
            inputs, given["axes"] = inputs[:1], inputs[1].tolist()  # type: ignore[union-attr]
        for position, array in enumerate(inputs):
            names.append("" if array is None else f"x{number}_{position}")
            if array is not None:
                tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=names[-1])
                initializers.append(ir.to_proto(tensor))
        made = [f"y{number}_{index}" for index in range(len(trial.expected))]
        attributes = {name: _plain(item) for name, item in given.items()}
        nodes.append(helper.make_node(trial.op_type, names, made, **attributes))
        results += [onnx.ValueInfoProto(name=name) for name in made]
    return helper.make_graph(nodes, "trials", [], results, initializers)


def _plain(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item


def serialized(graph: Any, opset: int, ir_version: int) -> bytes:
    """Give the graph as a model of that opset."""
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )
    content: bytes = model.SerializeToString()
    return content


def judge(trials: Sequence[Trial], outputs: Sequence[Output]) -> tuple[str, str]:
    """Give the verdict on all trials, and an example where it is not `RIGHT`."""
    verdict, example, left = RIGHT, "", list(outputs)
    for trial in trials:
        arrays = [array_of(left.pop(0)) for _ in trial.expected]
        found = _verdict(arrays, trial.expected, trial.zero_signs)
        if found == WRONG and trial.also is not None:
            found = _verdict(arrays, trial.also, trial.zero_signs)
        if found == WRONG or (found == ZEROS and verdict == RIGHT):
            verdict, example = found, _example(trial, arrays)
        if verdict == WRONG:
            break
    return verdict, example


def array_of(output: Output) -> Array:
    """Give a tensor of the runtime as an array."""
    dtype = ir.DataType(output.dtype)
    raw = np.frombuffer(output.content, np.uint8)
    if dtype.bitwidth >= 8:
        return raw.view(dtype.numpy()).reshape(output.shape)
    per_byte = 8 // dtype.bitwidth
    shifts = np.arange(per_byte, dtype=np.uint8) * dtype.bitwidth
    codes = (raw[:, None] >> shifts & (1 << dtype.bitwidth) - 1).reshape(-1)
    return codes[: int(np.prod(output.shape))].view(dtype.numpy()).reshape(output.shape)


def _verdict(got: Sequence[Array], right: Sequence[Array], zero_signs: bool) -> str:
    verdict = RIGHT
    for one, other in zip(got, right, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return WRONG
        same = _bits(one) == _bits(other)
        if is_float(one.dtype):
            same |= _is_nan(one) & _is_nan(other)
        if not same.all():
            zeros = (one == 0) & (other == 0)
            if not (same | zeros).all():
                return WRONG
            verdict = ZEROS if zero_signs else verdict
    return verdict


def _bits(array: Array) -> Array:
    flat = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return flat.reshape(array.shape)


def _is_nan(array: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaN become quiet ones
        return np.asarray(np.isnan(array.astype(np.float64)))


def _example(trial: Trial, got: Sequence[Array]) -> str:
    """Say where a node went wrong first."""
    operands = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in trial.inputs)
    text = f"{trial.op_type}({operands}) {dict(trial.attributes)}"
    for one, other in zip(got, trial.expected, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{text}: gives {one.dtype}{one.shape}, not {other.dtype}{other.shape}"
        places = np.argwhere(_bits(one) != _bits(other))
        for place in map(tuple, places):
            if not (one[place] != one[place] and other[place] != other[place]):
                here = [x[place] for x in trial.inputs if x is not None and x.shape == one.shape]
                return f"{text}: gives {one[place]}, not {other[place]} at {place}, from {here}"
    return text

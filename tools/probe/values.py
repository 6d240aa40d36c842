"""Checks of the numbers of a kernel.

All trials of an operator key on its element types (see `value_trials`) are the nodes of one model.
Its outputs are compared bit by bit; all NaN are equal, and so are both zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from onnx import helper

from hlo2onnx.runtime.adapters.process import Tensor, array_of
from tools.probe.models import Case, GraphOfNodes, Ports
from tools.probe.recipes import takes_axes_as_attribute
from tools.probe.value_trials import Trial
from tools.probe.value_trials.data import Array, is_float

ROUNDED = frozenset({"Div", "Pow", "Reciprocal", "Sqrt"})
"""Operators whose floats may be off by `ULPS`: some processors have fast instructions for them."""
ULPS = 2


SHAPE_LIKE: Mapping[str, Collection[int]] = {
    **dict.fromkeys(
        ("CenterCropPad", "Clip", "CumProd", "CumSum", "DFT", "DequantizeLinear", "Expand", "Pad",
         "QuantizeLinear", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Tile", "TopK",
         "Trilu", "Unsqueeze"),
        range(1, 9),
    ),
    "ConstantOfShape": (0,),
    "OneHot": (1, 2),
}  # fmt: skip
"""Inputs that are constants in models: axes, shapes, widths, scales, bounds. Those of reductions
are, too. All others are data."""


def case_of(
    trials: Sequence[Trial], schema: Any, opset: int, ir_version: int, ports: Ports
) -> Case:
    """Give a model with one node a trial, and its inputs."""
    graph = GraphOfNodes(ports)
    for number, trial in enumerate(trials):
        names: list[str] = []
        inputs, given = trial.inputs, dict(trial.attributes)
        if takes_axes_as_attribute(schema) and len(inputs) > 1:
            inputs, given["axes"] = inputs[:1], inputs[1].tolist()  # type: ignore[union-attr]
        if trial.op_type == "DFT" and "axis" in schema.attributes and len(inputs) > 2:
            inputs, given["axis"] = inputs[:2], inputs[2].item()  # type: ignore[union-attr]
        for position, array in enumerate(inputs):
            names.append("" if array is None else f"x{number}_{position}")
            if array is not None:
                tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=names[-1])
                graph.take(tensor, is_data=_is_data(trial, position))
        if trial.computed:
            names[0] = graph.computed(names[0], trial.inputs[0])
        made = [f"y{number}_{index}" for index in range(len(trial.expected))]
        attributes = {name: _plain(item) for name, item in given.items()}
        types = [ir.DataType.from_numpy(array.dtype) for array in trial.expected]
        if trial.used:
            hidden = [f"{name}/used" for name in made]
            graph.hide(helper.make_node(trial.op_type, names, hidden, **attributes))
            for name, inner in zip(made, hidden, strict=True):
                graph.node(helper.make_node("Cast", [inner], [name], to=types[0].value), types[:1])
            continue
        graph.node(helper.make_node(trial.op_type, names, made, **attributes), types)
    return graph.case(opset, ir_version)


def _is_data(trial: Trial, position: int) -> bool:
    if trial.constants and (position or len(trial.inputs) == 1):
        return False
    if trial.op_type.startswith("Reduce"):
        return position == 0
    return position not in SHAPE_LIKE.get(trial.op_type, ())


def _plain(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item


def judge(trials: Sequence[Trial], outputs: Sequence[Tensor], *, denormals: bool = True) -> str:
    """Say what is wrong first; "" if all trials are right.

    Args:
        denormals: whether zeros in place of denormal floats are wrong.
    """
    left = list(outputs)
    for trial in trials:
        arrays = [_uncarried(array_of(left.pop(0)), right.dtype) for right in trial.expected]
        if not denormals:
            pairs = zip(arrays, trial.expected, strict=True)
            arrays = [_unflushed(one, right) for one, right in pairs]
        fault = _fault(trial, arrays, trial.expected)
        if fault and (trial.also is None or _fault(trial, arrays, trial.also)):
            return fault
    return ""


def _uncarried(array: Array, dtype: np.dtype[Any]) -> Array:
    """An output in its own type, where it left in one that holds it."""
    carried = array.dtype in (np.float32, np.int32) and dtype.isbuiltin != 1
    return array.astype(dtype) if carried else array


def _unflushed(array: Array, right: Array) -> Array:
    """An output with the right denormals where it has zeros."""
    if not is_float(right.dtype) or (array.shape, array.dtype) != (right.shape, right.dtype):
        return array
    least = np.array(ml_dtypes.finfo(right.dtype).smallest_normal, np.float64)
    with np.errstate(invalid="ignore"):
        flushed = (array == 0) & (np.abs(right.astype(np.float64)) < least)
    return np.where(flushed & (right != 0), right, array)


def _fault(trial: Trial, got: Sequence[Array], right: Sequence[Array]) -> str:
    """Say where a node goes wrong first; "" if it does not."""
    operands = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in trial.inputs)
    text = f"{trial.op_type}({operands}) {dict(trial.attributes)}"
    for one, other in zip(got, right, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{text}: gives {one.dtype}{one.shape}, not {other.dtype}{other.shape}"
        wrong = np.argwhere(~_is_right(one, other, trial))
        if len(wrong):
            place = tuple(wrong[0].tolist())
            here = [x[place] for x in trial.inputs if x is not None and x.shape == one.shape]
            return f"{text}: gives {one[place]}, not {other[place]} at {place}, from {here}"
    return ""


def _is_right(one: Array, other: Array, trial: Trial) -> Array:
    """Where numbers are right; zeros of either sign are."""
    same = (_bits(one) == _bits(other)) | ((one == 0) & (other == 0))
    if is_float(one.dtype):
        same |= _is_nan(one) & _is_nan(other)
    if trial.tolerance:
        same |= _is_close(one, other, trial.tolerance)
    if trial.op_type in ROUNDED:
        same |= _is_near(one, other)
    return np.asarray(same)


def _is_near(one: Array, other: Array) -> Array:
    """Where floats of one sign, not zeros, differ by few units in the last place."""
    if not is_float(one.dtype):
        return np.zeros(one.shape, bool)
    wide, known = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        is_one_sign = (np.sign(wide) == np.sign(known)) & (known != 0)
        near = np.abs(_bits(one).astype(np.int64) - _bits(other).astype(np.int64)) <= ULPS
        return np.asarray(is_one_sign & near)


def _is_close(one: Array, other: Array, tolerance: float) -> Array:
    """Where floats differ by little, relative to the largest right one."""
    wide, known = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(wide - known) <= tolerance * np.abs(known).max(initial=0))


def _bits(array: Array) -> Array:
    flat = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return flat.reshape(array.shape)


def _is_nan(array: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaN become quiet ones
        return np.asarray(np.isnan(array.astype(np.float64)))

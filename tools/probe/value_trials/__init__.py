"""Nodes with known results: their inputs and expected outputs.

`trials_of(key, dtypes)` gives those of an operator key (see `hlo2onnx.targets.target`) on an
element type, or on two for the operators of `PAIR_PARAMETERS`. Here is what ONNX defines to the
last bit: integers (which wrap), booleans, comparisons, data movement, roundings, and floats where
they are exact; and functions whose floats are nearly right. An operator that has none is not
checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from tools.probe.value_trials import casts, elementwise, functions, rows
from tools.probe.value_trials.data import DENORMALS, LIMITED, Array, Trial, Trials

__all__ = ["TRIALS", "Trial", "trials_of"]

TRIALS: Mapping[str, Trials] = {
    **elementwise.TRIALS,
    **functions.TRIALS,
    **rows.TRIALS,
    **casts.TRIALS,
}
"""How to make the trials of an operator key."""


def trials_of(
    key: str,
    dtypes: tuple[ir.DataType, ...],
    *,
    limited: bool = False,
    varied: bool = False,
    denormals: bool = True,
) -> list[Trial]:
    """Give the trials of an operator key on these element types; none where nothing is exact.

    Args:
        limited: whether to keep to operands that less precision suffices for, see `data.LIMITED`.
        varied: whether to try wide integers as constants and as results of other nodes, too, in
            which a runtime may hold them in another type than those that it is given; and to read
            integers of 16 bits by another node.
        denormals: whether to try denormal floats.
    """
    tokens = LIMITED.set(limited), DENORMALS.set(denormals)
    try:
        trials = TRIALS[key](*dtypes) if key in TRIALS else []
    finally:
        LIMITED.reset(tokens[0])
        DENORMALS.reset(tokens[1])
    if not varied:
        return trials
    if dtypes[-1] in _HALVES:
        return [*trials, *(_used(t) for t in trials if _is_half(t.expected))]
    if not _WIDE & {*dtypes}:
        return trials
    computed = [replace(t, computed=True) for t in trials if _is_wide(t.inputs[0])]
    constant = [replace(t, constants=True) for t in trials if len(t.inputs) > 1 or key == _ALONE]
    return [*trials, *constant, *computed]


_HALVES = frozenset({ir.DataType.INT16, ir.DataType.UINT16})


def _is_half(arrays: tuple[Array, ...]) -> bool:
    return all(ir.DataType.from_numpy(array.dtype) in _HALVES for array in arrays)


def _used(trial: Trial) -> Trial:
    return replace(trial, expected=tuple(x.astype("i4") for x in trial.expected), used=True)


_ALONE = "Identity"
"""The operator that is tried on a constant. Models have no others that depend on constants only."""
_WIDE = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT32, ir.DataType.UINT64})


def _is_wide(array: Array | None) -> bool:
    return array is not None and ir.DataType.from_numpy(array.dtype) in _WIDE

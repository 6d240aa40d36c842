"""Nodes with known results: their inputs and expected outputs.

`trials_of(key, dtypes)` gives those of an operator key (see `hlo2onnx.targets.target`) on an
element type, or on two for the operators of `PAIR_PARAMETERS`. Here is what ONNX defines to the
last bit: integers (which wrap), booleans, comparisons, data movement, roundings, and floats where
they are exact; and functions whose floats are nearly right. An operator that has none is not
checked.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from tools.probe.value_trials import (
    casts,
    elementwise,
    functions,
    movement,
    products,
    quantization,
    reductions,
    spectra,
)
from tools.probe.value_trials.data import DENORMALS, LIMITED, Trial, Trials

__all__ = ["TRIALS", "Trial", "trials_of"]

TRIALS: Mapping[str, Trials] = {
    **elementwise.TRIALS,
    **functions.TRIALS,
    **movement.TRIALS,
    **products.TRIALS,
    **reductions.TRIALS,
    **casts.TRIALS,
    **quantization.TRIALS,
    **spectra.TRIALS,
}
"""How to make the trials of an operator key."""


def trials_of(
    key: str, dtypes: tuple[ir.DataType, ...], *, limited: bool = False, denormals: bool = True
) -> list[Trial]:
    """Give the trials of an operator key on these element types; none where nothing is exact.

    Args:
        limited: whether to keep to operands that less precision suffices for, see `data.LIMITED`.
        denormals: whether to try denormal floats.
    """
    tokens = LIMITED.set(limited), DENORMALS.set(denormals)
    try:
        return TRIALS[key](*dtypes) if key in TRIALS else []
    finally:
        LIMITED.reset(tokens[0])
        DENORMALS.reset(tokens[1])

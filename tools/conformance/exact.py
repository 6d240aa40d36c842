"""Evaluations in f64, the reference for XLA's own rounding errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.verify.f64_reference import NARROW_LIMITS, is_evaluation_of, widened
from hlo2onnx.verify.xla import XlaProgram

_REFUSALS = (TypeError, ValueError, NotImplementedError, AssertionError, jax.errors.JaxRuntimeError)
"""What JAX raises for a function that does not take f64."""


def exact_results(
    harness: Any,
    lowered: Any,
    arguments: Sequence[Any],
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
) -> list[np.ndarray | None]:
    """For each result its evaluation in f64 (or c128); None where there is none.

    Two ways: calling the harness with wide arguments, and, where types are written into it,
    running its module with every float type made f64.

    Args:
        arguments: Of the harness.
        inputs: Of the lowered module.
    """
    exact: list[np.ndarray | None] = [None] * len(expected)
    evaluations: list[Callable[[], list[np.ndarray] | None]] = [
        lambda: _called_wide(harness, arguments),
        lambda: _rewritten(lowered, inputs),
    ]
    for evaluate in evaluations:
        todo = [i for i, want in enumerate(expected) if exact[i] is None and _narrow(want)]
        found = evaluate() if todo else None
        if found is not None and len(found) == len(expected):
            for index in todo:
                if is_evaluation_of(found[index], expected[index]):
                    exact[index] = found[index]
    return exact


def _called_wide(harness: Any, arguments: Sequence[Any]) -> list[np.ndarray] | None:
    try:
        results = jax.jit(harness.dyn_fun)(*jax.tree_util.tree_map(_widen, list(arguments)))
    except _REFUSALS:
        return None
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(results)]


def _rewritten(lowered: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    try:
        return XlaProgram(widened(lowered.as_text()).encode())([_widen(item) for item in inputs])
    except (VerificationError, *_REFUSALS):
        return None


def _widen(leaf: Any) -> Any:
    dtype = jax.dtypes.canonicalize_dtype(np.result_type(leaf))
    if jax.dtypes.issubdtype(dtype, np.complexfloating):
        return np.asarray(leaf, np.complex128)
    if jax.dtypes.issubdtype(dtype, np.floating):
        return np.asarray(leaf, np.float64)
    return leaf


def _narrow(want: np.ndarray) -> bool:
    return want.dtype.name in NARROW_LIMITS

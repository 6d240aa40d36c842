"""Trials of functions whose floats are rounded: they may be off by a little, but not by much."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import Array, Trial, Trials, i64

_CLOSE: Mapping[ir.DataType, float] = {ir.DataType.FLOAT: 1e-5, ir.DataType.DOUBLE: 1e-10}
"""How far, relative to the largest number of a result, others may be off. Other types have no
trials: runtimes may compute them in f32."""

_Function = Callable[[Array], Array]


def _elementwise(op_type: str, function: _Function, low: float, high: float) -> Trials:
    def trials(dtype: ir.DataType) -> list[Trial]:
        return _close(op_type, (np.linspace(low, high, 2001),), function, dtype)

    return trials


def _rows(op_type: str, function: _Function) -> Trials:
    """Rows whose exponentials leave the range."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        x = np.random.default_rng(0).normal(size=(6, 40)) * 5
        x += np.array([0, 50, -50, 1000, -1000, 3000])[:, None]
        axis = {"axis": 1} if op_type.endswith("max") else {"keepdims": 0}
        others = () if op_type.endswith("max") else (i64(1),)
        return _close(op_type, (x, *others), function, dtype, axis)

    return trials


def _close(
    op_type: str,
    inputs: tuple[Array, ...],
    function: _Function,
    dtype: ir.DataType,
    attributes: Mapping[str, int] | None = None,
) -> list[Trial]:
    if dtype not in _CLOSE:
        return []
    x, *others = inputs
    given = x.astype(dtype.numpy())
    right = function(given.astype(np.longdouble)).astype(dtype.numpy())
    return [Trial(op_type, (given, *others), (right,), attributes or {}, tolerance=_CLOSE[dtype])]


def _log_sum_exp(x: Array) -> Array:
    top = x.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(x - top).sum(1)) + top[:, 0])


def _softmax(x: Array) -> Array:
    return np.asarray(np.exp(_log_softmax(x)))


def _log_softmax(x: Array) -> Array:
    return np.asarray(x - _log_sum_exp(x)[:, None])


_RANGES: Mapping[str, tuple[_Function, float, float]] = {
    "Acos": (np.arccos, -1, 1),
    "Acosh": (np.arccosh, 1, 30),
    "Asin": (np.arcsin, -1, 1),
    "Asinh": (np.arcsinh, -30, 30),
    "Atan": (np.arctan, -30, 30),
    "Atanh": (np.arctanh, -0.99, 0.99),
    "Cos": (np.cos, -300, 300),
    "Cosh": (np.cosh, -5, 5),
    "Exp": (np.exp, -5, 5),
    "Log": (np.log, 0.01, 30),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -10, 10),
    "Sin": (np.sin, -300, 300),
    "Sinh": (np.sinh, -5, 5),
    "Tan": (np.tan, -1.5, 1.5),
    "Tanh": (np.tanh, -30, 30),
}

TRIALS: Mapping[str, Trials] = {
    **{op_type: _elementwise(op_type, *known) for op_type, known in _RANGES.items()},
    "LogSoftmax": _rows("LogSoftmax", _log_softmax),
    "ReduceLogSumExp": _rows("ReduceLogSumExp", _log_sum_exp),
    "Softmax": _rows("Softmax", _softmax),
}

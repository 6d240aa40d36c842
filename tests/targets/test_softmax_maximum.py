"""The maximum of a softmax needs no guard for NaN; that of look-alikes does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model
from workaround_cases import changed

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.targets.workarounds.reduce_nan import guard_nan

Value, T = oir.Value, oir.DataType
X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


def rounded(b: GraphBuilder, x: Value) -> Value:
    return b.cast(b.cast(x, T.BFLOAT16), T.FLOAT)


def parts(
    b: GraphBuilder, x: Value, step: Callable[..., Value], axis: int = 2, keepdims: int = 1
) -> tuple[Value, Value, Value]:
    """x - max, the exponentials, and their sum."""
    top = b.ReduceMax(x, b.i64([2]), keepdims=keepdims)
    if not keepdims:
        top = b.reshape(top, (3, 4, 1))
    shifted = step(b, b.Sub(x, top))
    e = step(b, b.Exp(shifted))
    return shifted, e, step(b, b.ReduceSum(e, b.i64([axis]), keepdims=1))


def plain(b: GraphBuilder, x: Value) -> Value:
    return x


def softmax(b: GraphBuilder, x: Value, step: Any = plain, **options: Any) -> Value:
    _, e, total = parts(b, x, step, **options)
    return step(b, b.Div(e, total))


def log_softmax(b: GraphBuilder, x: Value, step: Any = plain, **options: Any) -> Value:
    shifted, _, total = parts(b, x, step, **options)
    return b.Sub(shifted, step(b, b.Log(total)))


NORMALIZED = [softmax, partial(softmax, step=rounded), partial(softmax, keepdims=0), log_softmax,
              partial(log_softmax, step=rounded)]  # fmt: skip
guard = partial(guard_nan, facts=Facts())


@pytest.mark.parametrize("build", NORMALIZED)
def test_no_guard(build: Callable[..., Value]) -> None:
    assert changed(build, "ReduceMax", guard, x=X) is None


@pytest.mark.parametrize("build", NORMALIZED)
def test_rows_with_nan(build: Callable[..., Value]) -> None:
    """The model as it is gives NaN in these rows, and only there."""
    x = X.copy()
    x[0, 1, 2] = x[2, 0, 0] = x[2, 3, 4] = np.nan
    (result,) = run_model(model_of(build, {"x": x}), {"x": x})
    rows = np.isnan(x).any(2, keepdims=True)
    np.testing.assert_array_equal(np.isnan(result), np.broadcast_to(rows, x.shape))


def exponentials_too(b: GraphBuilder, x: Value) -> list[Value]:
    _, e, total = parts(b, x, plain)
    return [b.Div(e, total), e]


def differences_too(b: GraphBuilder, x: Value) -> list[Value]:
    shifted, e, total = parts(b, x, plain)
    return [b.Div(e, total), b.Neg(shifted)]


def maximum_too(b: GraphBuilder, x: Value) -> list[Value]:
    y = softmax(b, x)
    top = next(node for node in x.consumers() if node.op_type == "ReduceMax").outputs[0]
    return [y, b.Neg(top)]


def minimum(b: GraphBuilder, x: Value) -> Value:
    low = b.ReduceMin(x, b.i64([2]))
    e = b.Exp(b.Sub(x, low))
    return b.Div(e, b.ReduceSum(e, b.i64([2])))


def of_another_value(b: GraphBuilder, x: Value) -> Value:
    e = b.Exp(b.Sub(b.Abs(x), b.ReduceMax(x, b.i64([2]))))
    return b.Div(e, b.ReduceSum(e, b.i64([2])))


def divided_by_another(b: GraphBuilder, x: Value) -> Value:
    _, e, _ = parts(b, x, plain)
    return b.Div(e, b.ReduceSum(b.Abs(x), b.i64([2])))


def divides(b: GraphBuilder, x: Value) -> Value:
    _, e, total = parts(b, x, plain)
    return b.Div(total, e)


def only_the_sum(b: GraphBuilder, x: Value) -> Value:
    return b.Log(parts(b, x, plain)[2])


def integers(b: GraphBuilder, x: Value) -> Value:
    e = b.Exp(b.Sub(x, b.ReduceMax(x, b.i64([2]))))
    whole = b.cast(e, T.INT32)
    return b.Div(whole, b.ReduceSum(whole, b.i64([2])))


def other_logarithm(b: GraphBuilder, x: Value) -> Value:
    shifted, _, _ = parts(b, x, plain)
    return b.Sub(shifted, b.Log(b.ReduceSum(b.Abs(x), b.i64([2]))))


def another_sum(b: GraphBuilder, x: Value) -> list[Value]:
    _, e, total = parts(b, x, plain)
    return [b.Div(e, total), b.ReduceSum(e, b.i64([1]))]


def other_rows(b: GraphBuilder, x: Value) -> Value:
    """The maxima of the rows are subtracted from the columns."""
    x = b.slice(x, [0], [4], axes=[2])
    top = b.reshape(b.ReduceMax(x, b.i64([2]), keepdims=0), (3, 1, 4))
    e = b.Exp(b.Sub(x, top))
    return b.Div(e, b.ReduceSum(e, b.i64([2])))


@pytest.mark.parametrize(
    "build",
    [another_sum, other_rows, exponentials_too, differences_too, maximum_too, of_another_value,
     divided_by_another, divides, integers, other_logarithm, partial(softmax, axis=1)],
)  # fmt: skip
def test_look_alikes(build: Callable[..., Any]) -> None:
    assert changed(build, "ReduceMax", guard, runs=False, x=X) is not None


def test_the_sum_alone_is_enough() -> None:
    """It is NaN all the same."""
    assert changed(only_the_sum, "ReduceMax", guard, x=X) is None


def test_minimum() -> None:
    assert changed(minimum, "ReduceMin", guard, x=X) is not None

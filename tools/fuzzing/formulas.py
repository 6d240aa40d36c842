"""Formulas that runtimes fuse: activations and norms of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import NUMPY
from tools.fuzzing.program import Quality, Type, Value


class _Terms:
    """Makes the terms of a formula, all of one type; numbers are constants or broadcast ones."""

    def __init__(self, b: Builder, x: Value) -> None:
        self.b = b
        self.made = [(x.type, Quality.CLOSE, None)]

    def __call__(self, name: str, *operands: Value) -> Value:
        return self.b.step(name, operands, self.made, scale=8, moderate=True)[0]

    def number(self, number: float) -> Value:
        b, type_ = self.b, self.made[0][0]
        shape = type_.shape if b.rng.random() < 0.5 else ()
        scalar = (Type(type_.element, shape), Quality.BITS, None)
        array = np.full(shape, number).astype(NUMPY[type_.element])
        (made,) = b.step("constant", [], [scalar], array=array)
        if shape == type_.shape:
            return made
        text = "broadcast_dimensions = array<i64>"
        return b.step("broadcast_in_dim", [made], [(type_, Quality.BITS, None)], text)[0]


def _quotient(t: _Terms, x: Value, y: Value) -> Value:
    return t("multiply", t("divide", t.number(1), x), y)


def _sigmoid(t: _Terms, x: Value, y: Value) -> Value:
    growth = t("exponential", t("negate", x))
    return t("divide", t.number(1), t("add", t.number(1), growth))


def _silu(t: _Terms, x: Value, y: Value) -> Value:
    return t("multiply", x, t("logistic", x))


def _quick_gelu(t: _Terms, x: Value, y: Value) -> Value:
    return t("multiply", x, _sigmoid(t, t("multiply", t.number(1.702), x), y))


def _fast_gelu(t: _Terms, x: Value, y: Value) -> Value:
    cube = t("multiply", t("multiply", x, t("multiply", x, x)), t.number(0.044715))
    tanh = t("tanh", t("multiply", t.number(0.7978845608), t("add", x, cube)))
    half = t("multiply", t.number(0.5), x)
    return t("multiply", half, t("add", t.number(1), tanh))


def _norm(t: _Terms, x: Value, y: Value) -> Value:
    size = t("add", t("multiply", x, x), t.number(0.01))
    return t("multiply", t("multiply", x, t("rsqrt", size)), y)


_FORMULAS: Mapping[str, Callable[[_Terms, Value, Value], Value]] = {
    "quotient": _quotient,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "quick gelu": _quick_gelu,
    "fast gelu": _fast_gelu,
    "norm": _norm,
}


def formula(b: Builder) -> None:
    """One of them, of moderate numbers; often with more axes of 1, beside others."""
    if b.depth or b.exact:
        raise Unsuitable
    x = b.operand(["f32", "f32", "f64"], quality=Quality.BITS, moderate=True)
    y = b.like(x.type, Quality.BITS, moderate=True)
    terms = _Terms(b, x)
    result = _FORMULAS[b.rng.choice(list(_FORMULAS))](terms, x, y)
    if b.rng.random() < 0.7:
        type_ = Type(x.type.element, (1,) * b.rng.choice([1, 1, 2]) + x.type.shape)
        terms.made = [(type_, Quality.CLOSE, None)]
        result = terms("reshape", result)
        if b.rng.random() < 0.5:
            other = b.like(type_, moderate=True)
            joined = Type(type_.element, (2, *type_.shape[1:]))
            made = [(joined, Quality.CLOSE, None)]
            b.step("concatenate", [result, other], made, "dimension = 0 : i64", scale=8)

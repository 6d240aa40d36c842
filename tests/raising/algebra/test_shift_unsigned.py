"""Divisions of many unsigned integers by powers of two as shifts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires
from rule_names import rule
from target_costs import use_costs, with_costs

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.targets import load_target

T = oir.DataType
MANY = with_costs(many_elements=4)


def edges(dtype: str) -> np.ndarray:
    known = np.iinfo(dtype)
    return np.array([known.min, known.min, known.max, known.max, 1, 3], dtype)


@pytest.mark.parametrize("divisor", [1, 2, 1 << 31])
def test_shifts(divisor: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar(divisor, T.UINT32))

    Rewrite(build, {"x": edges("u4")}, rule("shift-unsigned"), target=MANY).gives("BitShift")


@pytest.mark.parametrize("divisor", [3, 6, (1 << 32) - 1])
def test_other_divisors_stay(divisor: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar(divisor, T.UINT32))

    Rewrite(build, {"x": edges("u4")}, rule("shift-unsigned"), target=MANY).nothing()


def test_other_divisions_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar_like(4, x))

    assert not fires(build, {"x": edges("i4")}, rule("shift-unsigned"), target=MANY)
    assert not fires(build, {"x": np.ones(6, "f4")}, rule("shift-unsigned"), target=MANY)
    assert not fires(build, {"x": edges("u4")[:3]}, rule("shift-unsigned"), target=MANY)
    assert fires(build, {"x": edges("u4")}, rule("shift-unsigned"), target=MANY)
    assert not fires(build, {"x": edges("u4")}, rule("shift-unsigned"), target=load_target("onnx"))


def test_a_binary_search(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, many_elements=4)
    known = np.array([-np.inf, -1, 0, 0, 2, np.inf, np.nan], np.float32)
    at = np.array([np.nan, -np.inf, np.inf, 0, -0.0, 1, -2, 2], np.float32)
    program = hlo2onnx.translate(
        lambda x, v: jnp.searchsorted(x, v), known, at, without=["search-tree"]
    )
    fired = program.report.rules
    assert fired["shift-unsigned"] and fired["scalar-gather"]
    assert program.verify(known, at)

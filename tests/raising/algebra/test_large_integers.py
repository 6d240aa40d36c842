"""Selections and divisions of many integers as arithmetic."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires
from target_costs import use_costs, with_costs

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.large_integers import SelectIntegers, ShiftUnsigned
from hlo2onnx.targets import load_target

T = oir.DataType
MANY = with_costs(selected_integers=4)
C = np.array([True, False, True, False, True, False])


def edges(dtype: str) -> np.ndarray:
    known = np.iinfo(dtype)
    return np.array([known.min, known.min, known.max, known.max, 1, 3], dtype)


SELECTIONS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "any": (lambda b, c, x, y: b.Where(c, x, y), ("Cast", "Sub", "Mul", "Add")),
    "a sum": (lambda b, c, x, y: b.Where(c, b.Add(y, x), y), ("Cast", "Mul", "Add")),
    "a sum, reversed": (lambda b, c, x, y: b.Where(c, b.Add(x, y), y), ("Cast", "Mul", "Add")),
    "one more": (lambda b, c, x, y: b.Where(c, b.Add(y, b.scalar_like(1, y)), y), ("Cast", "Add")),
    "or zero": (lambda b, c, x, y: b.Where(c, x, b.scalar_like(0, x)), ("Cast", "Mul")),
    "or a number": (
        lambda b, c, x, y: b.Where(c, x, b.scalar_like(7, x)),
        ("Cast", "Sub", "Mul", "Add"),
    ),
    "other sums": (
        lambda b, c, x, y: b.Where(c, y, b.Add(y, x)),
        ("Add", "Cast", "Sub", "Mul", "Add"),
    ),
}


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_selections(name: str, dtype: str) -> None:
    build, names = SELECTIONS[name]
    inputs = {"c": C, "x": edges(dtype)[::-1].copy(), "y": edges(dtype)}
    Rewrite(build, inputs, SelectIntegers(), target=MANY).gives(*names)


def test_signs() -> None:
    """The sign of an integer is a clamped one."""

    def build(b: GraphBuilder, v: oir.Value, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        zero, one = b.scalar_like(0, v), b.scalar_like(1, v)
        more, less = b.Add(y, one), b.Less(v, zero)
        return [b.Where(less, x, y), b.Where(less, more, y), b.Where(b.Less(v, one), more, y)]

    signs = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 2], np.int32)
    inputs = {"v": signs, "x": edges("i4")[::-1].copy(), "y": edges("i4")}
    Rewrite(build, inputs, SelectIntegers(), target=MANY).gives(
        "Clip", "Clip", "Sub", "Mul", "Sub", "Sub", "Less", "Cast", "Add"
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "?"])
def test_other_types_stay(dtype: str) -> None:
    inputs = {"c": C, "x": np.ones(6, dtype), "y": np.zeros(6, dtype)}
    assert not fires(SELECTIONS["any"][0], inputs, SelectIntegers(), target=MANY)


def test_few_elements_and_shared_conditions_stay() -> None:
    build = SELECTIONS["any"][0]
    few = {"c": C[:3], "x": edges("i4")[:3], "y": edges("i4")[:3]}
    assert not fires(build, few, SelectIntegers(), target=MANY)
    shared = {"c": C[:1], "x": edges("i4"), "y": edges("i4")}
    assert not fires(build, shared, SelectIntegers(), target=MANY)
    many = {"c": C, "x": edges("i4"), "y": edges("i4")}
    assert fires(build, many, SelectIntegers(), target=MANY)
    assert not fires(build, many, SelectIntegers(), target=load_target("onnx"))


@pytest.mark.parametrize("divisor", [1, 2, 1 << 31])
def test_shifts(divisor: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar(divisor, T.UINT32))

    Rewrite(build, {"x": edges("u4")}, ShiftUnsigned(), target=MANY).gives("BitShift")


@pytest.mark.parametrize("divisor", [3, 6, (1 << 32) - 1])
def test_other_divisors_stay(divisor: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar(divisor, T.UINT32))

    Rewrite(build, {"x": edges("u4")}, ShiftUnsigned(), target=MANY).nothing()


def test_other_divisions_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Div(x, b.scalar_like(4, x))

    assert not fires(build, {"x": edges("i4")}, ShiftUnsigned(), target=MANY)
    assert not fires(build, {"x": np.ones(6, "f4")}, ShiftUnsigned(), target=MANY)
    assert not fires(build, {"x": edges("u4")[:3]}, ShiftUnsigned(), target=MANY)
    assert fires(build, {"x": edges("u4")}, ShiftUnsigned(), target=MANY)


def test_a_binary_search(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, selected_integers=4, gathered_scalars=4)
    known = np.array([-np.inf, -1, 0, 0, 2, np.inf, np.nan], np.float32)
    at = np.array([np.nan, -np.inf, np.inf, 0, -0.0, 1, -2, 2], np.float32)
    program = hlo2onnx.translate(lambda x, v: jnp.searchsorted(x, v), known, at)
    fired = program.report.rules
    assert fired["select-integers"] and fired["shift-unsigned"] and fired["scalar-gather"]
    assert program.verify(known, at)

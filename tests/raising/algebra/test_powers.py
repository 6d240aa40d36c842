"""Powers with small constant exponents on small graphs."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder

X = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, -3, 1e-30, -1e30, 1.1, 5e-39], np.float32)


def power(exponent: object) -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Pow(x, b.const(np.asarray(exponent))))  # type: ignore[no-any-return]

    return build


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_square(dtype: type) -> None:
    Rewrite(power(dtype(2)), {"x": X.astype(dtype)}, rule("power-to-product")).gives("Mul", "Neg")


@pytest.mark.parametrize("exponent", [np.float32(1), np.float32([1]), np.int64(1)])
def test_first_power(exponent: object) -> None:
    Rewrite(power(exponent), {"x": X}, rule("power-to-product")).gives("Neg")


OTHERS: dict[str, object] = {
    "cube": np.float32(3),
    "root": np.float32(0.5),
    "inverse": np.float32(-1),
    "several exponents": np.array([1, 2] * 5, np.float32),
    "more axes": np.array([[2]], np.float32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    Rewrite(power(OTHERS[name]), {"x": X}, rule("power-to-product"), tolerance=1e-6).nothing()


def test_integers() -> None:
    Rewrite(
        power(np.int32(2)), {"x": np.arange(3, dtype=np.int32)}, rule("power-to-product")
    ).nothing()

"""f64 functions spelled with the operators that ONNX Runtime has in f64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
import scipy.special
from accuracy import ulps
from against_xla import against_xla

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets.decompositions.functions import F64_FUNCTIONS

ENDS = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 709.8, 710.4, -710.4, 711, -711, 1e-300, -1e-300, 1.7e308, -1.7e308]
)
ENDS = np.concatenate([ENDS, [np.inf, -np.inf, np.nan]])

# operator: the exact function, where to look, ULP
CASES: dict[str, tuple[Callable[..., np.ndarray], tuple[float, float], int]] = {
    "Acos": (np.arccos, (-1, 1), 5),
    "Acosh": (np.arccosh, (1, 9), 3),
    "Asin": (np.arcsin, (-1, 1), 5),
    "Asinh": (np.arcsinh, (-9, 9), 4),
    "Atan": (np.arctan, (-9, 9), 5),
    "Atanh": (np.arctanh, (-1, 1), 4),
    "Cosh": (np.cosh, (-9, 9), 5),
    "Erf": (scipy.special.erf, (-7, 7), 3),
    "Sinh": (np.sinh, (-9, 9), 5),
    "Tan": (np.tan, (-99, 99), 7),
}


def run(op_type: str, x: np.ndarray) -> np.ndarray:
    """The decomposition of the operator, in ORT."""
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 18})
    builder = GraphBuilder(graph, 18)
    operand = builder.value("x", oir.DataType.DOUBLE, x.shape)
    graph.inputs.append(operand)
    graph.outputs.append(F64_FUNCTIONS[op_type](builder, operand))
    model = oir.serde.serialize_model(oir.Model(graph, ir_version=8))
    return OrtProgram(model.SerializeToString())({"x": x})[0]


def sweep(low: float, high: float) -> np.ndarray:
    """Evenly spread values, many near 0 and 1, and huge ones, within the limits."""
    near = 2.0 ** -np.arange(1, 53)
    sides = np.concatenate([near, -near, 1 - near, near - 1, 1 + near])
    huge = 10.0 ** np.arange(1, 300, 7) if high > 1 else []
    values = np.concatenate([np.linspace(low, high, 5001), sides])
    return np.concatenate([values[(values >= low) & (values <= high)], huge])


def truth(exact: Callable[..., np.ndarray], x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = x if exact is scipy.special.erf else x.astype(np.longdouble)
        return np.asarray(exact(wide), np.longdouble)


@pytest.mark.parametrize("op_type", CASES)
def test_accuracy(op_type: str) -> None:
    exact, domain, limit = CASES[op_type]
    x = sweep(*domain)
    assert ulps(run(op_type, x), truth(exact, x)) <= limit


@pytest.mark.parametrize("op_type", CASES)
def test_ends(op_type: str) -> None:
    """Infinities, overflow, the limits of the domain, and beyond them NaN."""
    exact = CASES[op_type][0]
    with np.errstate(all="ignore"):
        wanted = exact(ENDS)
    np.testing.assert_allclose(run(op_type, ENDS), wanted, rtol=1e-14, atol=0)


def test_near_the_poles_of_tan() -> None:
    x = np.arange(1, 2000, 2) * (np.pi / 2) + np.tile([0, 1e-9, -1e-5, 1e-3], 250)
    assert ulps(run("Tan", x), np.tan(x.astype(np.longdouble))) <= 7


@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
@pytest.mark.parametrize("op_type", CASES)
def test_shapes(op_type: str, shape: tuple[int, ...]) -> None:
    assert run(op_type, np.full(shape, 0.5)).shape == shape


def test_legalization_uses_them() -> None:
    run_ = against_xla(
        """
module { func.func public @main(%arg0: tensor<4xf64>) -> tensor<4xf64> {
  %0 = stablehlo.tan %arg0 : tensor<4xf64>
  %1 = chlo.erf %0 : tensor<4xf64> -> tensor<4xf64>
  return %1 : tensor<4xf64>
} }""",
        np.array([0.1, -0.7, 1.5, np.inf]),
    )
    run_.has_no("Tan", "Erf").close()

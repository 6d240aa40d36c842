"""Programs of f32 for targets without f64: the same numbers, and no f64 in the model."""

from __future__ import annotations

import json

import jax
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_jax, against_xla
from edge_values import edge_values
from jax import lax
from rewriting import model_of, run_model

from hlo2onnx.ir.accurate_math import multiply_add
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.algebra.uniform_random import UniformFma
from hlo2onnx.targets import load_target
from hlo2onnx.targets.builder import TargetBuilder

T = oir.DataType
RNG = np.random.default_rng(0)
SORT = """
module {{ func.func public @main(%arg0: tensor<2x40xf32>) -> (tensor<2x40xf32>, tensor<2x40xi32>) {{
  %n = stablehlo.iota dim = 1 : tensor<2x40xi32>
  %s:2 = "stablehlo.sort"(%arg0, %n) <{{dimension = 1 : i64, is_stable = true}}> ({{
  ^bb0(%l: tensor<f32>, %r: tensor<f32>, %l1: tensor<i32>, %r1: tensor<i32>):
    %before = stablehlo.compare {direction}, %l, %r, {kind} :
      (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %before : tensor<i1>
  }}) : (tensor<2x40xf32>, tensor<2x40xi32>) -> (tensor<2x40xf32>, tensor<2x40xi32>)
  return %s#0, %s#1 : tensor<2x40xf32>, tensor<2x40xi32>
}} }}"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """ONNX Runtime's kernels, but f64 does not count."""
    path = tmp_path_factory.mktemp("targets") / "single.json"
    path.write_text(json.dumps({"extends": "ort-cpu", "narrows_f64": True}))
    return str(path)


def has_f64(model: oir.Model) -> bool:
    values = [x for node in all_nodes(model.graph) for x in (*node.inputs, *node.outputs)]
    return any(x is not None and x.dtype == T.DOUBLE for x in values)


def single(run: Run) -> Run:
    assert not has_f64(run.program.model)
    return run


def test_which_targets_have_f64(target: str) -> None:
    found = {
        name: TargetBuilder(oir.Graph([], [], nodes=[]), 21, load_target(name)).has_f64
        for name in ("ort-cpu", "ort-web", "onnx", "ort-webgpu", "openvino", target)
    }
    assert found == {
        "ort-cpu": True, "ort-web": True, "onnx": True, "ort-webgpu": False, "openvino": False,
        target: False,
    }  # fmt: skip


# -- erf_inv ---------------------------------------------------------------------------------------


def test_erf_inv_is_xlas(target: str) -> None:
    """In f32 for all targets: at most 2 ULP from XLA, with the ends, NaN and tiny numbers."""
    ends = 1 - 2.0 ** -np.arange(1, 25)
    tiny = 2.0 ** -np.arange(1, 149, 3.0)
    some = [np.linspace(-1, 1, 20_001), ends, -ends, tiny, -tiny, [0.0, -0.0, 1, -1, 2, np.nan]]
    x = np.concatenate(some).astype(np.float32)
    run = single(against_jax(lax.erf_inv, x, target=target))
    (want,) = run.expected
    for (got,) in run.actual:
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        normal = np.isfinite(want) & (np.abs(want) >= np.finfo(np.float32).tiny)
        distance = np.abs(got[normal] - want[normal]) / np.spacing(np.abs(want[normal]))
        assert distance.max() <= 2
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
        np.testing.assert_array_equal(np.signbit(got[normal]), np.signbit(want[normal]))


# -- sorting ---------------------------------------------------------------------------------------


def floats(nan: bool) -> np.ndarray:
    """The edges, several times, without negative NaN. Comparisons in XLA flush denormals."""
    edges = edge_values("f32")
    usual = edges[~((edges != 0) & (np.abs(edges) < np.finfo(np.float32).tiny))]
    drawn = RNG.choice(usual, (2, 40)).astype(np.float32)
    return np.where(np.isnan(drawn), np.float32(np.nan if nan else 1), drawn)


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sorts_in_total_order(direction: str, target: str) -> None:
    """-0 < +0, and NaN above infinity, without BitCast."""
    text = SORT.format(direction=direction, kind="TOTALORDER")
    run = single(against_xla(text, floats(nan=True), target=target, opset=18))
    run.bit_exact().has_no("BitCast")
    finite = floats(nan=False)
    run = single(against_xla(text, finite, target=target, opset=18, nan="runtime")).bit_exact()
    assert run.nodes["TopK"] == 2
    for got in (outputs[0] for outputs in run.actual):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(run.expected[0]))


@pytest.mark.parametrize("descending", [False, True])
def test_sorts_of_numbers(descending: bool, target: str) -> None:
    x = floats(nan=True)
    single(against_jax(lambda x: jax.numpy.sort(x, descending=descending), x, target=target)
           ).bit_exact()  # fmt: skip
    single(against_jax(lambda x: jax.numpy.argsort(x, descending=descending), x, target=target)
           ).bit_exact()  # fmt: skip


def test_halves_are_sorted_in_f32(target: str) -> None:
    with np.errstate(over="ignore"):
        x = floats(nan=True).astype(np.float16)
    single(against_jax(jax.numpy.argsort, x, target=target)).bit_exact()


# -- sums of a product and a number ----------------------------------------------------------------


def test_multiply_add_rounds_once() -> None:
    """Also where the product and the number cancel."""
    x, y = (RNG.normal(size=4000).astype(np.float32) for _ in range(2))
    z = np.where(RNG.random(4000) < 0.5, -x * y, RNG.normal(size=4000)).astype(np.float32)
    model = model_of(lambda b, x, y, z: multiply_add(b, x, y, z), {"x": x, "y": y, "z": z})
    (got,) = run_model(model, {"x": x, "y": y, "z": z})
    exact = (x.astype(np.longdouble) * y + z).astype(np.float32)
    np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize(("low", "extent"), [(-3, 5.3), (0.1, 3), (-1e9, 1.7e9), (1e-7, -3e-8)])
def test_uniform_numbers(low: float, extent: float, target: str) -> None:
    bits = RNG.integers(1 << 32, size=3000, dtype=np.uint32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        number = b.cast(b.BitShift(x, b.scalar_like(9, x), direction="RIGHT"), T.FLOAT)
        product = b.Mul(b.Mul(number, b.scalar(2.0**-23, T.FLOAT)), b.scalar(extent, T.FLOAT))
        return b.Identity(b.Add(product, b.scalar(low, T.FLOAT)))

    model = model_of(build, {"x": bits})
    single_target = load_target(target)
    assert apply_rules(model, [UniformFma()], single_target)["uniform-fma"] == 1
    assert not has_f64(model)
    assert not apply_rules(model, [UniformFma()], single_target)
    (got,) = run_model(model, {"x": bits})
    fraction = (bits >> np.uint32(9)) * 2.0**-23
    want = fraction * np.float64(np.float32(extent)) + np.float64(np.float32(low))
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("extent", [2.0**61, 2.0**-61, 0.0])
def test_extreme_intervals_stay(extent: float, target: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        number = b.cast(b.BitShift(x, b.scalar_like(9, x), direction="RIGHT"), T.FLOAT)
        product = b.Mul(b.Mul(number, b.scalar(2.0**-23, T.FLOAT)), b.scalar(extent, T.FLOAT))
        return b.Identity(b.Add(product, b.scalar(0.1, T.FLOAT)))

    model = model_of(build, {"x": np.arange(3, dtype=np.uint32)})
    assert not apply_rules(model, [UniformFma()], load_target(target))


def test_jax_random_uniform(target: str) -> None:
    key = jax.random.key_data(jax.random.key(3))

    def draw(key: jax.Array) -> jax.Array:
        wrapped = jax.random.wrap_key_data(key)
        return jax.random.uniform(wrapped, (500,), np.float32, -3.0, 2.3)

    run = single(against_xla(jax.jit(draw).lower(key).as_text(), np.asarray(key), target=target))
    run.bit_exact()

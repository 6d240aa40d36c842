"""What legalization does about the faults of kernels on GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.export
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_jax
from jax import lax
from jax import numpy as jnp
from rewriting import model_of, run_model

from hlo2onnx import TranslationError, translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize

RNG = np.random.default_rng(0)
INF = np.inf


def table(folder: Path, **given: object) -> Path:
    path = folder / "gpu.json"
    path.write_text(json.dumps({"extends": "ort-cpu", **given}))
    return path


# -- TopK ------------------------------------------------------------------------------------------

TOP_K = {
    "ops": {"TopK": {"17-": "f64 i64"}}, "wrong": {"TopK": {"17-": "f32"}},
    "limited": {"TopK": {"17-": "f32"}}, "pads_top_k": True,
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "axis", "filled"), [
    ((3, 5), -1, (3, 8)), ((5, 3), 0, (8, 3)), ((2, 4), 1, None), ((1,), 0, None),
    ((2, 33, 2), -2, (2, 64, 2)),
])  # fmt: skip
def test_rows_are_filled_up(
    shape: tuple[int, ...], axis: int, filled: tuple[int, ...] | None, largest: int, tmp_path: Path
) -> None:
    """The numbers stay, with infinities and equal elements."""
    largest_number = np.finfo(np.float32).max
    x = RNG.choice(np.array([1, 2, INF, -INF, largest_number, -largest_number], np.float32), shape)

    def build(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, ...]:
        count = b.i64([shape[axis]])
        types = [(oir.DataType.FLOAT, shape), (oir.DataType.INT64, shape)]
        given = {"axis": axis, "largest": largest, "n_outputs": 2, "types": types}
        values, indices = b.outputs("TopK", x, count, **given)
        return b.Identity(values), b.Identity(indices)

    model = model_of(build, {"x": x})
    before = run_model(model, {"x": x})
    legalize(model, load_target(str(table(tmp_path, **TOP_K))), "xla", Report())
    (top_k,) = [node for node in model.graph if node.op_type == "TopK"]
    assert top_k.inputs[0] is not None and top_k.inputs[0].shape is not None
    assert top_k.inputs[0].shape.numpy() == (filled or shape)
    for new, old in zip(run_model(model, {"x": x}), before, strict=True):
        np.testing.assert_array_equal(new, old)


def test_rows_of_unknown_length_are_refused(tmp_path: Path) -> None:
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n", constraints=["n >= 2"]), np.float32)
    exported = jax.export.export(jax.jit(jnp.sort))(x)
    with pytest.raises(TranslationError, match="TopK"):
        translate(exported, target=table(tmp_path, **TOP_K), nan="runtime")


# -- bounds and NaN --------------------------------------------------------------------------------

LOSES_NAN = {
    "ops": {"Clip": {"17-": "i64"}, "Relu": {"17-": "i32"}},
    "wrong": {"Clip": {"17-": "f32"}, "Relu": {"17-": "f32"}},
    "limited": {"Clip": {"17-": "f32"}, "Relu": {"17-": "f32"}},
}


def test_bounds_keep_nan(tmp_path: Path) -> None:
    x = np.array([np.nan, -3, 0.5, 7, INF], np.float32)
    target = table(tmp_path, **LOSES_NAN)
    run = against_jax(lambda x: jnp.exp(jnp.maximum(x, 0)), x, target=target).close()
    assert run.nodes == {"Max": 1, "Exp": 1}
    run = against_jax(lambda x: jnp.exp(jnp.clip(x, -1, 2)), x, target=target).close()
    assert run.nodes == {"Max": 1, "Min": 1, "Exp": 1}


def test_nan_may_be_left_to_the_target(tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    target = table(tmp_path, **LOSES_NAN)
    nodes = translate(lambda x: jnp.exp(jnp.maximum(x, 0)), x, target=target, nan="runtime")
    assert nodes.report.nodes == {"Relu": 1, "Exp": 1}


def test_bounds_without_max_are_refused(tmp_path: Path) -> None:
    rows = {**LOSES_NAN, "ops": {**LOSES_NAN["ops"], "Max": {}}}
    with pytest.raises(TranslationError, match=r"Relu|Max"):
        translate(lambda x: jnp.exp(jnp.maximum(x, 0)), np.ones(3, np.float32),
                  target=table(tmp_path, **rows))  # fmt: skip


# -- normalizations --------------------------------------------------------------------------------


def normalized(x: jnp.ndarray) -> jnp.ndarray:
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return centered * lax.rsqrt(variance + 1e-5) * jnp.arange(8, dtype=x.dtype)


def test_rows_are_centered(tmp_path: Path) -> None:
    x = RNG.normal(size=(4, 8)).astype(np.float32) + 3
    plain = translate(normalized, x).report.nodes
    assert plain == {"LayerNormalization": 1}
    run = against_jax(normalized, x, target=table(tmp_path, naive_variance=True)).close()
    assert run.nodes == {"ReduceMean": 1, "Sub": 1, "LayerNormalization": 1}


def test_instances_are_centered(tmp_path: Path) -> None:
    x = RNG.normal(size=(2, 3, 8)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        ones = b.const(np.ones(3, np.float32))
        types = [(oir.DataType.FLOAT, (2, 3, 8))]
        return b.op("InstanceNormalization", x, ones, ones, types=types)

    model = model_of(build, {"x": x})
    legalize(model, load_target(str(table(tmp_path, naive_variance=True))), "xla", Report())
    (mean,) = (node for node in model.graph if node.op_type == "ReduceMean")
    assert const_ints(mean.inputs[1]) == (2,)


# -- functions outside their domains ---------------------------------------------------------------

EDGES = np.array(
    [np.nan, INF, -INF, 0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 1e-30, 1e30, 80, -80], np.float32
)
FUNCTIONS = {
    "Acosh": jnp.arccosh, "Asinh": jnp.arcsinh, "Atanh": jnp.arctanh, "Cosh": jnp.cosh,
    "Exp": jnp.exp, "Log": jnp.log, "Sigmoid": jax.nn.sigmoid,
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_at_the_edges(name: str, tmp_path: Path) -> None:
    target = table(tmp_path, ignores_domains=True)
    run = against_jax(FUNCTIONS[name], EDGES, target=target).close()
    assert run.nodes["Where"]
    plain = translate(FUNCTIONS[name], EDGES, target=target, nan="runtime")
    assert not plain.report.nodes["Where"]


def test_powers_at_the_edges(tmp_path: Path) -> None:
    x, y = (side.reshape(-1) for side in np.meshgrid(EDGES, EDGES))
    known = np.abs(y) <= 3  # XLA flushes the results of others
    given = x[known], y[known]
    run = against_jax(jnp.power, *given, target=table(tmp_path, ignores_domains=True)).close()
    assert run.nodes["Where"] >= 4


@pytest.mark.parametrize("name", ["Acosh", "Atanh", "Log"])
def test_no_number_of_a_kernel_outside_its_domain_is_used(name: str, tmp_path: Path) -> None:
    """The guard chooses by the operand alone, whatever the kernel gives."""
    model = model_of(lambda b, x: b.Identity(b.op(name, x)), {"x": EDGES})
    (want,) = run_model(model, {"x": EDGES})
    legalize(model, load_target(str(table(tmp_path, ignores_domains=True))), "xla", Report())
    (kernel,) = [node for node in model.graph if node.op_type == name]
    kernel.op_type = "Abs"
    (got,) = run_model(model, {"x": EDGES})
    outside = ~np.isfinite(want) & (EDGES != INF)
    np.testing.assert_array_equal(got[outside], want[outside])


def test_what_is_known_to_be_inside_is_not_guarded(tmp_path: Path) -> None:
    target = table(tmp_path, ignores_domains=True)
    x = np.ones(3, np.int8)
    function = lambda x: jnp.log(jnp.exp2(jnp.float32(0) + (x & 3)) + 1)  # noqa: E731
    nodes = translate(lambda x: jnp.exp((x & 3).astype(jnp.float32)), x, target=target).report.nodes
    assert not nodes["Where"]
    assert translate(function, x, target=target).report.nodes["Log"]
    cubes = translate(lambda x: x**3.0, np.ones(3, np.float32), target=target).report.nodes
    assert not cubes["Where"]


def test_integers_are_not_filled_up(tmp_path: Path) -> None:
    target = table(tmp_path, **TOP_K)
    x = RNG.integers(-9, 9, (3, 5))
    program = translate(lambda x: lax.top_k(x, 2), x, target=target)
    assert "Pad" not in program.report.nodes

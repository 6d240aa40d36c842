"""Weights keep their names, types and sizes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import onnxruntime as ort
import pytest

import hlo2onnx
import hlo2onnx.errors

RNG = np.random.default_rng(0)
Params = dict[str, Any]
X = RNG.normal(size=(4, 64)).astype(np.float32)
INT8 = RNG.integers(-127, 128, (64, 64)).astype(np.int8)
INT4 = INT8.clip(-8, 7).astype(jnp.int4)
SCALE = RNG.uniform(0.5, 1, 64).astype(np.float32)
FLOATS = RNG.normal(size=(64, 64)).astype(np.float32)


def bound(function: Callable[..., Any], p: Any, x: Any = X, **options: Any) -> Any:
    program = hlo2onnx.translate(function, p, x, bind="p", **options)
    found = program.verify(x)
    assert found.ok, found
    return program


def stored(program: Any) -> dict[str, oir.Value]:
    return dict(program.model.graph.initializers)


# -- bytes -----------------------------------------------------------------------------------------


def per_channel(p: Params, x: jax.Array) -> jax.Array:
    return x @ (p["w"].astype(jnp.float32) * p["s"])


def transposed(p: Params, x: jax.Array) -> jax.Array:
    return x @ (p["w"].astype(jnp.float32) * p["s"]).T


def per_row(p: Params, x: jax.Array) -> jax.Array:
    return x @ (p["w"].astype(jnp.float32) * p["s"][:, None])


def shifted(p: Params, x: jax.Array) -> jax.Array:
    return x @ ((p["w"].astype(jnp.float32) - p["z"]) * p["s"])


def shifted_in_integers(p: Params, x: jax.Array) -> jax.Array:
    wide = p["w"].astype(jnp.int32) - p["q"].astype(jnp.int32)
    return x @ (wide.astype(jnp.float32) * p["s"])


def blocked(p: Params, x: jax.Array) -> jax.Array:
    blocks = p["w"].reshape(4, 16, 64).astype(jnp.float32) * p["blocks"][:, None]
    return x @ blocks.reshape(64, 64)


def widened(p: Params, x: jax.Array) -> jax.Array:
    return x @ p["w"].astype(jnp.float32) + p["b"].astype(jnp.float32)


def looked_up(p: Params, x: jax.Array) -> jax.Array:
    return p["w"].astype(jnp.float32)[x[0].astype(jnp.int32) % 64]


PACKED = (per_channel, shifted, blocked)

QUANTIZED = {
    "s": SCALE,
    "z": np.full(64, 3, np.float32),
    "q": np.arange(64, dtype=np.int8),
    "blocks": RNG.uniform(0.5, 1, (4, 64)).astype(np.float32),
}


@pytest.mark.parametrize("opset", [17, 18, 20])
def test_types_that_the_opset_lacks_are_folded(opset: int) -> None:
    """It has no int4; the report says what grew."""
    program = bound(per_channel, {"w": INT4, "s": SCALE}, opset=opset)
    assert "p/w" in str(program.report) and program.report.nodes == {"MatMul": 1}
    assert program.report.weights.after > program.report.weights.before


@pytest.mark.parametrize(
    "function", [per_channel, transposed, per_row, shifted, shifted_in_integers, blocked, looked_up]
)
@pytest.mark.parametrize("weights", [INT8, INT4], ids=["int8", "int4"])
def test_stored_weights_keep_their_type(function: Callable[..., Any], weights: Any) -> None:
    p = {"w": weights, **QUANTIZED}
    program = bound(function, p)
    bits = oir.DataType.from_numpy(weights.dtype).bitwidth
    sizes = [v.const_value.size * v.dtype.bitwidth for v in stored(program).values()]
    assert max(sizes) == 64 * 64 * bits and sizes.count(64 * 64 * bits) == 1
    is_packed = bits == 4 and function in PACKED
    assert is_packed == ("MatMulNBits" in program.report.nodes)
    assert program.report.weights.after <= program.report.weights.before
    assert "Transpose" not in program.report.nodes


@pytest.mark.parametrize(
    ("function", "zeros", "block"),
    [(per_channel, 0, 0), (transposed, 0, 0), (per_row, 0, 0), (shifted, 1, 0),
     (shifted_in_integers, 1, 0), (blocked, 0, 16)],
)  # fmt: skip
def test_the_standard_dequantizes(function: Callable[..., Any], zeros: int, block: int) -> None:
    program = hlo2onnx.translate(function, {"w": INT8, **QUANTIZED}, X, bind="p", target="onnx")
    assert program.report.nodes == Counter(DequantizeLinear=1, MatMul=1)
    node = next(n for n in program.model.graph if n.op_type == "DequantizeLinear")
    assert len(node.inputs) == 2 + zeros
    assert node.attributes.get_int("block_size", 0) == block


@pytest.mark.parametrize(
    "zero", [np.full(64, 0.5, np.float32), np.full(64, 200, np.float32)], ids=["half", "large"]
)
def test_zero_points_that_the_type_lacks(zero: Any) -> None:
    program = hlo2onnx.translate(
        shifted, {"w": INT8, "s": SCALE, "z": zero}, X, bind="p", target="onnx"
    )
    assert program.report.nodes == Counter(Cast=1, Sub=1, Mul=1, MatMul=1)


@pytest.mark.parametrize("opset", [20, 21])
def test_blocks_need_opset_21(opset: int) -> None:
    p = {"w": INT8, **QUANTIZED}
    program = hlo2onnx.translate(blocked, p, X, bind="p", target="onnx", opset=opset)
    assert program.report.nodes["DequantizeLinear"] == (opset == 21)


def test_widened_parameters_stay_narrow() -> None:
    p = {"w": FLOATS.astype(jnp.bfloat16), "b": np.zeros(64, jnp.bfloat16)}
    program = bound(widened, p)
    assert {v.dtype for v in stored(program).values()} == {oir.DataType.BFLOAT16}
    assert "bytes in the program" in str(program.report)


def test_captured_weights_keep_their_type() -> None:
    program = hlo2onnx.translate(lambda x: per_channel({"w": jnp.asarray(INT8), "s": SCALE}, x), X)
    assert program.verify(X).ok
    assert program.report.weights.after <= program.report.weights.before == 64 * 64 + 64 * 4
    assert json.loads(program.report.to_json())["weights"]["reasons"] == []


def test_the_report_says_why_weights_grew() -> None:
    table = RNG.normal(size=(32, 32)).astype(np.float32)
    program = bound(lambda p, x: (x @ p) * (x @ jnp.sin(p)), table, X[:, :32])
    weights = program.report.weights
    assert weights.after > weights.before == table.nbytes
    assert weights.reasons[0].startswith("p is stored 2 times: p, p (folded)")


def test_folding_adds_no_bytes() -> None:
    def grown(p: Params, x: jax.Array) -> jax.Array:
        return x + p["row"] * p["column"] + jnp.sin(p["table"]) * jnp.cos(p["table"])

    p = {"row": FLOATS[:1], "column": FLOATS[:, :1], "table": FLOATS}
    program = bound(grown, p, FLOATS)
    assert program.report.weights.after == program.report.weights.before
    assert program.report.nodes == Counter(Mul=2, Add=2, Sin=1, Cos=1)


# -- names -----------------------------------------------------------------------------------------


def lora(p: Params, x: jax.Array) -> jax.Array:
    for name in ("q", "k", "v"):
        x = x @ p[name]["w"] + (x @ p[name]["a"]) @ p[name]["b"]
    return x


def test_equal_parameters_stay_apart() -> None:
    p = {name: {"w": FLOATS + i, "a": FLOATS[:, :2] * i, "b": np.zeros((2, 64), np.float32)}
         for i, name in enumerate("qkv", 1)}  # fmt: skip
    names = {f"p/{name}/{part}" for name in "qkv" for part in "wab"}
    assert names <= set(stored(bound(lora, p)))


def test_the_same_array_is_stored_once() -> None:
    table = np.tile(FLOATS, (2, 1))  # large enough not to be copied
    program = bound(lambda p, x: (x @ p["a"].T) @ p["b"], {"a": table, "b": table})
    assert list(stored(program)) == ["p/a"]
    assert json.loads(program.model.metadata_props["hlo2onnx.weights"]) == {"p/a": ["p/a", "p/b"]}


@pytest.mark.parametrize("operation", ["x + p", "x * (1 + p)", "x * p", "p * (x @ p.T @ p)"])
@pytest.mark.parametrize("number", [0.0, 1.0, 7.5])
def test_no_parameter_vanishes_because_of_its_value(operation: str, number: float) -> None:
    function = eval(f"lambda p, x: {operation}")
    p = np.full((64, 64) if "@" in operation else (64,), number, np.float32)
    x = X if "@" not in operation else FLOATS
    program = bound(function, p, x)
    other = bound(function, RNG.normal(size=p.shape).astype(np.float32), x)
    assert program.report.nodes == other.report.nodes
    assert any(name.startswith("p") for name in stored(program))


def test_settings_are_part_of_the_program() -> None:
    """Integers of few elements decide shapes and branches."""
    program = hlo2onnx.translate(
        lambda p, x: jax.lax.cond(p == 3, lambda: x + 1, lambda: jnp.sin(x)),
        np.int32(3),
        X,
        bind="p",
    )
    assert program.report.nodes == Counter(Add=1)


def test_a_folded_parameter_says_so() -> None:
    images = RNG.normal(size=(1, 8, 8, 3)).astype(np.float32)
    p = {
        "conv": {"kernel": RNG.normal(size=(3, 3, 3, 4)).astype(np.float32)},
        "bn": {
            name: RNG.uniform(1, 2, 4).astype(np.float32)
            for name in ("scale", "bias", "mean", "var")
        },
    }

    def predict(p: Params, x: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(
            x, p["conv"]["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        bn = p["bn"]
        return (y - bn["mean"]) * (jax.lax.rsqrt(bn["var"] + 1e-5) * bn["scale"]) + bn["bias"]

    program = bound(predict, p, images)
    assert program.report.nodes["Conv"] == 1 and "Mul" not in program.report.nodes
    origins = json.loads(program.model.metadata_props["hlo2onnx.weights"])
    assert origins["p/conv/kernel (folded bn)"] == ["p/conv/kernel", "p/bn/var", "p/bn/scale"]
    assert set(stored(program)) == {*origins}


# -- other weights ---------------------------------------------------------------------------------


def network(p: Params, x: jax.Array) -> jax.Array:
    for layer in p["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"]) * p["scale"]
    return x @ p["layers"][0]["w"].T.astype(jnp.float32)


def parameters(seed: int) -> Params:
    rng = np.random.default_rng(seed)
    made = {
        "layers": [
            {"w": rng.normal(size=(64, 64)), "b": rng.normal(size=64) * seed} for _ in range(2)
        ],
        "scale": rng.normal(),
    }
    return jax.tree.map(lambda x: np.asarray(x, np.float32), made)


def images_network(p: Params, x: jax.Array) -> jax.Array:
    for kernel, scale, shift in p["convs"]:
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x * scale + shift)
    return x


def kernels(seed: int, number: float = 0) -> Params:
    rng = np.random.default_rng(seed)
    convs = []
    for _ in range(2):
        kernel = rng.normal(size=(3, 3, 4, 4)) if not number else np.full((3, 3, 4, 4), number)
        convs.append([kernel, rng.uniform(0.5, 2, 4), rng.normal(size=4)])
    return jax.tree.map(lambda x: np.asarray(x, np.float32), {"convs": convs})


IMAGES = RNG.normal(size=(1, 6, 6, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "make", "x"), [(network, parameters, X), (images_network, kernels, IMAGES)]
)
@pytest.mark.parametrize("as_mapping", [False, True])
def test_new_weights_are_those_of_a_translation(
    function: Callable[..., Any], make: Callable[..., Any], x: Any, as_mapping: bool
) -> None:
    program = bound(function, make(0), x)
    assert program.apply_weights({"p": make(1)} if as_mapping else make(1))
    other = bound(function, make(1), x)
    assert str(program.model) == str(other.model)
    assert program.weights.keys() == other.weights.keys()
    for name, array in other.weights.items():
        np.testing.assert_array_equal(program.weights[name], array)
    np.testing.assert_array_equal(program(x), other(x))
    assert program.verify(x).ok


def test_narrow_weights_are_rounded_again() -> None:
    program = bound(network, parameters(0), weights_dtype="bfloat16")
    assert program.apply_weights(parameters(1))
    other = bound(network, parameters(1), weights_dtype="bfloat16")
    np.testing.assert_array_equal(program(X), other(X))


def test_a_module_gives_new_weights() -> None:
    import equinox as eqx

    one, other = (eqx.nn.MLP(64, 8, 32, 1, key=jax.random.key(seed)) for seed in (0, 1))
    for make in (lambda m: m, jax.vmap):
        x = X if make is jax.vmap else X[0]
        program = hlo2onnx.translate(make(one), x)
        assert program.apply_weights(make(other))
        np.testing.assert_allclose(program(x), make(other)(x), rtol=1e-4, atol=1e-5)
        assert program.verify(x).ok


def test_complex_weights() -> None:
    def rotated(p: Any, x: jax.Array) -> jax.Array:
        return jnp.real(x * p)

    one, other = (np.exp(1j * RNG.normal(size=64)).astype(np.complex64) for _ in range(2))
    program = bound(rotated, one)
    assert program.apply_weights(other)
    np.testing.assert_allclose(program(X), rotated(other, X), rtol=1e-5)


UNLIKE: dict[str, tuple[Callable[..., Any], Any, Any, str]] = {
    "no longer shared": (
        lambda p, x: x @ p["a"] @ p["b"],
        {"a": FLOATS, "b": FLOATS}, {"a": FLOATS, "b": FLOATS + 1}, "no longer equal",
    ),
    "a size": (
        lambda p, x: x * p["n"] + p["w"],
        {"n": np.int32(2), "w": SCALE}, {"n": np.int32(3), "w": SCALE}, "p/n, a setting, has",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_weights_that_need_another_graph(name: str) -> None:
    function, before, after, reason = UNLIKE[name]
    program = bound(function, before)
    assert not program.apply_weights(after)
    assert reason in program.report.notes[-1]
    np.testing.assert_allclose(program(X), function(after, X), rtol=1e-4, atol=1e-4)
    assert program.verify(X).ok
    assert program.apply_weights(after)


def test_folding_that_would_lose_digits() -> None:
    """A convolution with ones is exact, so that a scale stays apart."""
    program = bound(images_network, kernels(0), IMAGES)
    assert not program.apply_weights(kernels(1, 1.0))
    assert "may be exact" in program.report.notes[-1]
    assert program.verify(IMAGES).ok


@pytest.mark.parametrize(
    "tree",
    [{}, {"layers": []}, {"p": {"scale": 1.0}}, {**parameters(0), "scale": np.ones(3, np.float32)}],
)
def test_weights_that_do_not_fit(tree: Any) -> None:
    program = bound(network, parameters(0))
    with pytest.raises(hlo2onnx.errors.UsageError, match="weights"):
        program.apply_weights(tree)
    np.testing.assert_allclose(program(X), network(parameters(0), X), rtol=1e-3, atol=1e-3)
    with pytest.raises(hlo2onnx.errors.UsageError, match="no weights are bound"):
        hlo2onnx.translate(jnp.sin, X).apply_weights(tree)


# -- models without weights ------------------------------------------------------------------------


def test_the_graph_alone(tmp_path: Any) -> None:
    program = bound(network, parameters(0))
    path = tmp_path / "model.onnx"
    program.save(path, weights=False, strip=True)
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
    assert path.stat().st_size < 64 * 64
    options = ort.SessionOptions()
    values = [ort.OrtValue.ortvalue_from_numpy(array) for array in program.weights.values()]
    options.add_external_initializers(list(program.weights), values)
    session = ort.InferenceSession(str(path), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], program(X))


def test_weights_as_inputs(tmp_path: Any) -> None:
    program = bound(network, parameters(0))
    path = tmp_path / "model.onnx"
    program.save(path, weights="inputs")
    session = ort.InferenceSession(str(path))
    names = [item.name for item in session.get_inputs()]
    assert names == ["x", *program.weights]
    assert {"p/layers/0/w", "p/scale"} <= set(names)
    (result,) = session.run(None, {"x": X, **program.weights})
    np.testing.assert_allclose(result, program(X), rtol=1e-5, atol=1e-6)
    program.save(path)
    [found] = ort.InferenceSession(str(path)).run(None, {"x": X})
    np.testing.assert_array_equal(found, program(X))
    with pytest.raises(hlo2onnx.errors.UsageError, match="weights='outputs'"):
        program.save(path, weights="outputs")

"""Every kind of source gives the same program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jaxlib.mlir.dialects import stablehlo
from processes import run_python

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.mlir.context import new_context, parse_module
from hlo2onnx.frontend.mlir.values import module_bytecode

X = np.array([1.0, -2.0, 0.5], np.float32)
PARAMS = {"w": np.float32(2.0), "b": np.array([1.0, 2.0, 3.0], np.float32)}


@jax.jit
def model(x: Any, params: Any) -> Any:
    return {"y": jnp.tanh(x) * params["w"] + params["b"], "x": -x}


EXPECTED = {"y": np.tanh(X) * PARAMS["w"] + PARAMS["b"], "x": -X}
LOWERED = model.lower(X, PARAMS)
EXPORTED = jax.export.export(model)(X, PARAMS)
TEXT = LOWERED.as_text(debug_info=True)


def _bytecode(module: Any) -> bytes:
    return module_bytecode(module.operation)


def _vhlo_text() -> str:
    from jaxlib.mlir import ir

    return str(ir.Module.parse(EXPORTED.mlir_module_serialized, new_context()))


WITH_TREES: dict[str, Callable[[], Any]] = {
    "lowered": lambda: LOWERED,
    "traced": lambda: model.trace(X, PARAMS),
    "exported": lambda: EXPORTED,
    "serialized exported": lambda: bytes(EXPORTED.serialize()),
    "serialized exported as bytearray": EXPORTED.serialize,
}
BARE: dict[str, Callable[[], Any]] = {
    "module": lambda: LOWERED.compiler_ir("stablehlo"),
    "text": lambda: TEXT,
    "text as bytes": TEXT.encode,
    "text with a byte order mark": lambda: b"\xef\xbb\xbf" + TEXT.encode(),
    "text as PowerShell redirects it": lambda: TEXT.encode("utf-16"),
    "generic text": lambda: LOWERED.compiler_ir("stablehlo").operation.get_asm(
        print_generic_op_form=True, enable_debug_info=True
    ),
    "bytecode": lambda: _bytecode(LOWERED.compiler_ir("stablehlo")),
    "memoryview": lambda: memoryview(_bytecode(LOWERED.compiler_ir("stablehlo"))),
    "artifact": lambda: EXPORTED.mlir_module_serialized,
    "old artifact": lambda: stablehlo.serialize_portable_artifact(
        parse_module(TEXT, "text"), stablehlo.get_minimum_version()
    ),
    "vhlo text": _vhlo_text,
}


@pytest.mark.parametrize("kind", WITH_TREES)
def test_keeps_the_calling_convention(kind: str) -> None:
    program = hlo2onnx.translate(WITH_TREES[kind]())
    assert program.input_names == ["x", "params/b", "params/w"]
    assert program.output_names == ["result/x", "result/y"]
    results = program(X, PARAMS)
    assert results.keys() == EXPECTED.keys()
    for name, expected in EXPECTED.items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("kind", BARE)
def test_takes_flat_arrays(kind: str) -> None:
    program = hlo2onnx.translate(BARE[kind]())
    _check_flat(program)


def _check_flat(program: hlo2onnx.OnnxProgram) -> None:
    x, y = program(X, PARAMS["b"], PARAMS["w"])
    np.testing.assert_array_equal(x, EXPECTED["x"])
    np.testing.assert_allclose(y, EXPECTED["y"], rtol=1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["text", "bytecode", "artifact", "serialized exported"])
@pytest.mark.parametrize("as_string", [False, True])
def test_file(kind: str, as_string: bool, tmp_path: Path) -> None:
    content = {**BARE, **WITH_TREES}[kind]()
    path = tmp_path / "a model.mlir"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    program = hlo2onnx.translate(str(path) if as_string else path)
    assert program.report.source == "a model.mlir"
    if kind in BARE:
        _check_flat(program)
    else:
        np.testing.assert_array_equal(program(X, PARAMS)["x"], EXPECTED["x"])


def test_file_without_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    _check_flat(hlo2onnx.translate("model"))


def test_text_of_one_line() -> None:
    program = hlo2onnx.translate(
        'func.func @main(%a: tensor<f32> loc("a/b c")) -> tensor<f32> { return %a : tensor<f32> }'
    )
    assert program.input_names == ["a/b c"]


def test_users_modules_stay_as_they_are() -> None:
    lowered = model.lower(X, PARAMS)
    before = str(lowered.compiler_ir("stablehlo"))
    hlo2onnx.translate(lowered)
    hlo2onnx.translate(lowered.compiler_ir("stablehlo"))
    assert str(lowered.compiler_ir("stablehlo")) == before
    np.testing.assert_allclose(lowered.compile()(X, PARAMS)["y"], EXPECTED["y"], rtol=1e-6)


def test_vhlo_module_stays_as_it_is() -> None:
    from jaxlib.mlir import ir

    module = ir.Module.parse(EXPORTED.mlir_module_serialized, new_context())
    before = str(module)
    _check_flat(hlo2onnx.translate(module))
    assert str(module) == before


def test_quantized_types_parse() -> None:
    source = load("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}""")
    assert [port.element for port in source.signature.inputs] == ["f32"]


# -- functions --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [model, lambda x, params: model(x, params)])
def test_function_with_arrays(function: Any) -> None:
    program = hlo2onnx.translate(function, X, params=PARAMS)
    assert program.input_names == ["x", "params/b", "params/w"]
    np.testing.assert_array_equal(program(X, params=PARAMS)["x"], EXPECTED["x"])


def test_function_with_types() -> None:
    types = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (X, PARAMS))
    program = hlo2onnx.translate(model, *types)
    np.testing.assert_allclose(program(X, PARAMS)["y"], EXPECTED["y"], rtol=1e-6)


class Scaled(eqx.Module):
    """A module with all kinds of leaves, one of which is called like the argument."""

    x: jax.Array
    factor: float
    inference: bool
    activation: Any

    def __call__(self, x: Any, power: Any = 1) -> Any:
        scaled = self.activation(self.factor * x * self.x) ** power
        return scaled if self.inference else -scaled


@pytest.mark.parametrize("wrap", [lambda f: f, eqx.filter_jit])
def test_leaves_of_a_module(wrap: Any) -> None:
    """Numbers are settings of it, not inputs of the program; arguments stay inputs."""
    module = Scaled(jnp.array([1.0, 2.0, 3.0]), 2.0, True, jnp.tanh)
    program = hlo2onnx.translate(wrap(module), "b, 3", power=2)
    rows = np.stack([X, 2 * X])
    if wrap is eqx.filter_jit:
        assert program.input_names == ["x"]
    np.testing.assert_allclose(program(rows, power=2), module(rows, 2), rtol=1e-5)
    assert program.verify(rows, power=2).ok
    filtered = eqx.filter_vmap(module)
    np.testing.assert_allclose(hlo2onnx.translate(filtered, rows)(rows), module(rows), rtol=1e-5)


def _applied(layer: Any, x: Any) -> Any:
    return layer(x)


@pytest.mark.wide
@pytest.mark.parametrize("wrap", [lambda f: f, eqx.filter_jit])
def test_equinox_module_as_argument(wrap: Any) -> None:
    """Its activation functions are leaves, but no arrays."""
    net = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    program = hlo2onnx.translate(wrap(_applied), net, X)
    assert program.input_names == [
        *(f"layer/layers/{n}/{name}" for n in range(2) for name in ("weight", "bias")),
        "x",
    ]
    np.testing.assert_allclose(program(net, X), net(X), rtol=1e-5)
    assert program.verify(net, X).ok
    other = eqx.tree_at(lambda net: net.activation, net, jnp.tanh)
    with pytest.raises(hlo2onnx.SignatureError, match=r"args\[0\].activation is static"):
        program(other, X)
    with pytest.raises(hlo2onnx.SignatureError, match="missing"):
        program(X)


@pytest.mark.parametrize("bind", ["layer", 0, "value"])
def test_equinox_module_that_is_bound(bind: str | int) -> None:
    net = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    program = hlo2onnx.translate(_applied, net, X, bind={0: net} if bind == "value" else bind)
    assert program.input_names == ["x"]
    assert "layer/layers/0/weight" in program.model.graph.initializers
    np.testing.assert_allclose(program(X), net(X), rtol=1e-5)


def test_arguments_that_are_no_arrays() -> None:
    """JAX refuses them, as jit does; equinox takes them for settings."""

    def model(x: Any, function: Any, factor: Any) -> Any:
        return function(factor * x)

    with pytest.raises(TypeError, match="function"):
        hlo2onnx.translate(model, X, jnp.tanh, 2.0)
    program = hlo2onnx.translate(eqx.filter_jit(model), X, jnp.tanh, 2.0)
    assert program.input_names == ["x"]
    np.testing.assert_allclose(program(X, jnp.tanh, 2.0), np.tanh(2 * X), rtol=1e-5)
    with pytest.raises(hlo2onnx.SignatureError, match=r"args\[2\] is static"):
        program(X, jnp.tanh, X)


def test_texts_within_arguments_are_static() -> None:
    def model(x: Any, options: Any) -> Any:
        return x + 1 if options["mode"] == "next" else x

    program = hlo2onnx.translate(model, X, {"mode": "next"})
    np.testing.assert_array_equal(program(X, {"mode": "next"}), X + 1)
    with pytest.raises(hlo2onnx.SignatureError, match="mode"):
        program(X, {"mode": "same"})


def test_flax_module() -> None:
    layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    program = hlo2onnx.translate(layer, X)
    assert program.input_names == ["inputs"]
    assert "kernel/value" in program.model.graph.initializers
    np.testing.assert_allclose(program(X), layer(X), rtol=1e-5)


def test_lowered_of_equinox_and_flax() -> None:
    layer = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    program = hlo2onnx.translate(eqx.filter_jit(layer).lower(X))
    assert [value.shape.numpy() for value in program.model.graph.outputs][-1] == (2,)
    lowered = nnx.jit(lambda x: 2 * x).lower(X)
    assert len(hlo2onnx.translate(lowered).input_names) == 1


def test_option_that_is_also_a_parameter() -> None:
    def scaled(x: Any, target: Any) -> Any:
        return x * target

    with pytest.raises(hlo2onnx.UsageError, match=r"jax.jit\(f\).lower"):
        hlo2onnx.translate(scaled, X, target=jnp.float32(2))
    program = hlo2onnx.translate(jax.jit(scaled).lower(X, target=2.0))
    np.testing.assert_array_equal(program(X, target=3.0), X * 3)


def test_parameter_called_source() -> None:
    program = hlo2onnx.translate(lambda source: source + 1, source=X)
    np.testing.assert_array_equal(program(source=X), X + 1)


# -- what the module has that the function has not ---------------------------------------------


def _platform(x: Any) -> Any:
    return jax.lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2)


@pytest.mark.parametrize("exported", [False, True])
def test_platform_index_is_bound(exported: bool) -> None:
    function = jax.jit(_platform)
    if exported:
        source: Any = jax.export.export(function, platforms=("tpu", "cpu"))(X)
    else:
        source = function.trace(X).lower(lowering_platforms=("tpu", "cpu"))
    loaded = load(source)
    assert [port.name for port in loaded.signature.inputs] == ["x"]
    assert "dense<1> : tensor<i32>" in str(loaded.module)
    assert "_platform_index" not in str(loaded.module)


@pytest.mark.wide
def test_constants_that_are_arguments() -> None:
    out = run_python(
        """
        import jax, jax.numpy as jnp, numpy as np, hlo2onnx
        table, half = jnp.arange(3000.0), jnp.full(3000, 0.5, jnp.bfloat16)
        f = jax.jit(lambda unused, x: (x + table) * half.astype(jnp.float32))
        lowered = f.lower(1, 2.0)
        assert "jax.const" in lowered.as_text()
        program = hlo2onnx.translate(lowered)
        print(program.input_names, np.array_equal(program(1, 2.0), f(1, 2.0)))
        """,
        JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS="1",
    )
    assert out.strip() == "['x'] True"


def test_mutable_arrays_are_refused() -> None:
    def bump(ref: Any, x: Any) -> Any:
        ref[...] = ref[...] + x
        return x

    with pytest.raises(hlo2onnx.LoadError, match="mutable"):
        hlo2onnx.translate(jax.jit(bump).lower(jax.new_ref(jnp.ones(3)), 2.0))


# -- what is no source ------------------------------------------------------------------------


@pytest.mark.parametrize("source", [None, 3, 1.5, ["module {}"], np.zeros(3)])
def test_not_a_source(source: Any) -> None:
    with pytest.raises(hlo2onnx.LoadError, match=r"pass a jax\.stages\.Lowered"):
        hlo2onnx.translate(source)


def test_compiled_is_refused() -> None:
    with pytest.raises(hlo2onnx.LoadError, match=r"lower\(...\)"):
        hlo2onnx.translate(LOWERED.compile())


@pytest.mark.parametrize("source", [LOWERED, EXPORTED, TEXT])
def test_example_arguments_without_function(source: Any) -> None:
    with pytest.raises(hlo2onnx.UsageError, match="example arguments"):
        hlo2onnx.translate(source, X)


def test_function_name_without_module() -> None:
    with pytest.raises(hlo2onnx.UsageError, match="function="):
        hlo2onnx.translate(LOWERED, function="other")
    assert hlo2onnx.translate(LOWERED, function="main").input_names[0] == "x"

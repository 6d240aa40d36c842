"""`to_onnx` with the arguments of jax2onnx' function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as oir
import pytest

from hlo2onnx.compat.jax2onnx import ArgumentError, to_onnx
from hlo2onnx.errors import UsageError
from hlo2onnx.runtime.sessions import OrtProgram, check_model

S = jax.ShapeDtypeStruct
T = onnx.TensorProto
Types = list[tuple[str, int, list[int | str]]]


def ports(values: Any) -> Types:
    """Names, element types and shapes."""
    return [
        (
            value.name,
            value.type.tensor_type.elem_type,
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in values
    ]


def run(model: onnx.ModelProto, *arrays: Any) -> list[np.ndarray]:
    check_model(model)
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, map(np.asarray, arrays), strict=True))
    return list(OrtProgram(model.SerializeToString())(feeds))


def plus_one(x: jax.Array) -> jax.Array:
    return x + jnp.ones((), x.dtype)


N = jax.export.symbolic_shape("n, 3")
INPUTS: list[tuple[Any, bool, int, list[int | str]]] = [
    (("B", 3), False, T.FLOAT, ["B", 3]),
    ((), False, T.FLOAT, []),
    ((np.int64(2), 3), False, T.FLOAT, [2, 3]),
    (("B", "B"), False, T.FLOAT, ["B", "B"]),
    (("2*B", 3), False, T.FLOAT, ["2*B", 3]),
    (S(("batch", 3), np.int32), False, T.INT32, ["batch", 3]),
    (S(N, np.float32), False, T.FLOAT, ["n", 3]),
    (S((N[0], "m"), np.float32), False, T.FLOAT, ["n", "m"]),
    (jax.core.ShapedArray((2,), np.float32), False, T.FLOAT, [2]),
    (np.ones((2, 3), np.float32), False, T.FLOAT, [2, 3]),
    (jnp.ones(2, jnp.bfloat16), False, T.BFLOAT16, [2]),
    (S((2,), np.float64), False, T.FLOAT, [2]),
    (("B", 3), True, T.DOUBLE, ["B", 3]),
    (S((2,), np.float32), True, T.DOUBLE, [2]),
    (np.ones(2, np.float32), True, T.DOUBLE, [2]),
    (S((2,), np.int64), True, T.INT64, [2]),
    (S((2,), np.int32), True, T.INT32, [2]),
    (S((2,), np.float16), True, T.FLOAT16, [2]),
    (S((2,), np.complex64), True, T.DOUBLE, [2, 2]),
]


@pytest.mark.parametrize(("given", "double", "dtype", "dims"), INPUTS)
def test_forms_of_inputs(given: Any, double: bool, dtype: int, dims: list[int | str]) -> None:
    model = to_onnx(plus_one, [given], enable_double_precision=double)
    assert not jax.config.jax_enable_x64
    assert ports(model.graph.input) == [("in_0", dtype, dims)]
    assert ports(model.graph.output) == [("result", dtype, dims)]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
@pytest.mark.parametrize(("double", "dtype"), [(False, T.FLOAT), (True, T.DOUBLE)])
def test_the_setting_of_jax_does_not_count(double: bool, dtype: int) -> None:
    with jax.enable_x64(True):
        for given in ((2,), S((2,), np.float64)):
            weight = jnp.arange(2.0)
            model = to_onnx(lambda x, w=weight: x * w, [given], enable_double_precision=double)
            assert ports(model.graph.input) == [("in_0", dtype, [2])]
            np.testing.assert_array_equal(run(model, np.ones(2, onnx_type(dtype)))[0], weight)
        assert jax.config.jax_enable_x64


def test_the_model() -> None:
    inputs = [("B", 4), (4, 3)]
    model = to_onnx(lambda x, w: (x @ w, x.sum(1)), inputs, None, "linear", 17)
    assert isinstance(model, onnx.ModelProto)
    assert (model.graph.name, model.opset_import[0].version) == ("linear", 17)
    assert [name for name, *_ in ports(model.graph.output)] == ["result/0", "result/1"]
    x, w = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
    product, total = run(model, x, w)
    np.testing.assert_array_equal(product, x @ w)
    np.testing.assert_array_equal(total, x.sum(1))
    assert to_onnx(plus_one, inputs[:1]).graph.name == "jax_model"


def test_names() -> None:
    model = to_onnx(
        lambda x, y: (y, x), [(2,), (3,)], input_names=["a", "b"], output_names=["c", "d"]
    )
    assert [name for name, *_ in ports(model.graph.input)] == ["a", "b"]
    assert ports(model.graph.output) == [("c", T.FLOAT, [3]), ("d", T.FLOAT, [2])]


@pytest.mark.parametrize("name", ["Add", "in_0", "const_1.0"])
def test_inputs_that_nobody_reads(name: str) -> None:
    """They stay inputs, and no other value has their name."""
    model = to_onnx(
        lambda x, y, z: y + 1,
        [("B", 4), (3,), S((2,), np.complex64)],
        input_names=[name, "b", "c"],
    )
    dims: Types = [(name, T.FLOAT, ["B", 4]), ("b", T.FLOAT, [3]), ("c", T.FLOAT, [2, 2])]
    assert ports(model.graph.input) == dims
    x = np.ones(3, np.float32)
    (result,) = run(model, np.ones((5, 4), np.float32), x, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(result, x + 1)


def test_layouts() -> None:
    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x * 2, x.sum((1, 2))

    options: dict[str, Any] = {"inputs_as_nchw": [0, 1], "outputs_as_nchw": [0]}
    model = to_onnx(function, [("B", 4, 5, 3), (1, 2, 3, 4)], **options)
    assert [dims for *_, dims in ports(model.graph.input)] == [["B", 3, 4, 5], [1, 4, 2, 3]]
    assert [dims for *_, dims in ports(model.graph.output)] == [["B", 3, 4, 5], ["B", 3]]


class Affine(eqx.Module):
    weight: jax.Array

    def __call__(self, x: jax.Array, *, scale: Any = 1.0, flip: bool = False) -> jax.Array:
        return -self.weight * x if flip else self.weight * x * scale


def test_modules_keep_the_names_of_their_weights() -> None:
    model = to_onnx(Affine(jnp.arange(20.0)), [("B", 20)])
    assert "weight" in [tensor.name for tensor in model.graph.initializer]
    np.testing.assert_array_equal(run(model, np.ones((1, 20), np.float32))[0][0], np.arange(20))


@pytest.mark.parametrize(
    ("value", "dtype", "dims"),
    [
        (2.0, T.FLOAT, []),
        (2, T.INT32, []),
        (np.float64(2), T.FLOAT, []),
        (np.full(20, 2, np.float32), T.FLOAT, [20]),
    ],
)
def test_parameters_are_inputs(value: Any, dtype: int, dims: list[int | str]) -> None:
    model = to_onnx(Affine(jnp.arange(20.0)), [(20,)], {"scale": value}, input_names=["x"])
    assert ports(model.graph.input)[1:] == [("scale", dtype, dims)]
    (result,) = run(model, np.ones(20, np.float32), np.asarray(value, onnx_type(dtype)))
    np.testing.assert_array_equal(result, 2 * np.arange(20))


def onnx_type(dtype: int) -> Any:
    return onnx.helper.tensor_dtype_to_np_dtype(dtype)


def test_parameters_with_the_names_of_options() -> None:
    model = to_onnx(
        lambda x, *, opset, target: x * opset - target, [(2,)], {"target": 1.0, "opset": 3.0}
    )
    assert [name for name, *_ in ports(model.graph.input)] == ["in_0", "opset", "target"]
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(run(model, x, np.float32(3), np.float32(1))[0], 2 * x)


def test_parameters_of_several_arrays() -> None:
    parts = {"a": np.ones(2, np.float32), "b": [np.ones((), np.int32), 3]}
    model = to_onnx(lambda x, *, p: x + p["a"] + p["b"][0] + p["b"][1], [(2,)], {"p": parts})
    names = [name for name, *_ in ports(model.graph.input)]
    assert names == ["in_0", "p/a", "p/b/0", "p/b/1"]


@pytest.mark.parametrize(
    "function", [Affine(jnp.arange(20.0)), lambda x, *, flip: -jnp.arange(20.0) * x if flip else x]
)
def test_parameters_that_decide_what_python_does(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hlo2onnx.compat.jax2onnx"):
        model = to_onnx(function, [(20,)], {"flip": True})
    assert caplog.messages == ["input_params: flip=True is part of the model, and no input"]
    (result,) = run(model, np.ones(20, np.float32))
    np.testing.assert_array_equal(result, -np.arange(20))


def test_texts_are_part_of_the_model() -> None:
    def function(x: jax.Array, *, kind: str, more: Any) -> jax.Array:
        return {"double": 2 * x}[kind] if more is None else x

    model = to_onnx(function, [(2,)], {"kind": "double", "more": None})
    np.testing.assert_array_equal(run(model, np.ones(2, np.float32))[0], [2, 2])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "exported_model"
    for given in (path, str(path)):
        for mode in ("standard", "web"):
            options: dict[str, Any] = {"return_mode": "file", "export_mode": mode}
            found = to_onnx(plus_one, [("B", 3)], output_path=given, **options)
            assert found == str(path)
            assert ports(onnx.load(path).graph.input) == [("in_0", T.FLOAT, ["B", 3])]
            path.unlink()


def test_ir() -> None:
    model = to_onnx(plus_one, [("B", 3)], return_mode="ir")
    assert isinstance(model, oir.Model)
    assert [node.op_type for node in model.graph] == ["Add"]


def test_normalization_modes() -> None:
    def norm(x: jax.Array) -> jax.Array:
        return (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)

    counts = {
        mode: [
            n.op_type for n in to_onnx(norm, [(2, 9)], normalization_mode=mode).graph.node
        ].count("LayerNormalization")
        for mode in ("auto", "prefer_native", "force_decomposed")
    }
    assert counts == {"auto": 1, "prefer_native": 1, "force_decomposed": 0}


def test_notes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hlo2onnx.compat.jax2onnx"):
        to_onnx(lambda x: jax.random.uniform(jax.random.key(0), (3,)) + x, [(3,)])
    assert any("key" in message for message in caplog.messages)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fn": 3}, "fn=3 is not a function"),
    ({"inputs": 3}, "inputs=3 is not a list"),
    ({"inputs": ("B", 3)}, r"inputs\[0\] is 'B': give a shape"),
    ({"inputs": [(2,), 3]}, r"inputs\[1\] is 3: give a shape"),
    ({"inputs": [(None, 3)]}, r"inputs\[0\] has the dimension None: give a number, or a name"),
    ({"inputs": [(-1, 3)]}, "has the dimension -1"),
    ({"inputs": [("no name", 3)]}, r"inputs\[0\] has the shape"),
    ({"input_params": [1]}, "is not a mapping"),
    ({"input_params": {1: 2}}, "the key 1 is not a string"),
    ({"input_params": {"in_0": 2.0}}, "not unique: in_0, in_0"),
    ({"input_names": []}, "are not 1 names"),
    ({"input_names": [3]}, "3 is not a name"),
    ({"output_names": ["in_0"]}, "in_0 is the name of an input too"),
    ({"inputs_as_nchw": [1]}, "inputs_as_nchw: 1 is not the index of one of 1"),
    ({"outputs_as_nchw": [-1]}, "-1 is not the index"),
    ({"inputs_as_nchw": [0]}, "in_0 is not an image"),
    ({"return_mode": "file"}, "needs output_path="),
    ({"return_mode": "text"}, "return_mode='text' is not one of proto, ir, file"),
    ({"normalization_mode": "none"}, "is not one of auto"),
    ({"record_primitive_calls_file": "calls"}, "hlo2onnx has no equivalent"),
    ({"optset": 17}, "optset=17: hlo2onnx has no equivalent of this argument"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    def function(x: jax.Array, **more: jax.Array) -> jax.Array:
        return x + 1 + sum(more.values())

    arguments = {"fn": function, "inputs": [(3,)], **given}
    with pytest.raises(ArgumentError, match=message):
        to_onnx(**arguments)


def test_errors_are_those_of_jax2onnx() -> None:
    assert issubclass(ArgumentError, UsageError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(ArgumentError, TypeError)


def test_functions_that_jax_cannot_trace() -> None:
    with pytest.raises(jax.errors.TracerBoolConversionError):
        to_onnx(lambda x: x if x.sum() > 0 else -x, [(3,)])

"""OnnxProgram takes and returns what the JAX function takes and returns."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import hlo2onnx

X = np.array([1.0, -2.0, 0.5], np.float32)
Pair = collections.namedtuple("Pair", ["left", "right"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    step: Any
    weights: dict[str, Any]
    name: str = dataclasses.field(metadata={"static": True}, default="sgd")


def agrees(function: Any, *args: Any, jit: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """Asserts that the translated function gives what JAX gives; returns the program."""
    jitted = jax.jit(function, **(jit or {}))
    expected = jitted(*args, **kwargs)
    program = hlo2onnx.translate(jitted.lower(*args, **kwargs))
    results = program(*args, **kwargs)
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    for got, want in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        _same(got, want)
    return program


def _same(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if jax.dtypes.issubdtype(want.dtype, jax.dtypes.prng_key):
        got, want = jax.random.key_data(got), jax.random.key_data(want)
    elif want.dtype != jax.dtypes.float0:
        assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, want)


# -- pytrees ----------------------------------------------------------------------------------


def _gradient(x: Any, n: Any) -> Any:
    y, pullback = jax.vjp(lambda x, n: x * n, x, n)
    return pullback(y)


def _next_key(key: Any) -> Any:
    data = jax.random.key_data(key)
    return {"key": jax.random.wrap_key_data(data + 1, impl=jax.random.key_impl(key)), "same": key}


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "dicts, lists and None": (
        lambda p: [p["a"] + 1, None, {"b": p["c"][1], "x": ()}],
        ({"a": X, "c": [None, X]},),
        {},
    ),
    "a module of equinox": (
        lambda m: jax.tree.map(lambda a: -a, m),
        (eqx.nn.Linear(3, 2, key=jax.random.key(0)),),
        {},
    ),
    "keywords": (lambda x, *, a, b: x * b + a, (X,), {"b": X, "a": 2 * X}),
    "no arguments": (lambda: {"x": jnp.arange(3)}, (), {}),
    "no argument that is read": (lambda a: jnp.arange(3), (X,), {}),
    "one value twice": (lambda x, y: (x, y, x, x + y, x), (X, X), {}),
    "an array of JAX": (lambda x: x * 2, (jnp.asarray(X, jnp.bfloat16),), {}),
    "float64": (lambda x: x, (X.astype(np.float64),), {}),
    "complex128": (lambda x: x, (X.astype(np.complex128),), {}),
    "int64": (lambda x: x, (np.array([1, 2, 3]),), {}),
    "uint64": (lambda x: x, (np.array([1, 2, 3], np.uint64),), {}),
    "keys": (_next_key, (jax.random.split(jax.random.key(0), 3),), {}),
    "results of float0": (_gradient, (X, np.array([1, 2, 3], np.int32)), {}),
    "the function of a vjp": (jax.vjp(lambda x, n: x * n, X, np.int32(3))[1], (X,), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    function, args, kwargs = CALLS[name]
    agrees(function, *args, **kwargs)


def test_namedtuple() -> None:
    program = agrees(lambda p: Pair(p.right, [p.left]), Pair(X, 2 * X))
    assert isinstance(program(Pair(X, X)), Pair)


def test_dataclass() -> None:
    state = State(np.int32(3), {"w": X})
    program = agrees(lambda s: dataclasses.replace(s, step=s.step + 1), state)
    assert program(state).name == "sgd"


# -- arguments that are not inputs, inputs that are not arguments ------------------------------


def test_unused_arguments() -> None:
    program = agrees(lambda a, b, c: {"r": c["y"] - a}, X, X, {"x": X, "y": 2 * X})
    assert program.input_names == ["a", "c/y"]
    assert program(X, "anything", {"x": 1j, "y": X})["r"].shape == (3,)


def test_static_arguments_are_left_out() -> None:
    jitted = jax.jit(lambda x, n, *, mode: x * n if mode == "scale" else x, static_argnums=1,
                     static_argnames="mode")  # fmt: skip
    program = hlo2onnx.translate(jitted.lower(X, 3, mode="scale"))
    np.testing.assert_array_equal(program(X), 3 * X)
    with pytest.raises(hlo2onnx.SignatureError, match=r"unexpected  args\[1\]"):
        program(X, 3)
    with pytest.raises(hlo2onnx.SignatureError, match="static arguments are part of the program"):
        program(X, mode="scale")


@pytest.mark.parametrize(("static", "n"), [(1, 3), (-1, 3), ("n", 3), ((1,), 3)])
def test_static_arguments_that_translate_knows(static: Any, n: int) -> None:
    options = {"static_argnames": static} if isinstance(static, str) else {"static_argnums": static}
    jitted = jax.jit(lambda x, n: x * n, **options)
    program = hlo2onnx.translate(jitted, X, n)
    np.testing.assert_array_equal(program(X), 3 * X)
    np.testing.assert_array_equal(program(X, 3), 3 * X)
    with pytest.raises(hlo2onnx.SignatureError, match=r"static: the program was made with 3"):
        program(X, 4)


def test_static_keyword_that_translate_knows() -> None:
    jitted = jax.jit(lambda x, *, n, y: x * n + y, static_argnames="n")
    program = hlo2onnx.translate(jitted, X, n=3, y=X)
    np.testing.assert_array_equal(program(X, y=X), 4 * X)
    np.testing.assert_array_equal(program(X, y=X, n=3), 4 * X)
    with pytest.raises(hlo2onnx.SignatureError, match="argument n is static"):
        program(X, y=X, n=4)


def test_tokens_are_no_inputs() -> None:
    program = hlo2onnx.translate("""
func.func @main(%t: !stablehlo.token, %x: tensor<3xf32>) -> (!stablehlo.token, tensor<3xf32>) {
  %0 = stablehlo.negate %x : tensor<3xf32>
  return %t, %0 : !stablehlo.token, tensor<3xf32>
}""")
    np.testing.assert_array_equal(program(X), -X)


# -- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i1", "u4", "?", "c8", ml_dtypes.bfloat16])
def test_element_types(dtype: Any) -> None:
    agrees(lambda x, y: (y, x), np.array([1, 0, 3]).astype(dtype), np.ones((2, 0), dtype))


@pytest.mark.parametrize("dtype", ["f8", "i8", "u8", "c16"])
def test_element_types_of_x64(dtype: str) -> None:
    with jax.enable_x64(True):
        agrees(lambda x, y: (y, x), np.array([1, 0, 3]).astype(dtype), np.ones((2, 0), dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 2.5),
        ("float32", True),
        ("float32", float("inf")),
        ("bfloat16", 1.5),
        ("int8", -128),
        ("uint8", 255),
        ("uint32", 2**32 - 1),
        ("bool", False),
        ("complex64", 1 + 2j),
    ],
)
def test_python_scalars(dtype: str, value: Any) -> None:
    program = hlo2onnx.translate(lambda x: x, jax.ShapeDtypeStruct((), dtype))
    result = program(value)
    assert result.dtype == dtype
    assert result == np.asarray(value).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int32", 1.5, "must be int32, not 1.5"),
        ("bool", 1, "must be bool, not 1"),
        ("float32", 1j, "must be float32, not 1j"),
        ("int8", 128, "int8 and cannot hold 128"),
        ("uint32", -1, "uint32 and cannot hold -1"),
        ("float32", 10**400, "int too large"),
        ("int32", 10**30, "cannot hold 1000000000000000000000000000000"),
    ],
)
def test_python_scalars_that_do_not_fit(dtype: str, value: Any, message: str) -> None:
    program = hlo2onnx.translate(lambda x: x, jax.ShapeDtypeStruct((), dtype))
    with pytest.raises(hlo2onnx.SignatureError, match=message):
        program(value)


def test_wide_arrays_do_not_narrow_under_x64() -> None:
    program = hlo2onnx.translate(lambda x: x, X)
    with jax.enable_x64(True), pytest.raises(hlo2onnx.SignatureError, match="float32, not float64"):
        program(X.astype(np.float64))


def test_wide_integers_that_do_not_fit() -> None:
    program = hlo2onnx.translate(lambda x: x, np.array([1, 2], np.int32))
    with pytest.raises(hlo2onnx.SignatureError, match="cannot hold 1099511627776"):
        program(np.array([1, 2**40]))


def test_complex_numbers_keep_signs_and_nan() -> None:
    x = np.array([complex(-0.0, 1), complex(np.nan, -0.0), complex(2, np.inf)], np.complex64)
    result = agrees(lambda x: (x, x), x)(x)[0]
    np.testing.assert_array_equal(result.view(np.uint32), x.view(np.uint32))


# -- PRNG keys and float0 ----------------------------------------------------------------------


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_typed_keys(impl: str) -> None:
    program = agrees(_next_key, jax.random.key(3, impl=impl))
    result = program(jax.random.key(4, impl=impl))["key"]
    assert jax.random.key_impl(result) == jax.random.key_impl(jax.random.key(0, impl=impl))


def test_data_of_a_typed_key() -> None:
    program = hlo2onnx.translate(_next_key, jax.random.key(3))
    _same(program(jax.random.key_data(jax.random.key(3)))["same"], jax.random.key(3))


def test_key_of_another_kind() -> None:
    program = hlo2onnx.translate(_next_key, jax.random.key(3, impl="rbg"))
    with pytest.raises(hlo2onnx.SignatureError, match=r"of type key<rbg>, not key<unsafe_rbg>"):
        program(jax.random.key(3, impl="unsafe_rbg"))


def test_old_style_keys() -> None:
    program = agrees(lambda key: key + 1, jax.random.PRNGKey(3))
    np.testing.assert_array_equal(program(jax.random.key(3)), jax.random.PRNGKey(3) + 1)


@pytest.mark.parametrize("keep", [False, True])
def test_float0_arguments(keep: bool) -> None:
    zero = np.zeros((2,), jax.dtypes.float0)
    agrees(lambda x, t: x + 1, X, zero, jit={"keep_unused": keep})
    agrees(lambda x, t: (x + 1, t), X, zero)


# -- arguments that do not fit ------------------------------------------------------------------


@pytest.fixture(scope="module")
def affine() -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(lambda x, p, *, shift: x * p["w"] + shift, X, {"w": X}, shift=1.0)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"missing     args\[0\], args\[1\]\['w'\], shift="),
        ((X,), {"shift": 1.0}, r"missing     args\[1\]\['w'\]"),
        ((X, {"w": X}, X), {"shift": 1.0}, r"unexpected  args\[2\]"),
        ((X, {"w": X}, 1.0), {}, r"missing     shift=\n  unexpected  args\[2\]"),
        ((X, {"v": X}), {"shift": 1.0}, r"missing .*\['w'\]\n  unexpected .*\['v'\]"),
        ((X, {"w": None}), {"shift": 1.0}, r"missing     args\[1\]\['w'\]"),
        ((X, collections.OrderedDict(w=X)), {"shift": 1.0}, "expected  PyTreeDef"),
        ((X[:2], {"w": X}), {"shift": 1.0}, r"argument x must have shape \[3\], not \[2\]"),
        ((X, {"w": X[None]}), {"shift": 1.0}, r"p/w must have shape \[3\], not \[1, 3\]"),
        ((X, {"w": X}), {"shift": X}, r"argument shift must have shape \[\], not \[3\]"),
        ((X.astype(int), {"w": X}), {"shift": 1.0}, "argument x must be float32, not int64"),
        ((jax.ShapeDtypeStruct((3,), "f4"), {"w": X}), {"shift": 1.0}, "float32, not object"),
        ((jax.random.key(0), {"w": X}), {"shift": 1.0}, "argument x must be float32, not uint32"),
    ],
)
def test_bad_arguments(affine: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(hlo2onnx.SignatureError, match=message):
        affine(*args, **kwargs)


def test_bare_program() -> None:
    text = """
func.func @main(%a: tensor<3xf32> loc("a"), %b: tensor<?xi32> loc("b")) -> tensor<3xf32> {
  return %a : tensor<3xf32>
}"""
    program = hlo2onnx.translate(text.replace("?", "2"))
    assert program([1.0, 2.0, 3.0], np.array([1, 2])).tolist() == [1, 2, 3]
    for args, kwargs, message in [
        ((X,), {}, r"takes 2 arguments, not 1: a: float32\[3\], b: int32\[2\]"),
        ((X,), {"b": X}, "positional arguments only"),
        (([1.0, [2.0]], X), {}, "argument a is not an array"),
        ((None, X), {}, "argument a must be float32, not object"),
    ]:
        with pytest.raises(hlo2onnx.SignatureError, match=message):
            program(*args, **kwargs)


def test_tracers() -> None:
    program = hlo2onnx.translate(lambda x: x + 1, X)
    with pytest.raises(hlo2onnx.SignatureError, match="JAX cannot trace it"):
        jax.jit(program)(X)

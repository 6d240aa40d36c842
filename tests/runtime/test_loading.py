"""Saved models come back with their pytrees: with JAX, and without."""

from __future__ import annotations

import collections
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import hlo2onnx
from hlo2onnx.runtime.sessions import _NATIVE, _OTHERS

X = np.array([[1.0, -2.0, 0.5]], np.float32)
Pair = collections.namedtuple("Pair", ["left", "right"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    step: Any
    weights: Any
    name: str = dataclasses.field(metadata={"static": True}, default="sgd")


def saved(path: Path, function: Any, *args: Any, **kwargs: Any) -> hlo2onnx.OnnxProgram:
    program = hlo2onnx.translate(function, *args, **kwargs)
    program.save(path / "m.onnx")
    return program


def both(path: Path, types: tuple[type, ...] = ()) -> list[Any]:
    """The program, loaded with JAX and without."""
    name = path / "m.onnx"
    return [hlo2onnx.load(name, types=types), hlo2onnx.runtime.load(name, types=types)]


def signature(metadata: Any) -> Any:
    """The signature in the metadata of a model."""
    (name,) = [name for name in metadata if name.startswith("hlo2onnx.signature.")]
    return json.loads(metadata[name])


def same(got: Any, want: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


TREES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (lambda x: x, (X,), {}),
    (lambda *, b, a: {"sum": a + b, "none": None}, (), {"a": X, "b": X}),
    (lambda t: [t[1]["b"], (t[0], ())], ([X, {"b": 2 * X, "a": None}],), {}),
    (lambda p: Pair(p.right, [p.left]), (Pair(X, 2 * X),), {}),
    (lambda d: d, ({1: X, 0: 2 * X},), {}),
    (lambda d: d, ({("a", 1): X},), {}),
    (lambda d: d, (collections.OrderedDict(b=X, a=X),), {}),
    (lambda a, b, c: (c["y"], a), (X, X, {"x": X, "y": 2 * X}), {}),
    (lambda z: z * 1j, (np.array([1 - 0j, 2j], np.complex64),), {}),
    (lambda b: b + b, (np.array([1, 2], ml_dtypes.bfloat16),), {}),
    (lambda s: State(s.step + 1, {"w": -s.weights["w"]}), (State(np.int32(1), {"w": X}),), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), TREES)
def test_pytrees(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tmp_path: Path
) -> None:
    want = saved(tmp_path, function, *args, **kwargs)(*args, **kwargs)
    for program in both(tmp_path, (Pair, State)):
        got = program(*args, **kwargs)
        if isinstance(want, collections.OrderedDict):
            got = collections.OrderedDict(got)
        same(got, want)


def test_classes_that_are_not_given(tmp_path: Path) -> None:
    """The file names the classes, and nothing imports them."""
    state = State(np.int32(1), {"w": X}, "adam")
    saved(tmp_path, lambda s: (Pair(s.step, X), s), state)
    for program in both(tmp_path):
        pair, again = program(state)
        assert (pair.left, type(pair).__name__, type(pair) is Pair) == (1, "Pair", False)
        assert again.name == "adam"
        assert "State(" in repr(again)
        np.testing.assert_array_equal(again.weights["w"], X)
        same(program(again)[0].left, pair.left)
        same(program({"step": np.int32(1), "weights": {"w": X}})[0].left, pair.left)


def test_keys(tmp_path: Path) -> None:
    key = jax.random.key(3)
    want = saved(tmp_path, lambda k: (jax.random.split(k), jax.random.bits(k)), key)(key)
    with_jax, without = both(tmp_path)
    keys, bits = with_jax(key)
    assert keys.dtype == want[0].dtype
    same((jax.random.key_data(keys), bits), (jax.random.key_data(want[0]), want[1]))
    same(without(np.asarray(jax.random.key_data(key))), (jax.random.key_data(keys), bits))
    with pytest.raises(hlo2onnx.SignatureError, match=r"of type key<threefry2x32>, not key<rbg>"):
        hlo2onnx.load(tmp_path / "m.onnx")(jax.random.key(0, impl="rbg"))


def test_float0(tmp_path: Path) -> None:
    gradient = jax.grad(lambda i, x: (i * x).sum(), (0, 1), allow_int=True)
    args = (np.int32(2), X)
    want = saved(tmp_path, gradient, *args)(*args)
    for program in both(tmp_path):
        same(program(*args), want)


def test_channels_second(tmp_path: Path) -> None:
    image = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
    options = {"inputs_as_nchw": "x", "outputs_as_nchw": "result"}
    saved(tmp_path, lambda x: x[:, ::-1], image, **options)
    loaded = hlo2onnx.load(tmp_path / "m.onnx", source=lambda x: x[:, ::-1], args=(image,))
    assert loaded.verify(image)
    for program in [*both(tmp_path), loaded]:
        same(program(image), image[:, ::-1])
    assert "second" in str(loaded.model.graph.inputs[0].doc_string)


@pytest.mark.wide
def test_modules_with_functions_as_arguments(tmp_path: Path) -> None:
    import equinox as eqx

    mlp = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    want = saved(tmp_path, lambda m, x: m(x), mlp, X[0])(mlp, X[0])
    for program in both(tmp_path):
        same(program(mlp, X[0]), want)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "takes 1 positional arguments and the keywords k, not 0 positional arguments"),
        (({"a": X},), {"k": X}, r"args\[0\] must be a dict of a, b: missing b"),
        (({"a": X, "b": [X], "c": X},), {"k": X}, r"args\[0\] must be a dict .*unexpected c"),
        (({"a": X, "b": (X,)},), {"k": X}, r"args\[0\]\['b'\] must be a list of 1, not a tuple"),
        (({"a": X, "b": [X]},), {"k": X[:, 1:]}, r"k must have shape \[n, 3\], not \[1, 2\]"),
        (({"a": X[:0], "b": [X]},), {"k": X}, r"p/b/0 must have shape \[n, 3\]: 1 is not n"),
        (({"a": X, "b": [np.int16(1)]},), {"k": X}, "a?/b/0 must be float32, not int16"),
        (({"a": X, "b": [object()]},), {"k": X}, "b/0 must be float32, not object"),
    ],
)
def test_errors(args: Any, kwargs: Any, message: str, tmp_path: Path) -> None:
    _dynamic(tmp_path)
    with pytest.raises(hlo2onnx.SignatureError, match=message):
        hlo2onnx.runtime.load(tmp_path / "m.onnx")(*args, **kwargs)


def _dynamic(path: Path) -> hlo2onnx.OnnxProgram:
    text = {"a": "n, 3", "b": ["n, 3"]}
    shaped = jax.tree.map(lambda _: X, text)
    return saved(path, lambda p, *, k: p["a"] + p["b"][0] + k, shaped, k=X, dynamic="n, 3")


def test_symbols_without_sympy(tmp_path: Path) -> None:
    n, m = jax.export.symbolic_shape("n, m", constraints=["n >= m", "mod(n, 2) == 0"])
    shapes = [jax.ShapeDtypeStruct((2 * n + 1, m), jnp.float32), jax.ShapeDtypeStruct((n,), "f4")]
    exported = jax.export.export(jax.jit(lambda x, y: (x.sum() + y, x[: n // 2])))(*shapes)
    program = hlo2onnx.translate(exported)
    program.save(tmp_path / "m.onnx")
    for loaded in (program, *both(tmp_path)):
        assert loaded(np.ones((5, 2), np.float32), np.ones(2, np.float32))[1].shape == (1, 2)
        for x, y, message in [
            ((4, 1), 2, r"4 is not 2\*n \+ 1 for any n"),
            ((9, 1), 2, r"2 is not n where m = 1, n = 4"),
            ((5, 3), 2, r"the program needs n >= m, and has m = 3, n = 2"),
            ((7, 1), 3, r"the program needs .*\(n, 2\) == .*, and has m = 1, n = 3"),
        ]:
            with pytest.raises(hlo2onnx.SignatureError, match=message):
                loaded(np.ones(x, np.float32), np.ones(y, np.float32))


def test_programs_without_pytrees(tmp_path: Path) -> None:
    text = """
func.func @main(%a: tensor<?xf32> loc("p/w"), %b: tensor<?xf32> loc("b")) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}"""
    hlo2onnx.translate(text).save(tmp_path / "m.onnx")
    for program in both(tmp_path):
        same(program(X[0], X[0, :1]), X[0])
        with pytest.raises(hlo2onnx.SignatureError, match="takes 2 arguments, not 1: p/w: float32"):
            program(X[0])


def test_steps(tmp_path: Path) -> None:
    def decode(cache: jax.Array, position: jax.Array, z: jax.Array) -> Any:
        row = jnp.ones((1, 4), np.float32)
        return jax.lax.dynamic_update_slice(cache, row, (position, 0)), z * 2

    z = np.array([1j], np.complex64)
    jitted = jax.jit(decode, donate_argnums=(0, 2))
    program = hlo2onnx.translate(jitted.lower(np.zeros((8, 4), np.float32), np.int32(0), z))
    program.save(tmp_path / "m.onnx")
    for loaded in both(tmp_path):
        cache: Any = np.zeros((8, 4), np.float32)
        value: Any = z
        for position in range(3):
            cache, value = loaded.step(cache, np.int32(position), value)
        assert isinstance(cache, hlo2onnx.StateArray)
        assert np.asarray(cache)[:4, 0].tolist() == [1, 1, 1, 0]
        np.testing.assert_array_equal(value, 8 * z)
    assert signature(program.model.metadata_props)["in_place"] == [0]


def test_verification_needs_the_source(tmp_path: Path) -> None:
    jitted = jax.jit(lambda x: jnp.sin(x) + 1)
    program = saved(tmp_path, jitted, X)
    path = tmp_path / "m.onnx"
    loaded = hlo2onnx.load(path)
    with pytest.raises(hlo2onnx.UsageError, match=r"hlo2onnx.load\(path, source=...\)"):
        loaded.verify()
    with pytest.raises(hlo2onnx.UsageError, match="source= is not the program"):
        hlo2onnx.load(path, source=jax.jit(lambda x: jnp.sin(x) + 2).lower(X))
    assert hlo2onnx.load(path, source=jitted.lower(X)).verify(X)
    assert hlo2onnx.load(path, source=program).verify(X)
    assert loaded.profile(X, runs=1).milliseconds > 0
    loaded.save(tmp_path / "again.onnx")
    same(hlo2onnx.runtime.load(tmp_path / "again.onnx")(X), program(X))


def test_bound_arguments(tmp_path: Path) -> None:
    params = {"w": np.ones((3, 2), np.float32)}

    def apply(params: Any, x: jax.Array) -> jax.Array:
        return x @ params["w"]

    program = saved(tmp_path, apply, params, X, bind="params")
    source = {"source": apply, "args": (params, X)}
    for loaded in (program, *both(tmp_path)):
        same(loaded(X), X @ params["w"])
        with pytest.raises(hlo2onnx.SignatureError, match="params is part of the model"):
            loaded(params, X)
        with pytest.raises(hlo2onnx.SignatureError, match="params is part of the model"):
            loaded(X, params=params)
    assert hlo2onnx.load(tmp_path / "m.onnx", bind="params", **source).verify(X)
    with pytest.raises(hlo2onnx.UsageError, match="give the options of the translation"):
        hlo2onnx.load(tmp_path / "m.onnx", **source)


def test_what_the_model_says(tmp_path: Path) -> None:
    jitted = jax.jit(lambda z, n, k: (z * n, jax.random.bits(k)), static_argnums=1)
    program = saved(tmp_path, jitted, np.array([1j], np.complex64), 3, jax.random.key(0))
    model = onnx.load(tmp_path / "m.onnx")
    assert (model.producer_name, model.producer_version) == ("hlo2onnx", hlo2onnx.__version__)
    docs = [value.doc_string for value in (*model.graph.input, *model.graph.output)]
    assert docs[0] == "complex64[1], as pairs (re, im) in the last axis"
    assert docs[1] == "uint32[2]: the data of a PRNG key, key<threefry2x32>"
    found = signature({item.key: item.value for item in model.metadata_props})
    assert found["statics"] == {"1": "3"}
    origin = found["origin"]
    assert hlo2onnx.runtime.load(tmp_path / "m.onnx").origin == origin
    assert origin["jax"] == jax.__version__
    assert len(origin["sha256"]) == 64
    assert origin["source"] == program.report.source


def test_the_hash_ignores_where_the_source_is() -> None:
    first = hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(X))
    second = hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(X))
    assert first.model.metadata_props == second.model.metadata_props


def test_renamed_by_another_tool(tmp_path: Path) -> None:
    saved(tmp_path, lambda x: x + 1, X)
    model = onnx.compose.add_prefix(onnx.load(tmp_path / "m.onnx"), "p_")
    onnx.save(model, tmp_path / "m.onnx")
    for program in both(tmp_path):
        same(program(X), X + 1)


def test_two_models_in_one(tmp_path: Path) -> None:
    """Tools merge models of different signatures, and the result has both."""
    saved(tmp_path, lambda x: x + 1, X)
    first = onnx.load(tmp_path / "m.onnx")
    saved(tmp_path, lambda y: {"y": y - 1}, X)
    second = onnx.load(tmp_path / "m.onnx")
    merged = onnx.compose.merge_models(first, second, [], prefix1="1/", prefix2="2/")
    onnx.save(merged, tmp_path / "m.onnx")
    for load in (hlo2onnx.load, hlo2onnx.runtime.load):
        with pytest.raises(hlo2onnx.LoadError, match="merged of 2 models"):
            load(tmp_path / "m.onnx")


def test_inputs_in_another_order(tmp_path: Path) -> None:
    saved(tmp_path, lambda x, y: x - y, X, X)
    model = onnx.load(tmp_path / "m.onnx")
    inputs = list(model.graph.input)[::-1]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, tmp_path / "m.onnx")
    for load in (hlo2onnx.load, hlo2onnx.runtime.load):
        with pytest.raises(hlo2onnx.LoadError, match="y, x, its signature has x, y"):
            load(tmp_path / "m.onnx")


def test_external_weights(tmp_path: Path) -> None:
    weights = np.ones((3, 300), np.float32)
    program = hlo2onnx.translate(lambda x: x @ weights, X)
    program.save(tmp_path / "m.onnx", external_data=True)
    for loaded in both(tmp_path):
        same(loaded(X), program(X))
    loaded = hlo2onnx.load(tmp_path / "m.onnx")
    loaded.save(tmp_path / "whole.onnx", external_data=False)
    same(hlo2onnx.runtime.load(tmp_path / "whole.onnx")(X), program(X))
    loaded.save(tmp_path / "m.onnx")  # the weights beside it are gone
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m.onnx", "whole.onnx"]
    same(loaded(X), program(X))
    (tmp_path / "m.onnx").unlink()
    program.save(tmp_path / "m.onnx", external_data=True)
    next(tmp_path.glob("*.data")).unlink()
    for load in (hlo2onnx.load, hlo2onnx.runtime.load):
        with pytest.raises(hlo2onnx.Hlo2OnnxError, match=r"m.onnx-.*data"):
            load(tmp_path / "m.onnx")


def test_models_of_others(tmp_path: Path) -> None:
    saved(tmp_path, lambda x, y: x + y, X, X)
    path = tmp_path / "m.onnx"
    model = onnx.load(path)
    for text, message in [
        (None, "has no metadata hlo2onnx.signature"),
        ("{", "is damaged"),
        ('{"format": 2}', "upgrade hlo2onnx"),
        ('{"format": 1, "inputs": [], "outputs": []}', "another tool changed it"),
    ]:
        del model.metadata_props[:]
        if text is not None:
            model.metadata_props.add(key="hlo2onnx.signature.x", value=text)
        onnx.save(model, path)
        for load in (hlo2onnx.load, hlo2onnx.runtime.load):
            with pytest.raises(hlo2onnx.LoadError, match=message):
                load(path)
    for load in (hlo2onnx.load, hlo2onnx.runtime.load):
        with pytest.raises(hlo2onnx.LoadError, match=r"none.onnx"):
            load(tmp_path / "none.onnx")


def test_numbers_of_types() -> None:
    for name, number in {**_NATIVE, **_OTHERS}.items():
        dtype = onnx.helper.tensor_dtype_to_np_dtype(number)
        assert dtype.name == name


QUICK = """
import sys
import hlo2onnx, hlo2onnx.runtime
dir(hlo2onnx)
program = hlo2onnx.runtime.load(sys.argv[1])
import numpy as np
x = np.ones((2, 3))
assert program({"a": x, "b": [x]}, k=x).sum() == 18
heavy = {name.partition(".")[0] for name in sys.modules}
names = {"jax", "jaxlib", "onnx", "onnx_ir", "sympy", "ml_dtypes", "dialect_handlers"}
print(sorted(heavy & names))
"""


@pytest.mark.wide
def test_where_nothing_else_is_installed(tmp_path: Path) -> None:
    """A folder with numpy, ONNX Runtime and hlo2onnx alone, as with hlo2onnx-runtime."""
    _dynamic(tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    for package in (np, onnxruntime, hlo2onnx):
        folder = Path(str(package.__file__)).parent
        (site / folder.name).symlink_to(folder)
        for libraries in folder.parent.glob(f"{folder.name}.libs"):
            (site / libraries.name).symlink_to(libraries)

    def run(script: str) -> tuple[str, str]:
        script = f"import sys; sys.path.insert(0, {str(site)!r})\n{script}"
        command = [sys.executable, "-I", "-S", "-c", script, str(tmp_path / "m.onnx")]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return found.stdout, found.stderr

    assert run(QUICK) == ("[]\n", "")
    saved(tmp_path, lambda x: x + 1, np.ones(2, ml_dtypes.bfloat16))
    output, error = run("import hlo2onnx.runtime as r; r.load(sys.argv[1])(1.0)")
    assert output == ""
    assert "numpy has no type bfloat16\n  next   pip install --upgrade ml_dtypes" in error

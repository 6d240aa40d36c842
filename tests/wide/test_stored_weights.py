"""Weights stored in few bits keep them in models of six libraries, each parameter is found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

pytestmark = pytest.mark.wide

RNG = np.random.default_rng(0)
SIZE = 512
X = RNG.normal(size=(4, SIZE)).astype(np.float32)
Q = RNG.integers(-7, 8, (SIZE, SIZE))
S = RNG.uniform(0.01, 0.02, (1, SIZE)).astype(np.float32)
Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def product(x: Any, q: Any, s: Any) -> Any:
    return x @ (q.astype(jnp.float32) * s)


def plain(q: Any) -> Made:
    return lambda p, x: product(x, p["q"], p["s"]), ({"q": q, "s": S}, X), {"bind": "p"}


def linen(q: Any) -> Made:
    nn = pytest.importorskip("flax.linen")

    class Stored(nn.Module):  # type: ignore[name-defined,misc]
        @nn.compact
        def __call__(self, x: Any) -> Any:
            own = self.param("q", lambda key: jnp.asarray(q))
            return product(x, own, self.param("s", lambda key: jnp.asarray(S)))

    model = Stored()
    return model.apply, (model.init(jax.random.key(0), X), X), {"bind": "variables"}


def nnx(q: Any) -> Made:
    flax_nnx = pytest.importorskip("flax.nnx")

    class Stored(flax_nnx.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.q = flax_nnx.Param(jnp.asarray(q))
            self.s = flax_nnx.Param(jnp.asarray(S))

        def __call__(self, x: Any) -> Any:
            return product(x, self.q[...], self.s[...])

    return Stored(), (X,), {}


def equinox(q: Any) -> Made:
    eqx = pytest.importorskip("equinox")

    class Stored(eqx.Module):  # type: ignore[name-defined,misc]
        q: Any
        s: Any

        def __call__(self, x: Any) -> Any:
            return product(x, self.q, self.s)

    return Stored(jnp.asarray(q), jnp.asarray(S)), (X,), {}


def haiku(q: Any) -> Made:
    hk = pytest.importorskip("haiku")

    def network(x: Any) -> Any:
        own = hk.get_parameter("q", q.shape, q.dtype, lambda *_: jnp.asarray(q))
        return product(x, own, hk.get_parameter("s", S.shape, init=lambda *_: jnp.asarray(S)))

    made = hk.without_apply_rng(hk.transform(network))
    return made.apply, (made.init(jax.random.key(0), X), X), {"bind": "params"}


def keras(q: Any) -> Made:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    library = pytest.importorskip("keras")

    class Stored(library.layers.Layer):  # type: ignore[name-defined,misc]
        def build(self, shape: Any) -> None:
            name = str(q.dtype).replace("int4", "int8")  # keras has no int4 variables
            self.q = self.add_weight(name="q", shape=q.shape, dtype=name, trainable=False)
            self.s = self.add_weight(name="s", shape=S.shape)
            self.q._value, self.s._value = jnp.asarray(q), jnp.asarray(S)

        def call(self, inputs: Any) -> Any:
            return product(inputs, self.q.value, self.s.value)

    model = Stored()
    model.build(X.shape)
    return model, (X,), {}


@pytest.mark.parametrize("library", [plain, linen, nnx, equinox, haiku, keras])
@pytest.mark.parametrize(("dtype", "most"), [("int8", 1.05), ("int4", 0.55), ("bfloat16", 2.05)])
def test_bytes_per_weight(
    library: Callable[[Any], Made], dtype: str, most: float, tmp_path: Path
) -> None:
    function, args, options = library(Q.astype(jnp.dtype(dtype)))
    program = hlo2onnx.translate(function, *args, **options)
    path = tmp_path / "model.onnx"
    program.save(path)
    assert path.stat().st_size <= most * Q.size, path.stat().st_size / Q.size
    # MatMulNBits has a scale for each 256 rows, where the program has one for all.
    assert program.report.weights.after <= 1.02 * program.report.weights.before
    names = {name.removesuffix("/value").rpartition("/")[2] for name in program.weights}
    assert names == {"q", "s"}
    assert program.verify(X).ok


def norms(library: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], set[str]]:
    """A convolution, a batch normalization and a dense layer, and the paths of their weights."""
    images = RNG.normal(size=(2, 8, 8, 3)).astype(np.float32)
    if library == "linen":
        nn = pytest.importorskip("flax.linen")

        class Net(nn.Module):  # type: ignore[name-defined,misc]
            @nn.compact
            def __call__(self, x: Any) -> Any:
                x = nn.BatchNorm(use_running_average=True)(nn.Conv(8, (3, 3))(x))
                return nn.Dense(4)(nn.relu(x).mean((1, 2)))

        variables = Net().init(jax.random.key(0), images)
        paths, _ = jax.tree_util.tree_flatten_with_path(variables)
        names = {
            "variables/" + jax.tree_util.keystr(p, simple=True, separator="/") for p, _ in paths
        }
        return Net().apply, (variables, images), {"bind": "variables"}, names
    if library == "nnx":
        flax_nnx = pytest.importorskip("flax.nnx")
        rngs = flax_nnx.Rngs(0)

        class Layers(flax_nnx.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                self.conv = flax_nnx.Conv(3, 8, (3, 3), rngs=rngs)
                self.norm = flax_nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
                self.head = flax_nnx.Linear(8, 4, rngs=rngs)

            def __call__(self, x: Any) -> Any:
                return self.head(flax_nnx.relu(self.norm(self.conv(x))).mean((1, 2)))

        names = {"conv/kernel", "conv/bias", "head/kernel", "head/bias"}
        names |= {f"norm/{name}" for name in ("scale", "bias", "mean", "var")}
        return Layers(), (images,), {}, {f"{name}/value" for name in names}
    os.environ.setdefault("KERAS_BACKEND", "jax")
    library_keras = pytest.importorskip("keras")
    layers = library_keras.layers
    model = library_keras.Sequential(
        [library_keras.Input((8, 8, 3)), layers.Conv2D(8, 3), layers.BatchNormalization(),
         layers.ReLU(), layers.GlobalAveragePooling2D(), layers.Dense(4)]
    )  # fmt: skip
    return model, (images,), {}, {variable.path for variable in model.variables}


@pytest.mark.parametrize("library", ["linen", "nnx", "keras"])
def test_every_parameter_is_found(library: str) -> None:
    function, args, options, names = norms(library)
    program = hlo2onnx.translate(function, *args, **options)
    assert program.verify(args[-1]).ok
    origins = json.loads(program.model.metadata_props["hlo2onnx.weights"])
    found = {path for name in program.weights for path in origins.get(name, [name])}
    assert found == names
    assert any("(folded" in name for name in origins)
